//! Mounts outside the container's own mount namespace: they outlive the container until [`take_away`] unmounts them.

use crate::attributes::{Change, set_attributes};
use crate::join::set_namespaces;
use crate::{Errno, Propagation};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, statx};
use rustix::mount::UnmountFlags;
use std::ffi::CStr;

/// A mount, named by its place and its number.
#[derive(Clone, Copy, Debug)]
pub struct LastingMount<'a> {
    /// Mount point; an absolute path.
    pub path: &'a CStr,
    /// Number that [`mount_number`] returned for it.
    pub number: u64,
    /// Mount namespace that the path is in; `None` for the caller's.
    pub namespace: Option<BorrowedFd<'a>>,
}

/// Returns the kernel's number of a mount, attached or not. Since Linux 6.8 the number is never used again; older
/// kernels may give it to another mount after this one is gone.
///
/// # Errors
/// statx(2)'s; `ENOSYS` from a kernel that does not report the number.
pub fn mount_number(mount: BorrowedFd<'_>) -> Result<u64, Errno> {
    /// `STATX_MNT_ID_UNIQUE`, linux/stat.h.
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let wanted = StatxFlags::MNT_ID | UNIQUE;
    let found = statx(mount, c"", AtFlags::EMPTY_PATH, wanted)?;
    if found.stx_mask & wanted.bits() == 0 {
        return Err(Errno::NOSYS);
    }
    Ok(found.stx_mnt_id)
}

/// Detaches the mount together with everything mounted on it; `false` if another mount, or none, is on top at that
/// place. Changes the working directory and perhaps the mount namespace of the process, which should therefore end
/// afterwards.
pub(crate) fn take_away(mount: &LastingMount<'_>) -> Result<bool, Errno> {
    if let Some(namespace) = mount.namespace {
        set_namespaces(namespace, libc::CLONE_NEWNS as u32)?;
    }
    let top = match rustix::fs::open(mount.path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(false),
        other => other?,
    };
    if mount_number(top.as_fd())? != mount.number {
        return Ok(false);
    }
    // Mounts below it may be copies of the host's. Detaching a shared copy would propagate to the host's own mount,
    // which would lose everything mounted on it.
    let private = Change {
        propagation: Some(Propagation::Private),
        ..Change::NONE
    };
    set_attributes(top.as_fd(), &private, true)?;
    rustix::process::fchdir(&top)?;
    rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
    Ok(true)
}
