//! Device nodes: the container's own, and the host's if the kernel forbids making them.

use crate::attach::at_name;
use crate::attributes::{Change, set_attributes};
use crate::registers::Registers;
use crate::text::Text;
use crate::{Errno, fresh, root};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dev, FileType, Gid, Mode, OFlags, Uid, makedev};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use std::ffi::{CStr, CString};

/// A device node to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceNode {
    /// Path of the node, inside.
    pub path: CString,
    /// `S_IFCHR`, `S_IFBLK` or `S_IFIFO`, and the permission bits.
    pub mode: u32,
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Owner and group.
    pub owner: (u32, u32),
    /// True if the mount around it is `nodev`: the node then gets a mount of its own without that flag, so that it
    /// can be opened. An existing node must in this case be the same device.
    pub on_nodev: bool,
}

/// Makes a node of the container's own, with exactly this mode and owner; an existing one stays. If the kernel
/// forbids it, the host's node of the same path is bound.
pub(crate) fn make(node: &DeviceNode, registers: &mut Registers<'_>) -> Result<(), Errno> {
    let number = makedev(node.major, node.minor);
    if let Some((dir, name)) = fresh::place(registers.fresh.as_ref(), &node.path)
        && made_at_once(dir, name, node, number)?
    {
        let null = finish(dir, name, node, number)?;
        registers.null = null.or(registers.null.take());
        return Ok(());
    }
    let (dir, name) = root::parent(registers.root()?, &node.path)?;
    match rustix::fs::mknodat(&dir, name, kind(node), permissions(node), number) {
        Err(Errno::EXIST) if !node.on_nodev => return Ok(()),
        Err(Errno::PERM) => return bind(&dir, name, &node.path),
        Err(Errno::EXIST) => registers.text.set(b"something else is there"),
        other => {
            other?;
            settle(dir.as_fd(), name, node, number)?;
        }
    }
    let null = finish(dir.as_fd(), name, node, number)?;
    registers.text = Text::EMPTY;
    registers.null = null.or(registers.null.take());
    Ok(())
}

fn kind(node: &DeviceNode) -> FileType {
    FileType::from_raw_mode(node.mode)
}

fn permissions(node: &DeviceNode) -> Mode {
    Mode::from_raw_mode(node.mode & 0o7777)
}

/// Makes it with one mknod(2), apart from umask(2), in a tmpfs that no other process has changed; `false` if that is
/// impossible.
fn made_at_once(dir: BorrowedFd<'_>, name: &CStr, node: &DeviceNode, number: Dev) -> Result<bool, Errno> {
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    if node.owner != own {
        return Ok(false);
    }
    let mask = rustix::process::umask(Mode::empty());
    let made = rustix::fs::mknodat(dir, name, kind(node), permissions(node), number);
    rustix::process::umask(mask);
    match made {
        Err(Errno::EXIST | Errno::PERM) => Ok(false),
        other => other.map(|()| true),
    }
}

/// Sets the mode and owner of a node that was just made.
fn settle(dir: BorrowedFd<'_>, name: &CStr, node: &DeviceNode, number: Dev) -> Result<(), Errno> {
    // The umask makes a chmod necessary. It uses the descriptor that was checked: others may write to the directory,
    // and replace the node by a link.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let stat = check(made.as_fd(), node, number)?;
    if stat.st_mode & 0o7777 != node.mode & 0o7777 {
        crate::copy::chmod_node(made.as_fd(), permissions(node))?;
    }
    if (stat.st_uid, stat.st_gid) == node.owner {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(node.owner.0), Gid::from_raw(node.owner.1));
    rustix::fs::chownat(&made, c"", Some(uid), Some(gid), AtFlags::EMPTY_PATH)
}

/// Checks that this is the intended node and not a replacement; `EXDEV` otherwise.
fn check(made: BorrowedFd<'_>, node: &DeviceNode, number: Dev) -> Result<rustix::fs::Stat, Errno> {
    let stat = rustix::fs::fstat(made)?;
    let is_device = kind(node) != FileType::Fifo;
    if FileType::from_raw_mode(stat.st_mode) != kind(node) || (is_device && stat.st_rdev != number) {
        return Err(Errno::XDEV);
    }
    Ok(stat)
}

/// Makes an existing node usable on a `nodev` mount. Returns the null device, for the operations that hide files
/// behind it.
fn finish(
    dir: BorrowedFd<'_>,
    name: &CStr,
    node: &DeviceNode,
    number: Dev,
) -> Result<Option<OwnedFd>, Errno> {
    let is_device = kind(node) != FileType::Fifo;
    let is_null = kind(node) == FileType::CharacterDevice && (node.major, node.minor) == (1, 3);
    if node.on_nodev && is_device {
        let mount = without_nodev(dir, name, node, number)?;
        return Ok(is_null.then_some(mount));
    }
    if !is_null {
        return Ok(None);
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let null = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    check(null.as_fd(), node, number)?;
    Ok(Some(null))
}

/// Mounts a node on itself, and clears `nodev` on that one mount: other nodes in the same file system stay dead.
fn without_nodev(dir: BorrowedFd<'_>, name: &CStr, node: &DeviceNode, number: Dev) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let mount = open_tree(dir, name, flags)?;
    check(mount.as_fd(), node, number)?;
    let change = Change {
        clear: MountAttrFlags::MOUNT_ATTR_NODEV,
        ..Change::NONE
    };
    set_attributes(mount.as_fd(), &change, false)?;
    at_name(mount.as_fd(), dir, name)?;
    Ok(mount)
}

/// Flags that protect a node of the host from changes: a device can be opened for writing through a read-only mount,
/// but every change to its inode is refused there.
const OF_HOST: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_RDONLY
    .union(MountAttrFlags::MOUNT_ATTR_NOSUID)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// Makes a detached mount of a node of the host.
pub(crate) fn of_host(path: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let mount = open_tree(CWD, path, flags)?;
    let change = Change {
        set: OF_HOST,
        ..Change::NONE
    };
    set_attributes(mount.as_fd(), &change, false)?;
    Ok(mount)
}

/// Returns the host's null device, which no container can have swapped (CVE-2025-31133): it is opened and checked
/// before the root changes.
pub(crate) fn null_of_host() -> Result<OwnedFd, Errno> {
    let null = of_host(c"/dev/null")?;
    let stat = rustix::fs::fstat(&null)?;
    let is_char = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice;
    if !is_char || stat.st_rdev != makedev(1, 3) {
        return Err(Errno::NXIO);
    }
    Ok(null)
}

fn bind(dir: &OwnedFd, name: &CStr, path: &CStr) -> Result<(), Errno> {
    let mount = root::with_absolute(path, of_host)?;
    root::touch(dir, name, 0o000)?;
    at_name(mount.as_fd(), dir.as_fd(), name)
}
