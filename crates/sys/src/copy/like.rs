//! Metadata of files: owner, mode, extended attributes, times.

use crate::Errno;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, FileType, Gid, Mode, Stat, Timespec, Timestamps, Uid, XattrFlags};
use std::ffi::CStr;

/// Prefixes of attributes that are not the file's own: overlayfs's, and labels set by a policy.
const NOT_COPIED: [&[u8]; 3] = [b"trusted.overlay.", b"user.overlay.", b"security.selinux"];

/// Room for names and a value; `XATTR_LIST_MAX` and `XATTR_SIZE_MAX` are 64 KiB both, but no file system of interest
/// stores more than a block of names.
pub(super) struct Buffers {
    names: [u8; 16 << 10],
    value: [u8; 64 << 10],
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self {
            names: [0; 16 << 10],
            value: [0; 64 << 10],
        }
    }
}

/// Gives a copy the metadata of its original. The owner comes first, because a change of owner clears set-id bits and
/// capabilities; the times come last. Without `source` extended attributes are skipped: links and nodes have none of
/// their own.
pub(super) fn like(
    copy: BorrowedFd<'_>,
    source: Option<BorrowedFd<'_>>,
    stat: &Stat,
    buffers: &mut Buffers,
) -> Result<(), Errno> {
    let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    match rustix::fs::chownat(copy, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH) {
        // An owner that this user namespace does not map, or that the process may not set: the copy keeps its
        // creator's.
        Err(Errno::INVAL | Errno::PERM | Errno::OVERFLOW) | Ok(()) => {}
        Err(errno) => return Err(errno),
    }
    let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
    let times = times(stat);
    if let Some(source) = source {
        rustix::fs::fchmod(copy, mode)?;
        attributes(source, copy, buffers)?;
        return rustix::fs::futimens(copy, &times);
    }
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        chmod_node(copy, mode)?;
    }
    rustix::fs::utimensat(copy, c"", &times, AtFlags::EMPTY_PATH)
}

/// Gives an open file these times.
pub(crate) fn times_of(copy: BorrowedFd<'_>, stat: &Stat) -> Result<(), Errno> {
    rustix::fs::futimens(copy, &times(stat))
}

fn times(stat: &Stat) -> Timestamps {
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

fn time(seconds: impl Into<i64>, nanoseconds: u64) -> Timespec {
    Timespec {
        tv_sec: seconds.into(),
        tv_nsec: nanoseconds as _,
    }
}

/// Changes the mode of a node held by O_PATH: fchmod(2) does not take such a descriptor, but chmod(2) takes its path
/// in procfs.
pub(crate) fn chmod_node(node: BorrowedFd<'_>, mode: Mode) -> Result<(), Errno> {
    let path = super::descriptor_path(node);
    let path = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL)?;
    rustix::fs::chmod(path, mode)
}

fn attributes(from: BorrowedFd<'_>, to: BorrowedFd<'_>, buffers: &mut Buffers) -> Result<(), Errno> {
    let length = match rustix::fs::flistxattr(from, &mut buffers.names[..]) {
        Err(Errno::OPNOTSUPP) => return Ok(()),
        other => other?,
    };
    for name in buffers.names[..length].split_inclusive(|&byte| byte == 0) {
        if NOT_COPIED.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        let name = CStr::from_bytes_with_nul(name).map_err(|_| Errno::INVAL)?;
        let length = match rustix::fs::fgetxattr(from, name, &mut buffers.value[..]) {
            // The attribute was removed meanwhile, or this user may not read it.
            Err(Errno::NODATA | Errno::PERM | Errno::OPNOTSUPP) => continue,
            other => other?,
        };
        match rustix::fs::fsetxattr(to, name, &buffers.value[..length], XattrFlags::empty()) {
            // The file system, or the user namespace, does not support this kind of attribute.
            Err(Errno::OPNOTSUPP | Errno::PERM) | Ok(()) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
