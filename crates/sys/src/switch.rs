//! Change from the host's root to the container's, and the mount events that the host may see: pivot_root(2),
//! chroot(2), propagation.

use crate::attach::attach;
use crate::attributes::{Change, set_attributes};
use crate::registers::Registers;
use crate::{Errno, Propagation};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, UnmountFlags, fsconfig_create, fsmount, fsopen,
};
use std::ffi::CStr;

fn spread(mount: BorrowedFd<'_>, propagation: Propagation, recursive: bool) -> Result<(), Errno> {
    let change = Change {
        propagation: Some(propagation),
        ..Change::NONE
    };
    set_attributes(mount, &change, recursive)
}

/// Sets the propagation of every mount of this namespace.
pub(crate) fn set_propagation(
    propagation: Propagation,
    recursive: bool,
    registers: &mut Registers<'_>,
) -> Result<(), Errno> {
    let root = rustix::fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    registers.shares |= propagation == Propagation::Shared;
    spread(root.as_fd(), propagation, recursive)
}

/// Sets the propagation of the mount that holds a path: goes up from the path until a directory is the root of a
/// mount.
pub(crate) fn set_holder(path: &CStr, propagation: Propagation) -> Result<(), Errno> {
    set_mount_of(
        rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?,
        propagation,
    )
}

fn set_mount_of(mut dir: OwnedFd, propagation: Propagation) -> Result<(), Errno> {
    // Upper bound of the components of a path.
    for _ in 0..2048 {
        match spread(dir.as_fd(), propagation, false) {
            Err(Errno::INVAL) => {}
            other => return other,
        }
        dir = above(dir.as_fd())?;
    }
    Err(Errno::LOOP)
}

fn above(dir: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, c"..", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}

/// Makes the container's root the root of this mount namespace and of this process.
pub(crate) fn pivot(registers: &Registers<'_>) -> Result<(), Errno> {
    let old = if registers.shares {
        Some(rustix::fs::open(
            c"/",
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        )?)
    } else {
        None
    };
    rustix::process::fchdir(registers.root()?)?;
    // The old root ends up on top of the new one, where unmounting "." detaches it: it needs no directory of its own.
    // (Opening "." would give the new root, which is below.)
    rustix::process::pivot_root(c".", c".")?;
    if let Some(old) = old {
        // The detaching must not propagate to the host, which would lose its own mounts.
        spread(old.as_fd(), Propagation::Slave, true)?;
    }
    rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
    rustix::process::chdir(c"/")
}

/// Moves the container's root over the host's.
pub(crate) fn move_root(registers: &Registers<'_>) -> Result<(), Errno> {
    let root = registers.root()?;
    let old = rustix::fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    if registers.shares {
        // The host's own root would be covered as well.
        spread(old.as_fd(), Propagation::Slave, false)?;
    }
    rustix::process::fchdir(root)?;
    attach(root, old.as_fd())?;
    chroot(registers)
}

/// Makes the container's root the root of this process alone.
pub(crate) fn chroot(registers: &Registers<'_>) -> Result<(), Errno> {
    rustix::process::fchdir(registers.root()?)?;
    rustix::process::chroot(c".")?;
    rustix::process::chdir(c"/")
}

/// Detaches a mount of the host. A mount that this user namespace may not detach is covered instead; a mount that was
/// detached together with its parent is not an error.
pub(crate) fn unmount(path: &CStr) -> Result<(), Errno> {
    let place = match rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    match spread(place.as_fd(), Propagation::Slave, true) {
        Err(Errno::INVAL) => return Ok(()), // not a mount any more
        other => other?,
    }
    // The propagation of the parent mount decides whether other namespaces see the event.
    set_mount_of(above(place.as_fd())?, Propagation::Slave)?;
    match rustix::mount::unmount(path, UnmountFlags::DETACH) {
        Err(Errno::INVAL | Errno::PERM) => {
            let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            fsconfig_create(&context)?;
            let cover = fsmount(
                &context,
                FsMountFlags::FSMOUNT_CLOEXEC,
                MountAttrFlags::MOUNT_ATTR_RDONLY,
            )?;
            attach(cover.as_fd(), place.as_fd())
        }
        other => other,
    }
}
