//! Locks by flock(2) on files: the kernel releases them when their holder dies.

use crate::StoreError;
use crate::dir::Dir;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use tote_sys::{LockKind, MOMENT_LOCK, WORK_LOCK, flock, lock_within};

/// A lock, held until this value is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    pub(crate) file: OwnedFd,
}

impl Lock {
    /// Takes the lock shared; waits while a process has it exclusively.
    pub(crate) fn shared(dir: &Dir, name: &str) -> Result<Self, StoreError> {
        Self::take(dir, name, LockKind::Shared)
    }

    /// Takes the lock exclusively; waits while any process has it.
    pub(crate) fn exclusive(dir: &Dir, name: &str) -> Result<Self, StoreError> {
        Self::take(dir, name, LockKind::Exclusive)
    }

    /// Takes the lock exclusively; if any process has it, returns the open file.
    pub(crate) fn try_exclusive(dir: &Dir, name: &str) -> Result<Result<Self, OwnedFd>, StoreError> {
        loop {
            let file = open(dir, name).map_err(dir.failed("lock", name))?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) if is_still(dir, name, &file) => return Ok(Ok(Self { file })),
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => return Ok(Err(file)),
                Err(errno) => return Err(dir.failed("lock", name)(errno)),
            }
        }
    }

    /// Waits for the lock. Those that have it may work for long: they take images in, or clear the store.
    fn take(dir: &Dir, name: &str, kind: LockKind) -> Result<Self, StoreError> {
        loop {
            let file = open(dir, name).map_err(dir.failed("lock", name))?;
            let path = dir.path().join(name);
            lock_within(file.as_fd(), kind, WORK_LOCK, &path).map_err(|source| StoreError::Io {
                attempt: "lock",
                path,
                source,
            })?;
            if is_still(dir, name, &file) {
                return Ok(Self { file });
            }
        }
    }

    /// Locks a file that must exist; `None` if it does not, or does not any more once the lock is held. Waits a minute for a lock
    /// that is to be shared.
    pub(crate) fn of_present(
        dir: &Dir,
        name: &str,
        operation: FlockOperation,
    ) -> Result<Option<Self>, Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Ok(file) => {
                match operation {
                    FlockOperation::LockShared => {
                        let path = dir.path().join(name);
                        lock_within(file.as_fd(), LockKind::Shared, MOMENT_LOCK, &path)
                            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::TIMEDOUT))?;
                    }
                    at_once => flock(&file, at_once)?,
                }
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

fn open(dir: &Dir, name: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::from_raw_mode(0o600))
}

/// True if the name still leads to this file: its holder may have removed it while we waited.
fn is_still(dir: &Dir, name: &str, file: &OwnedFd) -> bool {
    match (dir.stat(name), rustix::fs::fstat(file)) {
        (Ok(named), Ok(held)) => (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino),
        _ => false,
    }
}
