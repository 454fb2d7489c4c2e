//! Subvolumes and snapshots, ioctl(2) of btrfs.

use crate::Errno;
use crate::birth::errno;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::FileType;
use std::ffi::CStr;

const SUBVOL_CREATE: libc::Ioctl = 0x5000_940e;
const SNAP_DESTROY: libc::Ioctl = 0x5000_940f;
const SNAP_CREATE_V2: libc::Ioctl = 0x5000_9417;

/// `BTRFS_SUPER_MAGIC`, linux/magic.h.
const MAGIC: u32 = 0x9123_683e;
/// `BTRFS_FIRST_FREE_OBJECTID`: the inode number of the top directory of every subvolume.
const TOP: u64 = 256;

/// `struct btrfs_ioctl_vol_args`, linux/btrfs.h.
#[repr(C)]
struct VolArgs {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_vol_args_v2`, linux/btrfs.h.
#[repr(C)]
struct VolArgsV2 {
    fd: i64,
    transid: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

/// Whether a directory is the top of a subvolume.
///
/// # Errors
/// fstat(2)'s, and fstatfs(2)'s.
pub fn is_subvolume(dir: BorrowedFd<'_>) -> Result<bool, Errno> {
    let stat = rustix::fs::fstat(dir)?;
    let is_top = stat.st_ino == TOP && FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
    Ok(is_top && i128::from(rustix::fs::fstatfs(dir)?.f_type) == i128::from(MAGIC))
}

/// Makes an empty subvolume in a directory.
///
/// # Errors
/// `ENOTTY` where that is not on btrfs; `EEXIST`.
pub fn create_subvolume(dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let args = VolArgs {
        fd: 0,
        name: filled(name)?,
    };
    // SAFETY: the kernel reads a `struct btrfs_ioctl_vol_args`, which outlives the call.
    check(unsafe { libc::ioctl(dir.as_raw_fd(), SUBVOL_CREATE, &raw const args) })
}

/// Makes a writable snapshot of a subvolume in a directory.
///
/// # Errors
/// `ENOTTY` where that is not on btrfs, `EXDEV` where it is on another one, `EINVAL` where it is no subvolume; `EEXIST`.
pub fn snapshot(subvolume: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let args = VolArgsV2 {
        fd: subvolume.as_raw_fd().into(),
        transid: 0,
        flags: 0,
        unused: [0; 4],
        name: filled(name)?,
    };
    // SAFETY: the kernel reads a `struct btrfs_ioctl_vol_args_v2`, which outlives the call.
    check(unsafe { libc::ioctl(dir.as_raw_fd(), SNAP_CREATE_V2, &raw const args) })
}

/// Removes a subvolume with all that is in it; its space comes back later.
///
/// # Errors
/// `ENOTTY`, `EINVAL` and `ENOENT` where it is no subvolume.
pub fn remove_subvolume(dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let args = VolArgs {
        fd: 0,
        name: filled(name)?,
    };
    // SAFETY: the kernel reads a `struct btrfs_ioctl_vol_args`, which outlives the call.
    check(unsafe { libc::ioctl(dir.as_raw_fd(), SNAP_DESTROY, &raw const args) })
}

fn filled<const N: usize>(name: &CStr) -> Result<[u8; N], Errno> {
    let bytes = name.to_bytes_with_nul();
    let mut filled = [0; N];
    filled
        .get_mut(..bytes.len())
        .ok_or(Errno::NAMETOOLONG)?
        .copy_from_slice(bytes);
    Ok(filled)
}

fn check(result: libc::c_int) -> Result<(), Errno> {
    if result == 0 { Ok(()) } else { Err(errno()) }
}
