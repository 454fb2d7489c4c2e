//! Open file description locks, fcntl(2): like those of flock(2) they belong to the open file and go with its last
//! descriptor, a forked child's included; unlike flock(2), fcntl(2) can also test for a lock without taking it.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd, BorrowedFd};

/// Locks a file for this open file description alone; `false` if another one holds the lock and `wait` is not set.
///
/// # Errors
/// `EBADF` if the file is not open for writing, `ENOLCK` if the file system has no locks.
pub fn lock_file(file: BorrowedFd<'_>, wait: bool) -> Result<bool, Errno> {
    let command = if wait {
        libc::F_OFD_SETLKW
    } else {
        libc::F_OFD_SETLK
    };
    loop {
        match control(file, command) {
            Ok(_) => return Ok(true),
            Err(Errno::AGAIN | Errno::ACCESS) if !wait => return Ok(false),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// True if another open file description holds a lock on the file.
///
/// # Errors
/// `EBADF`, and errors of the file system.
pub fn is_locked(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    control(file, libc::F_OFD_GETLK).map(|found| i32::from(found) != libc::F_UNLCK)
}

fn control(file: BorrowedFd<'_>, command: i32) -> Result<i16, Errno> {
    // SAFETY: a C structure of numbers, for which all zeros is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // The constants are small; the field has the kernel's width.
    lock.l_type = libc::F_WRLCK as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    // SAFETY: the kernel reads, and for F_OFD_GETLK writes, the one structure that lives until the call returns.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(errno()),
        _ => Ok(lock.l_type),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;

    #[test]
    fn one_description_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let open = || {
            let mut options = std::fs::File::options();
            options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .unwrap()
        };
        let (first, second) = (open(), open());
        assert_eq!(is_locked(second.as_fd()), Ok(false));
        assert_eq!(lock_file(first.as_fd(), false), Ok(true));
        assert_eq!(is_locked(first.as_fd()), Ok(false), "one's own is no hindrance");
        assert_eq!(is_locked(second.as_fd()), Ok(true));
        assert_eq!(lock_file(second.as_fd(), false), Ok(false));
        let copy = first.try_clone().unwrap();
        drop(first);
        assert_eq!(
            is_locked(second.as_fd()),
            Ok(true),
            "a copy of the descriptor keeps it"
        );
        drop(copy);
        assert_eq!(lock_file(second.as_fd(), true), Ok(true));
    }
}
