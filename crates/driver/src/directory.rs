//! Files in a container's directory: tests whether they exist, and directories for them.

use crate::PrepareError;
use rustix::fs::{Mode, OFlags};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;
use tote_sys::Errno;

/// True if the path exists.
///
/// # Errors
/// [`PrepareError::State`] for every failure except ENOENT, so that an unreadable file is not replaced by a new
/// one.
pub(crate) fn is_there(path: &Path) -> Result<bool, PrepareError> {
    path.try_exists().map_err(|source| PrepareError::State {
        attempt: "look at",
        path: path.to_owned(),
        source,
    })
}

/// Creates a directory that only its owner may enter; an existing one is accepted.
pub(crate) fn make_dir(path: &Path) -> Result<(), PrepareError> {
    make(path, 0o700).map(drop)
}

/// Creates a directory whose mode a container sees, such as its root's; an existing one keeps the mode that the
/// container gave it.
pub(crate) fn make_seen_dir(path: &Path) -> Result<(), PrepareError> {
    const SEEN: Mode = Mode::from_raw_mode(0o755);
    if !make(path, SEEN.as_raw_mode())? {
        return Ok(());
    }
    // With the usual umask, the mode is right already, and a single stat(2) shows that.
    let set = || -> Result<(), Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        if Mode::from_raw_mode(rustix::fs::lstat(path)?.st_mode) == SEEN {
            return Ok(());
        }
        rustix::fs::fchmod(rustix::fs::open(path, flags, Mode::empty())?, SEEN)
    };
    set().map_err(|errno| PrepareError::State {
        attempt: "set the mode of",
        path: path.to_owned(),
        source: errno.into(),
    })
}

/// Creates a directory; returns whether it is new.
fn make(path: &Path, mode: u32) -> Result<bool, PrepareError> {
    match std::fs::DirBuilder::new().mode(mode).create(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(source) => Err(PrepareError::State {
            attempt: "make",
            path: path.to_owned(),
            source,
        }),
    }
}

/// Takes a missing file for a success.
pub(crate) fn missing_is_fine(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
