//! The process's own executable as a file.

use crate::attributes::change;
use crate::{Attributes, Errno};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use std::ffi::CStr;

/// Link to the executable of the process that opens it.
pub(crate) const OWN: &CStr = c"/proc/self/exe";

/// Makes a detached, read-only mount of the executable alone in a mount namespace that this process has just entered: the file belongs to the previous one,
/// and only its path leads to it here. `ENOENT` if the path leads to another file.
pub(crate) fn mount_by_name(path: &CStr) -> Result<OwnedFd, Errno> {
    let tree = read_only(path)?;
    let (found, own) = (rustix::fs::fstat(&tree)?, rustix::fs::stat(OWN)?);
    let same = (found.st_dev, found.st_ino) == (own.st_dev, own.st_ino);
    same.then_some(tree).ok_or(Errno::NOENT)
}

/// Makes a detached, read-only mount of a file alone.
pub(crate) fn read_only(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(rustix::fs::CWD, path, flags)?;
    change(tree.as_fd(), &Attributes::set(MountAttrFlags::MOUNT_ATTR_RDONLY))?;
    Ok(tree)
}
