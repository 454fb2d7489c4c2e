//! Attributes of mounts: mount_setattr(2), which rustix lacks.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::mount::MountAttrFlags;

/// Propagation of a mount, mount(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Mount events neither come in nor go out.
    Private,
    /// Mount events come in.
    Slave,
    /// Mount events come in and go out.
    Shared,
    /// Private, and the mount cannot be bind-mounted.
    Unbindable,
}

/// Mount attributes, mount_setattr(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Flags that are set on the mount.
    pub set: MountAttrFlags,
    /// Flags that are cleared.
    pub clear: MountAttrFlags,
    /// Flags that are cleared unless the kernel has locked them for a user namespace.
    pub clear_unlocked: MountAttrFlags,
    /// Flags that are set on the mount and on every mount below.
    pub set_below: MountAttrFlags,
    /// Flags that are cleared on the mount and on every mount below.
    pub clear_below: MountAttrFlags,
    /// Propagation, and whether it applies to the mounts below as well.
    pub propagation: Option<(Propagation, bool)>,
}

impl Attributes {
    /// No change.
    pub const NONE: Self = Self {
        set: MountAttrFlags::empty(),
        clear: MountAttrFlags::empty(),
        clear_unlocked: MountAttrFlags::empty(),
        set_below: MountAttrFlags::empty(),
        clear_below: MountAttrFlags::empty(),
        propagation: None,
    };

    /// Sets these flags and clears none.
    #[must_use]
    pub const fn set(set: MountAttrFlags) -> Self {
        Self { set, ..Self::NONE }
    }
}

/// Changes a mount: itself first and then the tree, so that the change to the tree holds for its top as well.
pub(crate) fn change(mount: BorrowedFd<'_>, attributes: &Attributes) -> Result<(), Errno> {
    let here = |unlocked| Change {
        set: attributes.set,
        clear: attributes.clear | unlocked,
        ..Change::NONE
    };
    match set_attributes(mount, &here(attributes.clear_unlocked), false) {
        // A user namespace may not clear flags that its mounts were given outside of it. NOSYMFOLLOW is the one flag
        // that the kernel never locks.
        Err(Errno::PERM) if !attributes.clear_unlocked.is_empty() => {
            let free = attributes.clear_unlocked & MountAttrFlags::MOUNT_ATTR_NOSYMFOLLOW;
            set_attributes(mount, &here(free), false)?;
        }
        other => other?,
    }
    beyond(mount, attributes)
}

/// Makes the part of a change that fsmount(2) cannot make.
pub(crate) fn beyond(mount: BorrowedFd<'_>, attributes: &Attributes) -> Result<(), Errno> {
    let below = Change {
        set: attributes.set_below,
        clear: attributes.clear_below,
        ..Change::NONE
    };
    set_attributes(mount, &below, true)
}

/// Sets the propagation of a mount that is in its place already: an unbindable mount could not be put into a shared
/// one.
pub(crate) fn propagate(mount: BorrowedFd<'_>, attributes: &Attributes) -> Result<(), Errno> {
    let (propagation, recursive) = attributes.propagation.unzip();
    let propagation = Change {
        propagation,
        ..Change::NONE
    };
    set_attributes(mount, &propagation, recursive == Some(true))
}

pub(crate) struct Change<'a> {
    pub(crate) set: MountAttrFlags,
    pub(crate) clear: MountAttrFlags,
    pub(crate) propagation: Option<Propagation>,
    pub(crate) idmap: Option<BorrowedFd<'a>>,
}

impl Change<'_> {
    pub(crate) const NONE: Self = Self {
        set: MountAttrFlags::empty(),
        clear: MountAttrFlags::empty(),
        propagation: None,
        idmap: None,
    };
}

/// Calls mount_setattr(2), which rustix lacks.
pub(crate) fn set_attributes(
    mount: BorrowedFd<'_>,
    change: &Change<'_>,
    recursive: bool,
) -> Result<(), Errno> {
    /// `struct mount_attr`, linux/mount.h.
    #[repr(C)]
    struct MountAttr {
        attr_set: u64,
        attr_clr: u64,
        propagation: u64,
        userns_fd: u64,
    }
    if change.set.is_empty() && change.clear.is_empty() && change.propagation.is_none() {
        return Ok(());
    }
    let attr = MountAttr {
        attr_set: change.set.bits().into(),
        attr_clr: change.clear.bits().into(),
        propagation: match change.propagation {
            None => 0,
            Some(Propagation::Private) => libc::MS_PRIVATE,
            Some(Propagation::Slave) => libc::MS_SLAVE,
            Some(Propagation::Shared) => libc::MS_SHARED,
            Some(Propagation::Unbindable) => libc::MS_UNBINDABLE,
        },
        userns_fd: change.idmap.map_or(0, |fd| fd.as_raw_fd() as u64),
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the kernel reads `size_of::<MountAttr>()` bytes of a struct that outlives the call, and a C string.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(errno()) }
}
