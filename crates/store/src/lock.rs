//! Locks by flock(2) on files: the kernel releases them when their holder dies.

use crate::StoreError;
use crate::dir::Dir;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// A lock, held until this value is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) file: OwnedFd,
}

impl Lock {
    /// Takes the lock shared; waits while a process has it exclusively.
    pub(crate) fn shared(dir: &Dir, name: &str) -> Result<Self, StoreError> {
        Self::take(dir, name, FlockOperation::LockShared).map_err(dir.failed("lock", name))
    }

    /// Takes the lock exclusively; waits while any process has it.
    pub(crate) fn exclusive(dir: &Dir, name: &str) -> Result<Self, StoreError> {
        Self::take(dir, name, FlockOperation::LockExclusive).map_err(dir.failed("lock", name))
    }

    /// Takes the lock exclusively; `None` if any process has it.
    pub(crate) fn try_exclusive(dir: &Dir, name: &str) -> Result<Option<Self>, StoreError> {
        match Self::take(dir, name, FlockOperation::NonBlockingLockExclusive) {
            Ok(lock) => Ok(Some(lock)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(dir.failed("lock", name)(errno)),
        }
    }

    fn take(dir: &Dir, name: &str, operation: FlockOperation) -> Result<Self, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        loop {
            let file = rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600))?;
            lock(&file, operation)?;
            if is_still(dir, name, &file) {
                return Ok(Self { file });
            }
        }
    }

    /// Locks a file that must exist; `None` if it does not, or does not any more once the lock is held.
    pub(crate) fn of_present(
        dir: &Dir,
        name: &str,
        operation: FlockOperation,
    ) -> Result<Option<Self>, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(file) => {
                lock(&file, operation)?;
                Ok(is_still(dir, name, &file).then_some(Self { file }))
            }
            // ENOENT, or another kind of entry is in its place.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::ISDIR | Errno::LOOP) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Removes the file of the lock, which must be held exclusively, and releases it. Waiting processes find the
    /// file gone and create another.
    pub(crate) fn remove(self, dir: &Dir, name: &str) -> Result<(), Errno> {
        dir.unlink(name)
    }
}

fn lock(file: &OwnedFd, operation: FlockOperation) -> Result<(), Errno> {
    loop {
        match rustix::fs::flock(file, operation) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// True if the name still leads to this file: its holder may have removed it while we waited.
fn is_still(dir: &Dir, name: &str, file: &OwnedFd) -> bool {
    match (dir.stat(name), rustix::fs::fstat(file)) {
        (Ok(named), Ok(held)) => (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino),
        _ => false,
    }
}
