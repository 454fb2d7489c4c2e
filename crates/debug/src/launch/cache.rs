//! Launchers that are kept for later sessions with the same tools.
//!
//! ```text
//! LAUNCHERS/
//! ├── BOOT-TREE-STATE/   0700; each session that has it mounted holds a shared lock on it
//! │   └── root/           0755: the lowest layer of a session's root
//! └── .making-PID         in the making; its maker holds an exclusive lock on it
//! ```
//!
//! A finished directory gets its name by rename and never changes. Nothing is synced: after another boot the names are others.

use super::Layout;
use super::key::Key;
use super::tree::ASIDE;
use crate::{EngineError, Home};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags, ResolveFlags, mkdirat, openat, symlinkat};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use tote_sandbox::WrittenFile;
use tote_state::{closed, locked};
use tote_sys::Errno;

/// Name of the layer in its directory.
const LAYER: &str = "root";

/// Beginning of the names of directories in the making.
const MAKING: &str = ".making-";

/// Number of times that a directory is made again because a sweep took it.
const ATTEMPTS: usize = 8;

/// Opens the launchers of that key, and makes them with `make` if they are missing.
///
/// # Errors
/// [`EngineError::State`].
pub(super) fn open(
    home: &Home,
    key: &Key,
    make: &dyn Fn() -> Layout,
) -> Result<(PathBuf, OwnedFd), EngineError> {
    let dir = home.launchers();
    let (tools, name) = key.names();
    let path = dir.join(&name);
    for attempt in 0..ATTEMPTS {
        match locked::directory(&path, FlockOperation::LockShared) {
            Ok(Some(lock)) => return Ok((path.join(LAYER), lock)),
            Ok(None) => {}
            Err(errno) => return Err(EngineError::file("lock", &path)(errno)),
        }
        closed::directory(&dir).map_err(EngineError::file("make", &dir))?;
        sweep(&dir, &tools, &name);
        let making = dir.join(format!("{MAKING}{}-{attempt}", std::process::id()));
        build(&making, &path, &make())?;
    }
    Err(EngineError::file("make", &path)(Errno::AGAIN))
}

/// Removes launchers of earlier states of these tools and of other boots, and those that were never finished, unless a session or
/// a maker has them. What cannot be removed takes space and does no harm.
fn sweep(dir: &Path, tools: &str, keep: &str) {
    let boot = tools.split('-').next().unwrap_or_default();
    // absence: what is not removed takes space and does no harm
    for name in tote_state::record::names_in(dir).unwrap_or_default() {
        let is_old = !name.starts_with(boot) || name.starts_with(tools) && name != keep;
        if is_old {
            tote_sys::best_effort(locked::remove_stale(&dir.join(name)));
        }
    }
}

/// Removes the launchers of all tools that no session has.
///
/// # Errors
/// [`EngineError::State`].
pub fn forget(home: &Home) -> Result<(), EngineError> {
    let dir = home.launchers();
    for name in tote_state::record::names_in(&dir)? {
        let path = dir.join(name);
        locked::remove_stale(&path).map_err(EngineError::file("remove", &path))?;
    }
    Ok(())
}

/// Makes the directory under the name `making` first. If another process was faster, its directory stays. Makes none if the name
/// is another process's, of another PID namespace, or a sweep has taken the directory before it was locked.
fn build(making: &Path, path: &Path, layout: &Layout) -> Result<(), EngineError> {
    match rustix::fs::mkdir(making, Mode::RWXU) {
        Err(Errno::EXIST) => return Ok(()),
        made => made.map_err(EngineError::file("make", making))?,
    }
    let lock = match locked::directory(making, FlockOperation::NonBlockingLockExclusive) {
        Ok(Some(lock)) => lock,
        Ok(None) => return Ok(()),
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
        Err(error) => return Err(EngineError::file("lock", making)(error)),
    };
    let made = fill(lock.as_fd(), layout).and_then(|()| match rustix::fs::rename(making, path) {
        Err(Errno::EXIST | Errno::NOTEMPTY) => tote_sys::remove_tree(making),
        renamed => renamed.map_err(std::io::Error::from),
    });
    made.map_err(|source| {
        tote_sys::best_effort(tote_sys::remove_tree(making));
        EngineError::file("make", making)(source)
    })
}

/// Writes the layer. Files come before links, so that no path of a file leads through one.
fn fill(dir: BorrowedFd<'_>, layout: &Layout) -> std::io::Result<()> {
    let root = subdirectory(dir, LAYER)?;
    let mut place = Place { root, at: None };
    place.parent(&format!("{}/x", ASIDE))?;
    for WrittenFile { path, mode, content } in &layout.files {
        let (parent, name) = place.parent(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(*mode);
        let file = openat(parent, name, flags, mode)?;
        rustix::fs::fchmod(&file, mode)?;
        std::fs::File::from(file).write_all(content)?;
    }
    for (text, path) in &layout.links {
        let (parent, name) = place.parent(path)?;
        match symlinkat(&**text, parent, name) {
            // Tools may have an entry of the name that the tools themselves get.
            Err(Errno::EXIST) => {}
            made => made?,
        }
    }
    Ok(())
}

/// The directory in which files are being made.
struct Place {
    root: OwnedFd,
    at: Option<(String, OwnedFd)>,
}

impl Place {
    /// Opens the directory of a path, with all that are missing, and returns it with the path's last name.
    fn parent<'a>(&mut self, path: &'a str) -> std::io::Result<(BorrowedFd<'_>, &'a str)> {
        let path = path.trim_start_matches('/');
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        if self.at.as_ref().is_none_or(|(at, _)| at != dir) {
            let mut opened = self.root.try_clone()?;
            for part in dir.split('/').filter(|part| !part.is_empty()) {
                opened = subdirectory(opened.as_fd(), part)?;
            }
            self.at = Some((dir.to_owned(), opened));
        }
        let opened = self
            .at
            .as_ref()
            .map_or(self.root.as_fd(), |(_, opened)| opened.as_fd());
        Ok((opened, name))
    }
}

/// Opens a subdirectory with mode 0755, and makes it if it is missing.
fn subdirectory(dir: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    let mode = Mode::from_raw_mode(0o755);
    let is_new = match mkdirat(dir, name, mode) {
        Err(Errno::EXIST) => false,
        made => made.map(|()| true)?,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let opened = tote_sys::openat2(dir, name, flags, Mode::empty(), resolve)?;
    if is_new {
        rustix::fs::fchmod(&opened, mode)?;
    }
    Ok(opened)
}
