//! The right to replace one of a container's records.

use crate::{EngineError, Home};
use rustix::fd::AsFd as _;
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::path::Path;
use tote_bundle::ContainerId;

/// Right to replace one of a container's records: a lock on its directory, held for one change. The claim is
/// unsuitable, because a monitor holds it as long as the container runs.
#[derive(Debug)]
pub struct Change(#[expect(dead_code, reason = "held, not used")] rustix::fd::OwnedFd);

impl Change {
    /// Waits until no other process changes the record, and locks it.
    pub fn begin(home: &Home, id: &ContainerId) -> Result<Self, EngineError> {
        let path = home.container(id);
        Self::lock(&path, FlockOperation::LockExclusive).map_err(EngineError::file("lock", path))
    }

    /// Tries to get that right at once; `None` if another process has it, or after an error.
    pub fn attempt(home: &Home, id: &ContainerId) -> Option<Self> {
        Self::lock(&home.container(id), FlockOperation::NonBlockingLockExclusive).ok()
    }

    fn lock(path: &Path, how: FlockOperation) -> std::io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::open(path, flags, Mode::empty())?;
        tote_state::locked::flock_within(dir.as_fd(), how, tote_sys::MOMENT_LOCK, path)?;
        Ok(Self(dir))
    }
}
