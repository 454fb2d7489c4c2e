//! Control files: small, read and written whole, one write(2) for each value because the kernel parses each call by
//! itself.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{Errno, read, write};
use std::path::Path;

/// Bound of a file in bytes: more than mountinfo has on any sane host; beyond it a read fails instead of filling
/// memory.
const LIMIT: usize = 64 << 20;

pub(crate) fn open_dir(path: &Path) -> Result<OwnedFd, Errno> {
    // O_PATH is not used: a device program is attached to this descriptor, and CLONE_INTO_CGROUP takes it as well.
    open(
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    )
}

pub(crate) fn open_for_write(dir: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    openat(
        dir,
        name,
        OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    )
}

pub(crate) fn open_for_read(dir: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    openat(
        dir,
        name,
        OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    )
}

pub(crate) fn write_all(fd: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
    loop {
        match write(fd, value) {
            Ok(n) if n == value.len() => return Ok(()),
            // A second write would be a second, different value.
            Ok(_) => return Err(Errno::IO),
            // runc saw the kernel return EINTR for memory limits, which are applied while the call waits.
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

pub(crate) fn write_at(dir: BorrowedFd<'_>, name: &str, value: &[u8]) -> Result<(), Errno> {
    write_all(open_for_write(dir, name)?.as_fd(), value)
}

pub(crate) fn read_at(dir: BorrowedFd<'_>, name: &str) -> Result<String, Errno> {
    read_fd(open_for_read(dir, name)?.as_fd(), 256)
}

pub(crate) fn read_path(path: &str) -> Result<String, std::io::Error> {
    let fd = open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(read_fd(fd.as_fd(), 4096)?)
}

/// Reads from the descriptor's position to the end; invalid UTF-8 is replaced.
pub(crate) fn read_fd(fd: BorrowedFd<'_>, guess: usize) -> Result<String, Errno> {
    let mut text = vec![0; guess];
    let mut len = 0;
    loop {
        if len == text.len() {
            text.resize(len * 2, 0);
        }
        match read(fd, &mut text[len..]) {
            Ok(0) => break,
            Ok(n) => len += n,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        if len > LIMIT {
            return Err(Errno::FBIG);
        }
    }
    text.truncate(len);
    // The unused room would be a page that the next file has to touch.
    text.shrink_to_fit();
    Ok(match String::from_utf8(text) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    })
}

/// Reads a number that is alone in a file; `None` for `max`, which means no limit.
pub(crate) fn read_number(dir: BorrowedFd<'_>, name: &str) -> Result<Option<u64>, Errno> {
    let text = read_at(dir, name)?;
    match text.trim() {
        "max" => Ok(None),
        number => number.parse().map(Some).map_err(|_| Errno::PROTO),
    }
}
