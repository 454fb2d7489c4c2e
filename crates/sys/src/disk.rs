//! File systems of disks that a process looks into, and that are mounted at no place.

use crate::Errno;
use rustix::fd::OwnedFd;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string,
    fsmount, fsopen,
};
use rustix::path::Arg;

/// Mounts the file system of a device to read it: the mount is read-only, and no device or program in it is one. It goes with the last
/// descriptor of something in it.
///
/// All mounts of a device have to agree whether the file system itself is read-only, which `is_read_only` says.
///
/// # Errors
/// fsopen(2)'s, fsconfig(2)'s and fsmount(2)'s.
pub fn mount_to_read(kind: &str, device: impl Arg, is_read_only: bool) -> Result<OwnedFd, Errno> {
    let context = fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, "source", device)?;
    if is_read_only {
        fsconfig_set_flag(&context, "ro")?;
    }
    fsconfig_create(&context)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}
