//! A single file or other object as an entry.

use super::attributes;
use super::walk::{WalkError, entry, failed};
use crate::entry::{Entry, Kind};
use crate::path::EntryPath;
use rustix::fs::{FileType, Mode, OFlags};
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};

/// Builds an entry with the given path from a descriptor, which may be opened with `O_PATH`. A regular file is
/// returned open for reading. `None` for a socket.
///
/// # Errors
/// [`WalkError`].
pub fn entry_of(fd: BorrowedFd<'_>, path: EntryPath) -> Result<Option<(Entry, Option<File>)>, WalkError> {
    let stat = rustix::fs::fstat(fd).map_err(failed("stat", &path))?;
    let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::Directory => {
            // The path in /proc leads to exactly this inode, even if its name belongs to another by now.
            let itself = format!("/proc/self/fd/{}", fd.as_raw_fd());
            let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
            let open = rustix::fs::open(itself, flags, Mode::empty()).map_err(failed("open", &path))?;
            let read = attributes::read(open.as_fd());
            let xattrs = read.map_err(failed("read the attributes of", &path))?.own;
            if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
                return Ok(Some((entry(path, Kind::Directory, &stat, xattrs), None)));
            }
            let size = u64::try_from(stat.st_size).unwrap_or_default();
            let entry = entry(path, Kind::File { size }, &stat, xattrs);
            return Ok(Some((entry, Some(File::from(open)))));
        }
        FileType::Symlink => {
            let target =
                rustix::fs::readlinkat(fd, "", Vec::new()).map_err(failed("read the link", &path))?;
            Kind::Symlink {
                target: target.into_bytes(),
            }
        }
        FileType::CharacterDevice => Kind::Character { major, minor },
        FileType::BlockDevice => Kind::Block { major, minor },
        FileType::Fifo => Kind::Fifo,
        _ => return Ok(None),
    };
    Ok(Some((entry(path, kind, &stat, Vec::new()), None)))
}
