//! Subvolumes, snapshots and quotas, ioctl(2) of btrfs.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::fs::FileType;
use std::ffi::CStr;

const SUBVOL_CREATE: libc::Ioctl = 0x5000_940e;
const SNAP_DESTROY: libc::Ioctl = 0x5000_940f;
const SNAP_CREATE_V2: libc::Ioctl = 0x5000_9417;
const TREE_SEARCH: libc::Ioctl = 0xd000_9411_u32 as libc::Ioctl;
const INO_LOOKUP: libc::Ioctl = 0xd000_9412_u32 as libc::Ioctl;
const QGROUP_CREATE: libc::Ioctl = 0x4010_942a;
const QGROUP_LIMIT: libc::Ioctl = 0x8030_942b_u32 as libc::Ioctl;
const QUOTA_RESCAN_STATUS: libc::Ioctl = 0x8040_942d_u32 as libc::Ioctl;

/// `BTRFS_SUPER_MAGIC`, linux/magic.h.
const MAGIC: u32 = 0x9123_683e;
/// `BTRFS_FIRST_FREE_OBJECTID`: the inode number of the top directory of every subvolume.
const TOP: u64 = 256;

/// `BTRFS_ROOT_TREE_OBJECTID`, linux/btrfs_tree.h.
const ROOT_TREE: u64 = 1;
/// `BTRFS_ROOT_BACKREF_KEY`: the type of the item that names the directory of a subvolume.
const ROOT_BACKREF: u32 = 144;
/// `BTRFS_QUOTA_TREE_OBJECTID`.
const QUOTA_TREE: u64 = 8;
/// `BTRFS_QGROUP_STATUS_KEY`: the type of the item (0, 0) with the state of the quota tree.
const STATUS: u32 = 240;
/// `BTRFS_QGROUP_STATUS_FLAG_INCONSISTENT`.
const INCONSISTENT: u64 = 1 << 2;
/// `BTRFS_QGROUP_LIMIT_MAX_EXCL`.
const MAX_EXCL: u64 = 1 << 1;
/// Value that means no limit, `CLEAR_VALUE` in the kernel.
const NO_LIMIT: u64 = u64::MAX;

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

/// `struct btrfs_ioctl_ino_lookup_args`, linux/btrfs.h.
#[repr(C)]
struct InoLookup {
    tree: u64,
    inode: u64,
    name: [u8; 4080],
}

/// `struct btrfs_ioctl_qgroup_limit_args`, linux/btrfs.h.
#[repr(C)]
struct QgroupLimit {
    id: u64,
    flags: u64,
    max_rfer: u64,
    max_excl: u64,
    rsv_rfer: u64,
    rsv_excl: u64,
}

/// `struct btrfs_ioctl_qgroup_create_args`, linux/btrfs.h.
#[repr(C)]
struct QgroupCreate {
    create: u64,
    id: u64,
}

/// `struct btrfs_ioctl_quota_rescan_args`, linux/btrfs.h.
#[repr(C)]
#[derive(Default)]
struct Rescan {
    flags: u64,
    progress: u64,
    reserved: [u64; 6],
}

/// `struct btrfs_ioctl_search_args`, linux/btrfs.h: the key, then the result, which is a header and the item.
#[repr(C)]
struct Search {
    tree: u64,
    min_object: u64,
    max_object: u64,
    min_offset: u64,
    max_offset: u64,
    min_transaction: u64,
    max_transaction: u64,
    min_kind: u32,
    max_kind: u32,
    items: u32,
    unused: u32,
    reserved: [u64; 4],
    header: [u64; 4],
    /// Beginning of the item, little-endian.
    item: [u64; 3],
    rest: [u8; 3936],
}

const _: () = {
    assert!(size_of::<VolArgs>() == 4096 && size_of::<VolArgsV2>() == 4096);
    assert!(size_of::<InoLookup>() == 4096 && size_of::<Search>() == 4096);
    assert!(size_of::<QgroupLimit>() == 48 && size_of::<QgroupCreate>() == 16 && size_of::<Rescan>() == 64);
};

/// State of a file system's quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quotas {
    /// The file system has no quotas.
    Off,
    /// Usage is known, or soon will be: a count may still be going on.
    On,
    /// Usage is unknown, and no count is going on.
    Inconsistent,
}

/// True if a directory is the top of a subvolume.
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
/// `ENOTTY` if the directory is not on btrfs; `EEXIST`.
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
/// `ENOTTY` if the directory is not on btrfs, `EXDEV` if the two are on different file systems, `EINVAL` if the
/// source is not a subvolume; `EEXIST`.
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

/// Removes a subvolume and everything in it; the kernel frees its space later.
///
/// # Errors
/// `ENOTTY`, `EINVAL` and `ENOENT` if it is not a subvolume.
pub fn remove_subvolume(dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let args = VolArgs {
        fd: 0,
        name: filled(name)?,
    };
    // SAFETY: the kernel reads a `struct btrfs_ioctl_vol_args`, which outlives the call.
    check(unsafe { libc::ioctl(dir.as_raw_fd(), SNAP_DESTROY, &raw const args) })
}

