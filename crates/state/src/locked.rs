//! Lock files and locked directories that the holder of the lock may remove.

use crate::StateError;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use tote_sys::Errno;

/// Locks a directory by flock(2); `None` if it is missing, or is no longer the one of that name once the lock is held.
///
/// This is the lock of everything that a sweep removes by its name. The maker of such a directory has it as soon as
/// this returns it. A sweep that removes one keeps the lock until the name is gone: a lock that was only tried says
/// nothing about the moment after, in which a maker may take it.
///
/// # Errors
/// [`Errno::WOULDBLOCK`] if the operation does not wait and another process holds the lock, and errors of open(2).
pub fn directory(path: &Path, operation: FlockOperation) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    loop {
        match rustix::fs::flock(&dir, operation) {
            Err(Errno::INTR) => {}
            locked => break locked?,
        }
    }
    // The former holder may have removed or renamed the directory, and another process may have made a new one.
    let named = match rustix::fs::lstat(path) {
        Err(Errno::NOENT) => return Ok(None),
        named => named?,
    };
    let held = rustix::fs::fstat(&dir)?;
    Ok(((named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)).then_some(dir))
}

/// Removes a directory that no process has locked, and holds its lock until it is gone. `Ok(false)` if a process has
/// it, or it is gone already.
///
/// # Errors
/// Errors of open(2), and of the removal.
pub fn remove_stale(path: &Path) -> std::io::Result<bool> {
    match directory(path, FlockOperation::NonBlockingLockExclusive) {
        Ok(Some(_lock)) => tote_sys::remove_tree(path).map(|()| true),
        Ok(None) | Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Locks the file at the path, and makes sure that the path still leads to it once the lock is held. A missing file
/// is created if `make` is true. If another process holds the lock: waits if `wait` is true, else returns `None`.
///
/// # Errors
/// [`StateError::File`]; see [`StateError::is_missing`].
pub fn locked(path: &Path, make: bool, wait: bool) -> Result<Option<File>, StateError> {
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
        match tote_sys::lock_file(file.as_fd(), wait) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(errno) => return Err(fail("lock")(errno.into())),
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
        assert_eq!(directory(&path, exclusive).unwrap_err(), Errno::WOULDBLOCK);
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
