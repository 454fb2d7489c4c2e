//! Suspension of the writes to a file system, `FIFREEZE` and `FITHAW` of ioctl(2).

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd as _, BorrowedFd};

/// `_IOWR('X', 119, int)`, linux/fs.h.
const FREEZE: libc::Ioctl = 0xc004_5877_u32 as libc::Ioctl;

/// `_IOWR('X', 120, int)`.
const THAW: libc::Ioctl = 0xc004_5878_u32 as libc::Ioctl;

/// Brings everything that was written to the file system to its disk, and makes later writes wait for [`thaw`]: nothing else
/// ends that, not even the end of this process.
///
/// # Errors
/// `EBUSY` if it is frozen already, `EOPNOTSUPP` for a file system without a disk.
pub fn freeze(file: BorrowedFd<'_>) -> Result<(), Errno> {
    order(file, FREEZE)
}

/// Lets the writes to a frozen file system go on.
///
/// # Errors
/// `EINVAL` if it is not frozen.
pub fn thaw(file: BorrowedFd<'_>) -> Result<(), Errno> {
    order(file, THAW)
}

fn order(file: BorrowedFd<'_>, request: libc::Ioctl) -> Result<(), Errno> {
    // SAFETY: FIFREEZE and FITHAW read and write no memory of this process; the kernel ignores their argument.
    match unsafe { libc::ioctl(file.as_raw_fd(), request, 0) } {
        -1 => Err(errno()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;

    #[test]
    fn a_file_system_in_memory_has_no_writes_to_hold() {
        let proc = std::fs::File::open("/proc").unwrap();
        // EPERM comes first for a user.
        let refused = freeze(proc.as_fd()).unwrap_err();
        assert!([Errno::OPNOTSUPP, Errno::PERM].contains(&refused), "{refused}");
        let refused = thaw(proc.as_fd()).unwrap_err();
        assert!([Errno::INVAL, Errno::PERM].contains(&refused), "{refused}");
    }
}