/// Returns the id of the subvolume that a file is in.
///
/// # Errors
/// `ENOTTY` if the file is not on btrfs.
pub fn subvolume_id(file: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut args = InoLookup {
        tree: 0, // the file's
        inode: TOP,
        name: [0; 4080],
    };
    // SAFETY: the kernel reads and writes a `struct btrfs_ioctl_ino_lookup_args`, which is as long and outlives the
    // call; any bytes are valid in it.
    check(unsafe { libc::ioctl(file.as_raw_fd(), INO_LOOKUP, &raw mut args) })?;
    Ok(args.tree)
}

/// True if the file system of this file has a subvolume with this id that was not removed. For root only.
///
/// # Errors
/// `ENOTTY` if the file is not on btrfs, `EPERM`.
pub fn has_subvolume(file: BorrowedFd<'_>, id: u64) -> Result<bool, Errno> {
    Ok(search(file, ROOT_TREE, id, ROOT_BACKREF)?.is_some())
}

/// Returns the state of the quotas of the file system that a file is on. For root only.
///
/// # Errors
/// `ENOTTY` if the file is not on btrfs, `EPERM`.
pub fn quotas(file: BorrowedFd<'_>) -> Result<Quotas, Errno> {
    let status = match search(file, QUOTA_TREE, 0, STATUS) {
        Err(Errno::NOENT) => None,
        other => other?,
    };
    // `struct btrfs_qgroup_status_item`: version, generation, flags.
    let Some([_, _, flags]) = status else {
        return Ok(Quotas::Off);
    };
    if flags & INCONSISTENT == 0 {
        return Ok(Quotas::On);
    }
    // The item is as old as the last transaction; only this ioctl knows about a count that has just begun.
    let mut rescan = Rescan::default();
    // SAFETY: the kernel writes a `struct btrfs_ioctl_quota_rescan_args`, which is as long and outlives the call; any
    // bytes are valid in it.
    check(unsafe { libc::ioctl(file.as_raw_fd(), QUOTA_RESCAN_STATUS, &raw mut rescan) })?;
    Ok(if rescan.flags == 0 {
        Quotas::Inconsistent
    } else {
        Quotas::On
    })
}

/// Returns the first numbers of the first item of a kind that an object has in one of the file system's trees.
///
/// # Errors
/// `ENOENT` if the tree does not exist.
fn search(file: BorrowedFd<'_>, tree: u64, object: u64, kind: u32) -> Result<Option<[u64; 3]>, Errno> {
    let mut args = Search {
        tree,
        min_object: object,
        max_object: object,
        min_offset: 0,
        max_offset: u64::MAX,
        min_transaction: 0,
        max_transaction: u64::MAX,
        min_kind: kind,
        max_kind: kind,
        items: 1,
        unused: 0,
        reserved: [0; 4],
        header: [0; 4],
        item: [0; 3],
        rest: [0; 3936],
    };
    // SAFETY: the kernel reads and writes a `struct btrfs_ioctl_search_args`, which is as long and outlives the call;
    // any bytes are valid in it.
    check(unsafe { libc::ioctl(file.as_raw_fd(), TREE_SEARCH, &raw mut args) })?;
    Ok((args.items != 0).then(|| args.item.map(u64::from_le)))
}

/// Limits the bytes that the subvolume of a directory shares with no other one, or lifts that limit.
///
/// # Errors
/// `ENOTCONN` if the file system has no quotas, `ENOENT` if they do not know the subvolume, `ENOTTY` if the directory
/// is not on btrfs, `EPERM`.
pub fn limit_subvolume(dir: BorrowedFd<'_>, bytes: Option<u64>) -> Result<(), Errno> {
    let args = QgroupLimit {
        id: 0, // the directory's
        flags: MAX_EXCL,
        max_rfer: 0,
        max_excl: bytes.unwrap_or(NO_LIMIT),
        rsv_rfer: 0,
        rsv_excl: 0,
    };
    // SAFETY: the kernel reads a `struct btrfs_ioctl_qgroup_limit_args`, which is as long and outlives the call.
    check(unsafe { libc::ioctl(dir.as_raw_fd(), QGROUP_LIMIT, &raw const args) })
}

/// Removes the quota group of a removed subvolume from the file system that a file is on.
///
/// # Errors
/// `ENOENT` if there is no such group, `EBUSY` as long as the space of the subvolume has not been freed, `ENOTCONN`
/// if the file system has no quotas, `EPERM`.
pub fn forget_subvolume(file: BorrowedFd<'_>, id: u64) -> Result<(), Errno> {
    let args = QgroupCreate { create: 0, id };
    // SAFETY: the kernel reads a `struct btrfs_ioctl_qgroup_create_args`, which is as long and outlives the call.
    check(unsafe { libc::ioctl(file.as_raw_fd(), QGROUP_CREATE, &raw const args) })
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
