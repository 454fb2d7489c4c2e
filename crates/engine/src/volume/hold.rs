//! Locks on volumes: a container that is being made keeps its own from being removed.

use super::failed;
use crate::EngineError;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, lstat};
use std::path::Path;
use tote_sys::Errno;

/// Shared locks on the directories of a container's volumes. They are held until the container is written down: from then
/// on its record says that it has these volumes.
#[derive(Debug, Default)]
pub(crate) struct VolumeHold(Vec<OwnedFd>);

impl VolumeHold {
    /// Adds a volume, by its directory. Waits while somebody removes it, and says whether it is there.
    ///
    /// # Errors
    /// [`EngineError::File`].
    pub(super) fn add(&mut self, dir: &Path) -> Result<bool, EngineError> {
        let held = hold(dir)?;
        let is_there = held.is_some();
        self.0.extend(held);
        Ok(is_there)
    }
}

/// A volume's directory that nobody removes as long as this is open; `None` if it is not there.
///
/// # Errors
/// [`EngineError::File`].
pub(super) fn hold(dir: &Path) -> Result<Option<OwnedFd>, EngineError> {
    lock(dir, FlockOperation::LockShared).map_err(|errno| failed(dir)(errno.into()))
}

/// How a volume is found by who wants to remove it.
pub(super) enum Found {
    /// It belongs to whoever holds this.
    Alone(OwnedFd),
    /// Somebody makes it, or a container that has it.
    Held,
    /// It is not there.
    Missing,
}

/// Takes a volume for its removal, and waits for nobody.
///
/// # Errors
/// [`EngineError::File`].
pub(super) fn alone(dir: &Path) -> Result<Found, EngineError> {
    match lock(dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(Some(dir)) => Ok(Found::Alone(dir)),
        Ok(None) => Ok(Found::Missing),
        Err(Errno::WOULDBLOCK) => Ok(Found::Held),
        Err(errno) => Err(failed(dir)(errno.into())),
    }
}

fn lock(path: &Path, operation: FlockOperation) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    loop {
        match flock(&dir, operation) {
            Err(Errno::INTR) => {}
            locked => break locked?,
        }
    }
    // Whoever had it may have given it the name of what is being removed.
    let is_still = match lstat(path) {
        Err(Errno::NOENT) => false,
        named => named?.st_ino == fstat(&dir)?.st_ino,
    };
    Ok(is_still.then_some(dir))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_not_removed() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("v");
        let mut held = VolumeHold::default();
        assert!(!held.add(&dir).unwrap());
        assert!(matches!(alone(&dir), Ok(Found::Missing)));
        std::fs::create_dir(&dir).unwrap();
        assert!(held.add(&dir).unwrap());
        assert!(matches!(alone(&dir), Ok(Found::Held)));
        assert!(hold(&dir).unwrap().is_some(), "others may have it as well");
        drop(held);
        let Ok(Found::Alone(lock)) = alone(&dir) else {
            panic!("nobody has it")
        };
        std::thread::scope(|scope| {
            // It waits for the removal, or comes after it.
            let waits = scope.spawn(|| hold(&dir).unwrap().is_some());
            std::fs::rename(&dir, temp.path().join(".v")).unwrap();
            drop(lock);
            assert!(!waits.join().unwrap(), "it is gone");
        });
    }
}
