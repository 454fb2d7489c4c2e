//! The copy that `tmpcopyup` asks for: what an image has at a place, in the new file system that covers it.
//!
//! The image is somebody else's: nothing of it is followed or opened but directories and regular files, and its depth
//! is limited.

use crate::Errno;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, RawDir, Stat, Uid};
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// How deep a copy goes. A level takes about 9 KiB of the stack and a few descriptors.
const DEPTH: u32 = 128;

/// Copies what is below a directory, which may be held by O_PATH, and the directory's own mode and owner.
pub(crate) fn copy_up(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(from)?;
    let to = open_dir(to, c".")?;
    copy_dir(open_dir(from, c".")?.as_fd(), to.as_fd(), DEPTH)?;
    like(to.as_fd(), c".", &stat)
}

fn open_dir(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

fn copy_dir(from: BorrowedFd<'_>, to: BorrowedFd<'_>, depth: u32) -> Result<(), Errno> {
    let depth = depth.checked_sub(1).ok_or(Errno::LOOP)?;
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(from, &mut space);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name();
        if !matches!(name.to_bytes(), b"." | b"..") {
            copy_one(from, to, name, depth)?;
        }
    }
    Ok(())
}

fn copy_one(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr, depth: u32) -> Result<(), Errno> {
    let stat = rustix::fs::statat(from, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = FileType::from_raw_mode(stat.st_mode);
    match kind {
        FileType::Directory => {
            rustix::fs::mkdirat(to, name, Mode::RWXU)?;
            let below = open_dir(to, name)?;
            copy_dir(open_dir(from, name)?.as_fd(), below.as_fd(), depth)?;
        }
        FileType::RegularFile => copy_file(from, to, name)?,
        FileType::Symlink => {
            let mut text = [0u8; 4096];
            let length = rustix::fs::readlinkat_raw(from, name, &mut text[..4095])?;
            let text = CStr::from_bytes_with_nul(&text[..=length]).map_err(|_| Errno::INVAL)?;
            rustix::fs::symlinkat(text, to, name)?;
        }
        FileType::Socket => return Ok(()), // without its server it is nothing
        _ => rustix::fs::mknodat(to, name, kind, Mode::RUSR, stat.st_rdev)?,
    }
    like(to, name, &stat)
}

fn copy_file(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let source = rustix::fs::openat(from, name, flags, Mode::empty())?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let copy = rustix::fs::openat(to, name, flags, Mode::RUSR | Mode::WUSR)?;
    loop {
        match rustix::fs::sendfile(&copy, &source, None, 1 << 20) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Gives a copy the owner and mode of what it is a copy of. The owner first: changing it clears the set-id bits.
fn like(dir: BorrowedFd<'_>, name: &CStr, stat: &Stat) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        return Ok(());
    }
    // Nobody else reaches the copy yet, so that no link can have taken its place.
    rustix::fs::chmodat(
        dir,
        name,
        Mode::from_raw_mode(stat.st_mode & 0o7777),
        AtFlags::empty(),
    )
}
