//! Contents of files.

use crate::Errno;
use rustix::fd::BorrowedFd;
use rustix::fs::{SeekFrom, Stat};

/// Copier of contents that remembers which calls the file systems do not support.
pub(super) struct Content {
    reflink: bool,
}

impl Content {
    pub(super) fn new(reflink: bool) -> Self {
        Self { reflink }
    }

    pub(super) fn copy(
        &mut self,
        from: BorrowedFd<'_>,
        to: BorrowedFd<'_>,
        stat: &Stat,
    ) -> Result<(), Errno> {
        if self.reflink && stat.st_size > 0 {
            match rustix::fs::ioctl_ficlone(to, from) {
                Ok(()) => return Ok(()),
                Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS) => self.reflink = false,
                Err(_) => {} // this file alone: swapped, encrypted, or with other checksums
            }
        }
        let has_holes = stat.st_blocks.saturating_mul(512) < stat.st_size;
        if has_holes {
            copy_data(from, to, stat.st_size.unsigned_abs())
        } else {
            send(from, to, u64::MAX)
        }
    }
}

/// Copies the extents that hold data; the rest stays a hole.
fn copy_data(from: BorrowedFd<'_>, to: BorrowedFd<'_>, size: u64) -> Result<(), Errno> {
    rustix::fs::ftruncate(to, size)?;
    let mut at = 0;
    while at < size {
        let start = match rustix::fs::seek(from, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return Ok(()),
            other => other?,
        };
        let end = rustix::fs::seek(from, SeekFrom::Hole(start))?;
        rustix::fs::seek(from, SeekFrom::Start(start))?;
        rustix::fs::seek(to, SeekFrom::Start(start))?;
        send(from, to, end.saturating_sub(start))?;
        at = end.max(at + 1);
    }
    Ok(())
}

/// Sends `length` bytes. copy_file_range(2) is not used, because it shares extents where it can and the caller asked
/// for a deep copy.
fn send(from: BorrowedFd<'_>, to: BorrowedFd<'_>, mut length: u64) -> Result<(), Errno> {
    while length > 0 {
        let portion = usize::try_from(length).unwrap_or(usize::MAX).min(1 << 20);
        match rustix::fs::sendfile(to, from, None, portion) {
            Ok(0) => return Ok(()),
            Ok(sent) => length -= sent as u64,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
