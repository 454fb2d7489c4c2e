//! Paths of the container that are hidden or made read-only.

use crate::Errno;
use crate::attach::attach;
use crate::attributes::{Change, set_attributes};
use crate::registers::Registers;
use crate::{node, root};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::FileType;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen, open_tree,
};
use std::ffi::CStr;

/// Hides a path of the container: a directory behind an empty one, a file behind the container's own null device,
/// which no other container has. A container without one gets the host's.
pub(crate) fn mask(path: &CStr, registers: &mut Registers<'_>) -> Result<(), Errno> {
    let place = match root::open(registers.root()?, path, false) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
        other => other?,
    };
    let is_dir = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode) == FileType::Directory;
    let cover = if is_dir {
        &mut registers.empty
    } else {
        &mut registers.null
    };
    let Some(cover) = cover else {
        // Older kernels clone attached mounts only, so the first cover is attached itself and later ones are clones
        // of it.
        let first = if is_dir { empty() } else { node::null_of_host() }?;
        attach(first.as_fd(), place.as_fd())?;
        *cover = Some(first);
        return Ok(());
    };
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    attach(open_tree(cover, c"", flags)?.as_fd(), place.as_fd())
}

fn empty() -> Result<OwnedFd, Errno> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, c"mode", c"555")?;
    fsconfig_create(&context)?;
    let set = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, set)
}

/// Makes a path of the container read-only together with everything mounted below it.
pub(crate) fn read_only(path: &CStr, registers: &Registers<'_>) -> Result<(), Errno> {
    let place = match root::open(registers.root()?, path, false) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
        other => other?,
    };
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(&place, c"", flags)?;
    set_attributes(
        tree.as_fd(),
        &Change {
            set: MountAttrFlags::MOUNT_ATTR_RDONLY,
            ..Change::NONE
        },
        true,
    )?;
    attach(tree.as_fd(), place.as_fd())
}
