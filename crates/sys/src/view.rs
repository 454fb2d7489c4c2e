//! Read-only mounts that are attached nowhere, for a process that may mount.

use crate::Errno;
use crate::copy::descriptor_path;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_fd, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen,
};
use std::ffi::CStr;

/// Mounts the file system that is in a file, read-only and attached nowhere.
///
/// # Errors
/// fsopen(2)'s, fsconfig(2)'s and fsmount(2)'s: `ENOTBLK` if this kernel mounts only block devices.
pub fn file_mount(fs: &CStr, file: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let context = fsopen(fs, FsOpenFlags::FSOPEN_CLOEXEC)?;
    let path = descriptor_path(file);
    let source = CStr::from_bytes_until_nul(&path).map_err(|_| Errno::INVAL)?;
    fsconfig_set_string(&context, c"source", source)?;
    fsconfig_set_flag(&context, c"ro")?;
    fsconfig_create(&context)?;
    read_only(context.as_fd())
}

/// Mounts an overlay of a layer over another one that provides only contents of files, read-only and attached nowhere.
///
/// # Errors
/// fsopen(2)'s, fsconfig(2)'s and fsmount(2)'s: `EINVAL` if the kernel lacks support.
pub fn overlay_of(layer: BorrowedFd<'_>, contents: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let context = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_fd(&context, c"lowerdir+", layer)?;
    fsconfig_set_fd(&context, c"datadir+", contents)?;
    fsconfig_create(&context)?;
    read_only(context.as_fd())
}

fn read_only(context: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY;
    fsmount(context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
