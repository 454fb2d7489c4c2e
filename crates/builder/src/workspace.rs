//! Workspace of a build: a directory that is removed with it.

use crate::{EngineError, Home};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use tote_state::{locked, new_id};
use tote_sys::best_effort;

/// Prefix of the name of a directory that is not yet locked.
const NAMELESS: &str = ".";

/// Locked directory of a build. Drop removes it; if the build is killed, the next one does.
#[derive(Debug)]
pub struct Workspace {
    path: PathBuf,
    made: u32,
    lock: Option<OwnedFd>,
    /// Process that removes the directory if this one cannot.
    guard: Option<Child>,
}

/// Upper directory of an overlay, and the work directory of overlayfs.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub upper: PathBuf,
    pub work: PathBuf,
}

impl Workspace {
    /// Makes a workspace; `guard` starts what removes it if this process is killed.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn make(home: &Home, guard: &dyn Fn(&Path) -> Option<Child>) -> Result<Self, EngineError> {
        let builds = home.builds();
        for dir in ["", "cache", "kept", "mounts", "work"] {
            make_dir(&builds.join(dir), 0o700)?;
        }
        let all = builds.join("work");
        sweep(&all);
        let id = new_id()?;
        let path = all.join(id.short());
        let nameless = all.join(format!("{NAMELESS}{}", id.short()));
        let lock = take(&nameless, &path)?;
        let (lock, guard) = (Some(lock), guard(&path));
        Ok(Self {
            path,
            made: 0,
            lock,
            guard,
        })
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of a directory that is not there yet.
    pub(crate) fn next(&mut self) -> PathBuf {
        self.made += 1;
        self.path.join(self.made.to_string())
    }

    /// Goes on in a directory of the workspace, in a forked process that has it for itself.
    pub(crate) fn move_to(&mut self, dir: &Path) {
        dir.clone_into(&mut self.path);
        self.made = 0;
    }

    /// Makes two new directories.
    pub(crate) fn scratch(&mut self) -> Result<Scratch, EngineError> {
        let dir = self.next();
        let scratch = Scratch {
            upper: dir.join("u"),
            work: dir.join("w"),
        };
        // The upper directory's mode is that of the step's root.
        for (path, mode) in [(&dir, 0o700), (&scratch.upper, 0o755), (&scratch.work, 0o700)] {
            make_dir(path, mode)?;
        }
        Ok(scratch)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        best_effort(tote_sys::remove_tree(&self.path));
        // The guard that waits for the lock finds nothing to remove. A process that a step has left behind, such as the one
        // that takes the network down a second later, has a copy of the descriptor: only an unlock frees all copies.
        if let Some(lock) = self.lock.take() {
            best_effort(tote_sys::flock(&lock, FlockOperation::Unlock));
        }
        if let Some(guard) = &mut self.guard {
            best_effort(tote_sys::await_program(guard));
        }
    }
}

/// Waits until the build in this directory has ended, and removes its remains if it was killed.
///
/// # Errors
/// [`EngineError::State`].
pub fn guard_build(work: &Path) -> Result<(), EngineError> {
    match locked::directory_at_its_end(work) {
        // The build has ended, and removed it.
        Ok(None) => Ok(()),
        Err(errno) => Err(EngineError::file("lock", work)(errno)),
        Ok(Some(_lock)) => tote_sys::remove_tree(work).map_err(EngineError::file("remove", work)),
    }
}

/// Returns the path of a directory's next entry, of those that this build makes there and calls by their numbers.
///
/// # Errors
/// [`EngineError::State`] if the entries cannot be counted: a number that is given twice would mix what is called by it.
pub(crate) fn next_in(dir: &Path) -> Result<PathBuf, EngineError> {
    let entries = std::fs::read_dir(dir).map_err(EngineError::file("list", dir))?;
    Ok(dir.join(entries.count().to_string()))
}

/// Removes the directories of killed builds.
pub(crate) fn sweep(all: &Path) {
    // absence: the next build lists them again
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        // A directory that cannot be removed now is found again by the next build.
        best_effort(locked::remove_stale(&entry.path()));
    }
}

/// Makes a directory, locks it and gives it its name. Another build's sweep may remove the directory at any moment
/// before the lock is held; then it is made again.
fn take(nameless: &Path, path: &Path) -> Result<OwnedFd, EngineError> {
    loop {
        match make(nameless, 0o700) {
            Err(("set the mode of", Errno::NOENT)) => continue,
            made => made.map_err(|(attempt, errno)| EngineError::file(attempt, nameless)(errno))?,
        }
        let locked = locked::directory(nameless, FlockOperation::LockExclusive);
        if let Some(lock) = locked.map_err(EngineError::file("lock", nameless))? {
            rustix::fs::rename(nameless, path).map_err(EngineError::file("rename", nameless))?;
            return Ok(lock);
        }
    }
}

/// Makes a directory with that mode, whatever the umask; an existing one is accepted.
///
/// # Errors
/// [`EngineError::State`].
pub fn make_dir(path: &Path, mode: u32) -> Result<(), EngineError> {
    make(path, mode).map_err(|(attempt, errno)| EngineError::file(attempt, path)(errno))
}

/// Makes a directory like [`make_dir`]; the error names the failed step.
fn make(path: &Path, mode: u32) -> Result<(), (&'static str, Errno)> {
    let mode = Mode::from_raw_mode(mode);
    match rustix::fs::mkdir(path, mode) {
        Err(Errno::EXIST) => return Ok(()),
        made => made.map_err(|errno| ("make", errno))?,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let set = rustix::fs::open(path, flags, Mode::empty()).and_then(|dir| rustix::fs::fchmod(dir, mode));
    set.map_err(|errno| ("set the mode of", errno))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A process that a step leaves behind has a copy of the lock's descriptor for as long as it lives.
    #[test]
    fn the_end_frees_the_lock_of_all_copies() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("build");
        let lock = take(&dir.path().join(".build"), &path).unwrap();
        let _copy = lock.try_clone().unwrap();
        let guard = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let attempt = || tote_sys::flock(&guard, FlockOperation::NonBlockingLockExclusive);
        assert_eq!(attempt(), Err(Errno::WOULDBLOCK));
        drop(Workspace {
            path,
            made: 0,
            lock: Some(lock),
            guard: None,
        });
        assert_eq!(attempt(), Ok(()));
    }

    /// Other builds sweep at any moment, also between the steps of this one.
    #[test]
    fn a_directory_that_is_swept_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let all = dir.path();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        sweep(all);
                    }
                });
            }
            let made: Vec<_> = (0..500)
                .map(|number| {
                    let path = all.join(number.to_string());
                    let lock = take(&all.join(format!(".{number}")), &path)?;
                    // The process with the lock has the directory, and what it makes in it.
                    for name in ["u", "w"] {
                        make_dir(&path.join(name), 0o700)?;
                    }
                    let are_there = ["u", "w"].map(|name| path.join(name).try_exists().unwrap());
                    Ok((lock, are_there))
                })
                .collect::<Vec<Result<_, EngineError>>>();
            over.store(true, Ordering::Relaxed);
            for made in made {
                assert_eq!(made.unwrap().1, [true, true]);
            }
        });
    }
}
