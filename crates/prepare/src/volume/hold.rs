//! Locks on volumes: a container in the making prevents the removal of its volumes.

use super::place::failed;
use crate::EngineError;
use crate::rootfs::Source;
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use std::io::ErrorKind;
use std::path::Path;
use tote_state::locked::directory;

/// Shared locks on the directories of a container's volumes. They are held until the container is recorded: from then
/// on its record names these volumes. Images that it mounts are held as well.
#[derive(Debug, Default)]
pub struct VolumeHold {
    volumes: Vec<OwnedFd>,
    images: Vec<Source>,
    fillings: Vec<OwnedFd>,
}

impl VolumeHold {
    /// Adds a volume by its directory. Waits while another process removes it, and returns true if it exists.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn add(&mut self, dir: &Path) -> Result<bool, EngineError> {
        let held = hold(dir)?;
        let is_there = held.is_some();
        self.volumes.extend(held);
        Ok(is_there)
    }

    /// Adds what another one holds.
    pub fn join(&mut self, other: Self) {
        self.volumes.extend(other.volumes);
        self.images.extend(other.images);
        self.fillings.extend(other.fillings);
    }

    /// Adds the lock of a volume that is about to be filled.
    pub(super) fn add_filling(&mut self, lock: OwnedFd) {
        self.fillings.push(lock);
    }

    /// Adds an image.
    pub fn add_image(&mut self, image: Source) {
        self.images.push(image);
    }
}

/// Opens a volume's directory, and prevents its removal while that is open; `None` if it is missing.
///
/// # Errors
/// [`EngineError::State`].
pub(crate) fn hold(dir: &Path) -> Result<Option<OwnedFd>, EngineError> {
    directory(dir, FlockOperation::LockShared).map_err(failed(dir))
}

/// State of a volume for a removal.
pub(crate) enum Found {
    /// Volume that is locked for this removal.
    Alone(OwnedFd),
    /// Volume that another process makes, or gives to a container in the making.
    Held,
    /// Missing volume.
    Missing,
}

/// Locks a volume for its removal, without waiting.
///
/// # Errors
/// [`EngineError::State`].
pub(crate) fn alone(dir: &Path) -> Result<Found, EngineError> {
    match directory(dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(Some(dir)) => Ok(Found::Alone(dir)),
        Ok(None) => Ok(Found::Missing),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Found::Held),
        Err(error) => Err(failed(dir)(error)),
    }
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
            // The thread waits for the removal, or comes after it.
            let waits = scope.spawn(|| hold(&dir).unwrap().is_some());
            std::fs::rename(&dir, temp.path().join(".v")).unwrap();
            drop(lock);
            assert!(!waits.join().unwrap(), "it is gone");
        });
    }
}
