//! Paths of the container that are hidden, or cannot be written.

use crate::Errno;
use crate::attributes::{Change, set_attributes};
use crate::child::Registers;
use crate::mount::attach;
use crate::root;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount,
    fsopen, open_tree,
};
use std::ffi::CStr;

/// Hides a path of the container: a file behind `/dev/null`, a directory behind an empty one.
pub(crate) fn mask(path: &CStr, registers: &mut Registers<'_>) -> Result<(), Errno> {
    let place = match root::open(registers.root()?, path, false) {
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => return Ok(()),
        other => other?,
    };
    let is_dir = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode) == FileType::Directory;
    if is_dir && registers.empty.is_none() {
        // Older kernels clone only what is attached, so the first one is made and the others are clones of it.
        let empty = empty()?;
        attach(empty.as_fd(), place.as_fd())?;
        registers.empty = Some(empty);
        return Ok(());
    }
    let source = if is_dir {
        registers.empty.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)?
    } else {
        null(registers)?
    };
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    attach(open_tree(source, c"", flags)?.as_fd(), place.as_fd())
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

/// The host's null device, which no container can have swapped (CVE-2025-31133): it is opened before the root changes,
/// and looked at.
fn null<'r>(registers: &'r mut Registers<'_>) -> Result<BorrowedFd<'r>, Errno> {
    if registers.null.is_none() {
        let null = rustix::fs::open(c"/dev/null", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        let stat = rustix::fs::fstat(&null)?;
        let is_char = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
        if !is_char || stat.st_rdev != rustix::fs::makedev(1, 3) {
            return Err(Errno::NXIO);
        }
        registers.null = Some(null);
    }
    registers.null.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)
}

/// Makes a path of the container read-only with all that is mounted below it.
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
