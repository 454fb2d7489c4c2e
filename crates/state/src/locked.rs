//! Lock files and locked directories that the holder of the lock may remove.

use crate::StateError;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;
use tote_sys::{Errno, LockKind, lock_within};

/// Locks a directory by flock(2); `None` if it is missing, or is no longer the one of that name once the lock is held.
///
/// This is the lock of everything that a sweep removes by its name. The maker of such a directory has it as soon as
/// this returns it. A sweep that removes one keeps the lock until the name is gone: a lock that was only tried says
/// nothing about the moment after, in which a maker may take it.
///
/// # Errors
/// `WouldBlock` if the operation does not wait and another process holds the lock, `TimedOut` if one does for a minute, and errors
/// of open(2).
pub fn directory(path: &Path, operation: FlockOperation) -> std::io::Result<Option<OwnedFd>> {
    directory_within(path, operation, tote_sys::MOMENT_LOCK)
}

/// Does [`directory`], and waits for the lock for that long at most.
///
/// # Errors
/// Those of [`directory`].
pub fn directory_within(
    path: &Path,
    operation: FlockOperation,
    limit: Duration,
) -> std::io::Result<Option<OwnedFd>> {
    directory_by(path, |dir| flock_within(dir, operation, limit, path))
}

fn directory_by(
    path: &Path,
    lock: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<()>,
) -> std::io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    lock(dir.as_fd())?;
    // The former holder may have removed or renamed the directory, and another process may have made a new one.
    let named = match rustix::fs::lstat(path) {
        Err(Errno::NOENT) => return Ok(None),
        named => named?,
    };
    let held = rustix::fs::fstat(&dir)?;
    Ok(((named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)).then_some(dir))
}

/// Waits until no process has the directory locked, however long that takes, and does [`directory`].
///
/// # Errors
/// Those of [`directory`].
pub fn directory_at_its_end(path: &Path) -> std::io::Result<Option<OwnedFd>> {
    directory_by(path, |dir| {
        #[expect(
            clippy::disallowed_methods,
            reason = "the caller is there for what comes after the holder's end, with which the kernel ends the lock"
        )]
        let locked = rustix::io::retry_on_intr(|| rustix::fs::flock(dir, FlockOperation::LockExclusive));
        Ok(locked?)
    })
}

/// Removes a directory that no process has locked, and holds its lock until it is gone. `Ok(false)` if a process has
/// it, or it is gone already.
///
/// # Errors
/// Errors of open(2), and of the removal.
pub fn remove_stale(path: &Path) -> std::io::Result<bool> {
    match directory(path, FlockOperation::NonBlockingLockExclusive) {
        Ok(Some(_lock)) => tote_sys::remove_tree(path).map(|()| true),
        Ok(None) => Ok(false),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
        Err(error) => Err(error),
    }
}

/// Calls flock(2) on the file at `path`. An operation that waits does so for that long at most.
///
/// # Errors
/// `WouldBlock` and `TimedOut` as of [`directory`], and errors of flock(2).
pub fn flock_within(
    file: BorrowedFd<'_>,
    operation: FlockOperation,
    limit: Duration,
    path: &Path,
) -> std::io::Result<()> {
    match operation {
        FlockOperation::LockShared => lock_within(file, LockKind::Shared, limit, path),
        FlockOperation::LockExclusive => lock_within(file, LockKind::Exclusive, limit, path),
        _ => Ok(tote_sys::flock(file, operation)?),
    }
}

/// Locks the file at the path, and makes sure that the path still leads to it once the lock is held. A missing file
/// is created if `make` is true. If another process holds the lock: waits a minute if `wait` is true, else returns `None`.
///
/// # Errors
/// [`StateError::File`], which names the process that still holds the lock after a minute; see [`StateError::is_missing`].
pub fn locked(path: &Path, make: bool, wait: bool) -> Result<Option<File>, StateError> {
    locked_within(path, make, wait.then_some(tote_sys::MOMENT_LOCK))
}

/// Does [`locked`], and waits for that long at most.
///
/// # Errors
/// Those of [`locked`].
pub fn locked_within(path: &Path, make: bool, limit: Option<Duration>) -> Result<Option<File>, StateError> {
    let fail = |attempt| {
        move |source| StateError::File {
            attempt,
            path: path.to_owned(),
            source,
        }
    };
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(make).mode(0o600);
        let file = options.open(path).map_err(fail("open"))?;
        let taken = match limit {
            Some(limit) => lock_within(file.as_fd(), LockKind::Description, limit, path).map(|()| true),
            None => tote_sys::lock_file(file.as_fd()).map_err(Into::into),
        };
        if !taken.map_err(fail("lock"))? {
            return Ok(None);
        }
        // The former holder may have removed the file meanwhile, and another process may have created a new one.
        let own = file.metadata().map_err(fail("look at"))?;
        match std::fs::symlink_metadata(path) {
            Ok(there) if there.ino() == own.ino() => return Ok(Some(file)),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(fail("look at")(error)),
            _ => {}
        }
    }
}

/// True if the kernel's error means that the disk or a quota is full.
#[must_use]
pub fn is_full_disk(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_on_a_directory_that_lost_its_name_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let exclusive = FlockOperation::NonBlockingLockExclusive;
        assert!(directory(&path, exclusive).unwrap().is_none(), "it is missing");
        std::fs::create_dir(&path).unwrap();
        let first = directory(&path, exclusive).unwrap().unwrap();
        let taken = directory(&path, exclusive).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::WouldBlock);
        assert!(!remove_stale(&path).unwrap(), "the first lock holds");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| directory(&path, FlockOperation::LockExclusive).unwrap().is_some());
            // The waiting thread has opened the first directory, or comes later and opens the second.
            std::fs::rename(&path, dir.path().join("y")).unwrap();
            std::fs::create_dir(&path).unwrap();
            drop(first);
            waits.join().unwrap();
        });
        assert!(remove_stale(&path).unwrap());
        assert!(!path.try_exists().unwrap());
    }

    /// A maker that gets the lock between a sweep's look and its removal would lose what it makes.
    #[test]
    fn what_is_being_removed_stays_locked_until_it_is_gone() {
        const FILES: usize = 2000;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::create_dir(&path).unwrap();
        for number in 0..FILES {
            std::fs::write(path.join(number.to_string()), "").unwrap();
        }
        let left = || std::fs::read_dir(&path).map_or(0, Iterator::count);
        std::thread::scope(|scope| {
            let sweeps = scope.spawn(|| remove_stale(&path));
            while path.try_exists().unwrap() {
                // A lock on a directory whose files go and whose name stays is one that the sweep has not kept.
                let taken = left() < FILES
                    && matches!(
                        directory(&path, FlockOperation::NonBlockingLockExclusive),
                        Ok(Some(_))
                    );
                assert!(!taken);
            }
            assert!(sweeps.join().unwrap().unwrap());
        });
    }
}
