//! Where a build works: a directory that goes with it.

use crate::{EngineError, Home};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Child;
use tote_state::new_id;
use tote_sys::best_effort;

/// How the name of a directory begins that is not yet locked.
const NAMELESS: &str = ".";

/// The directory of a build, locked. It is removed when this is dropped, and by the next build if that cannot happen.
#[derive(Debug)]
pub(crate) struct Workspace {
    path: PathBuf,
    made: u32,
    lock: Option<OwnedFd>,
    /// Who removes the directory if this process cannot.
    guard: Option<Child>,
}

/// An upper directory of an overlay, and the other one that overlayfs wants for itself.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub(crate) upper: PathBuf,
    pub(crate) work: PathBuf,
}

impl Workspace {
    pub(crate) fn make(home: &Home, guard: &dyn Fn(&Path) -> Option<Child>) -> Result<Self, EngineError> {
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

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Two new directories.
    pub(crate) fn scratch(&mut self) -> Result<Scratch, EngineError> {
        self.made += 1;
        let dir = self.path.join(self.made.to_string());
        let scratch = Scratch {
            upper: dir.join("u"),
            work: dir.join("w"),
        };
        // The upper layer's mode is that of the root which the step sees.
        for (path, mode) in [(&dir, 0o700), (&scratch.upper, 0o755), (&scratch.work, 0o700)] {
            make_dir(path, mode)?;
        }
        Ok(scratch)
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        best_effort(tote_sys::remove_tree(&self.path));
        // Whoever waits for the lock finds nothing to do.
        drop(self.lock.take());
        if let Some(guard) = &mut self.guard {
            best_effort(guard.wait());
        }
    }
}

/// Waits until the build that works in this directory has ended, and removes what it left: it was killed then.
///
/// # Errors
/// [`EngineError::State`].
pub fn guard_build(work: &Path) -> Result<(), EngineError> {
    match lock(work, FlockOperation::LockExclusive) {
        // It ended before this process looked.
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(EngineError::file("lock", work)(errno)),
        Ok(_lock) => tote_sys::remove_tree(work).map_err(EngineError::file("remove", work)),
    }
}

/// Removes what killed builds left.
pub(super) fn sweep(all: &Path) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let path = entry.path();
        if lock(&path, FlockOperation::NonBlockingLockExclusive).is_ok() {
            best_effort(tote_sys::remove_tree(&path));
        }
    }
}

/// Makes a directory, locks it and gives it its name. Another build that sweeps may remove the directory at any step
/// before the lock is there; then it is made again.
fn take(nameless: &Path, path: &Path) -> Result<OwnedFd, EngineError> {
    loop {
        match make(nameless, 0o700) {
            Err(("set the mode of", Errno::NOENT)) => continue,
            made => made.map_err(|(attempt, errno)| EngineError::file(attempt, nameless)(errno))?,
        }
        let locked = lock(nameless, FlockOperation::LockExclusive);
        match locked.and_then(|lock| Ok((lock, rustix::fs::rename(nameless, path)?))) {
            Ok((lock, ())) => return Ok(lock),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(EngineError::file("lock", nameless)(errno)),
        }
    }
}

/// Locks a directory that nobody else has.
pub(super) fn lock_now(path: &Path) -> Result<OwnedFd, Errno> {
    lock(path, FlockOperation::NonBlockingLockExclusive)
}

fn lock(path: &Path, operation: FlockOperation) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(path, flags, Mode::empty())?;
    rustix::fs::flock(&dir, operation)?;
    Ok(dir)
}

/// Makes a directory with that mode, whatever the umask; one that is there will do.
pub(crate) fn make_dir(path: &Path, mode: u32) -> Result<(), EngineError> {
    make(path, mode).map_err(|(attempt, errno)| EngineError::file(attempt, path)(errno))
}

/// As [`make_dir`]; an error says which step failed.
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

    /// Another build sweeps at any moment, between the steps of this one, too.
    #[test]
    fn a_directory_that_is_swept_is_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let all = dir.path();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    sweep(all);
                }
            });
            let made: Vec<_> = (0..500)
                .map(|number| {
                    let path = all.join(number.to_string());
                    let lock = take(&all.join(format!(".{number}")), &path)?;
                    Ok((lock, path.try_exists().unwrap()))
                })
                .collect::<Vec<Result<_, EngineError>>>();
            over.store(true, Ordering::Relaxed);
            for made in made {
                assert!(made.unwrap().1, "whoever has the lock has the directory");
            }
        });
    }
}
