//! Mounts at which programs of this machine see the root of another process.

use crate::attach::attach;
use crate::attributes::{Change, set_attributes};
use crate::errand::root_of;
use crate::source::on_host;
use crate::{Errno, Propagation};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use rustix::mount::{UnmountFlags, unmount};
use std::ffi::CStr;

/// Mounts the root of a process in another mount namespace at a directory of this one, without the mounts in it. The mount
/// outlives that process, and this one.
///
/// # Errors
/// Those of [`root_of`], and move_mount(2)'s.
pub fn show_root(process: BorrowedFd<'_>, place: &CStr) -> Result<(), Errno> {
    let root = root_of(process, libc::CLONE_NEWNS as u32)?;
    attach(root.as_fd(), on_host(place)?.as_fd())?;
    // What the container mounts in its root, and a start that uses this mount, must not show here.
    let private = Change {
        propagation: Some(Propagation::Private),
        ..Change::NONE
    };
    set_attributes(root.as_fd(), &private, false)
}

/// True if something is mounted at a directory, as this process sees it.
///
/// # Errors
/// statx(2)'s.
pub fn is_mount_point(place: &CStr) -> Result<bool, Errno> {
    let found = statx(CWD, place, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::MNT_ID)?;
    Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Takes away what is mounted at a directory. With `lazily` also a mount that a process works in, which goes with the last
/// such process; otherwise that is `EBUSY`.
///
/// # Errors
/// umount(2)'s.
pub fn hide_root(place: &CStr, lazily: bool) -> Result<(), Errno> {
    let mut flags = UnmountFlags::NOFOLLOW;
    flags.set(UnmountFlags::DETACH, lazily);
    unmount(place, flags)
}
