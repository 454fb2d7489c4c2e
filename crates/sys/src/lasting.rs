//! Mounts in a namespace that is not the container's own: they outlive it until somebody takes them away.

use crate::attributes::{Change, set_attributes};
use crate::join::set_namespaces;
use crate::{Errno, Propagation};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags, statx};
use rustix::mount::UnmountFlags;
use std::ffi::CStr;

/// A mount by its place and its number.
#[derive(Clone, Copy, Debug)]
pub struct LastingMount<'a> {
    /// Where it was put; absolute.
    pub path: &'a CStr,
    /// What [`mount_number`] said of it.
    pub number: u64,
    /// The mount namespace that the path is in; `None` for the caller's.
    pub namespace: Option<BorrowedFd<'a>>,
}

/// The kernel's number of a mount, attached or not. Since Linux 6.8 no other ever has the same; before, none at the same
/// time.
///
/// # Errors
/// statx(2)'s; `ENOSYS` from a kernel that does not tell.
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

/// Takes the mount away, and what is mounted on it; `false` where another one, or none, is on top at that place. For a
/// process that ends after it: it goes to that place.
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
    // Copies of the host's mounts may be among those below, and taking a shared copy apart would be an event for the
    // host's own: it would lose what is mounted on them.
    let private = Change {
        propagation: Some(Propagation::Private),
        ..Change::NONE
    };
    set_attributes(top.as_fd(), &private, true)?;
    rustix::process::fchdir(&top)?;
    rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
    Ok(true)
}
