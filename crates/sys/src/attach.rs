//! move_mount(2): a detached mount gets its place.

use crate::Errno;
use rustix::fd::BorrowedFd;
use rustix::mount::{MoveMountFlags, move_mount};
use std::ffi::CStr;

/// Puts a detached mount at a place; both are descriptors.
pub(crate) fn attach(mount: BorrowedFd<'_>, place: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, c"", place, c"", flags)
}

/// Puts a detached mount at a name in an open directory; a link there is not followed.
pub(crate) fn at_name(mount: BorrowedFd<'_>, dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    move_mount(mount, c"", dir, name, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}
