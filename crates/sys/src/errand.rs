//! Work in namespaces that are not the caller's, done by a process that exists for nothing else.
//!
//! A process that makes or joins a namespace is in it, but the caller has to stay where it is. So another process
//! does the work, opens the result, and ends before the caller goes on: [`aside`].

use crate::aside::aside;
use crate::attributes::{Change, propagate, set_attributes};
use crate::identity::{loopback_up, map_one_id, unshare};
use crate::join::set_namespaces;
use crate::lasting::{self, LastingMount};
use crate::source::open_source;
use crate::{Attributes, DeviceNode, Errno, IdMaps, Propagation, executable};
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Statx, StatxFlags, Uid};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsconfig_set_flag,
    fsconfig_set_string, fsmount, fsopen, open_tree,
};
use rustix::net::{AddressFamily, Protocol, SocketFlags, SocketType};
use rustix::thread::ThreadNameSpaceType;
use std::ffi::CStr;

/// Makes a user namespace that maps one id to the caller's own, for an id-mapped mount.
///
/// `inside` is the id in the namespace; it maps to the caller's effective ids.
///
/// # Errors
/// clone(2)'s, and write(2)'s on the maps.
pub fn user_namespace(inside: u32) -> Result<OwnedFd, Errno> {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    let maps = IdMaps {
        uid: (inside, uid),
        gid: (inside, gid),
    };
    run(Errand::User(maps), libc::CLONE_NEWUSER)
}

/// Makes a network namespace with its loopback interface up. Its owner is the user namespace of the process of this
/// pidfd, or else the caller's.
///
/// # Errors
/// setns(2)'s, and unshare(2)'s.
pub fn network_namespace(owner: Option<BorrowedFd<'_>>) -> Result<OwnedFd, Errno> {
    run(Errand::Network(owner), 0)
}

/// Tree that this process may open and the container's process may not.
#[derive(Clone, Copy, Debug)]
pub struct Tree<'a> {
    /// Absolute path.
    pub path: &'a CStr,
    /// Path inside that directory which is the tree in its place; links on the way cannot leave the directory.
    pub subpath: Option<&'a CStr>,
    /// Pidfd of a process in whose mount namespace the path is.
    pub process: BorrowedFd<'a>,
    /// True if mounts below it come along.
    pub recursive: bool,
    /// User namespace by whose maps owners are shown, and whether they are below as well.
    pub idmap: Option<(BorrowedFd<'a>, bool)>,
    /// Whether the tree may come from the caller's own mounts.
    pub unlocked: Unlocked,
}

/// Choice whether a tree may come from the caller's own mount namespace, of which the other process's is a copy that
/// the kernel has locked: in a user namespace of its own, a copied mount keeps the mounts on top of it and its
/// options. The tree is then the same directory or file; it receives new mounts without propagating any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlocked {
    /// Always the other process's tree.
    Never,
    /// The other process's, unless the kernel refuses to separate a mount from those on top of it.
    IfTied,
    /// Always the caller's own tree.
    Always,
}

/// Opens a tree as seen by a process in another mount namespace, with the caller's rights.
///
/// # Errors
/// setns(2)'s, open_tree(2)'s, and mount_setattr(2)'s for the map; `ESTALE` if the path leads to another file among
/// the caller's own mounts.
pub fn tree(tree: &Tree<'_>) -> Result<OwnedFd, Errno> {
    match run(Errand::Tree(*tree), 0) {
        Err(Errno::INVAL) if tree.unlocked == Unlocked::IfTied && !tree.recursive => {
            let unlocked = Unlocked::Always;
            run(Errand::Tree(Tree { unlocked, ..*tree }), 0)
        }
        opened => opened,
    }
}

/// Makes a device node on a file system of its own; returns a detached mount of the node alone.
///
/// # Errors
/// fsopen(2)'s, fsmount(2)'s, mknod(2)'s, chown(2)'s and open_tree(2)'s.
pub fn device_mount(node: &DeviceNode) -> Result<OwnedFd, Errno> {
    const NAME: &CStr = c"node";
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let nothing = MountAttrFlags::empty();
    let dir = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, nothing)?;
    let (kind, mode) = (FileType::from_raw_mode(node.mode), Mode::from_raw_mode(node.mode));
    let device = rustix::fs::makedev(node.major, node.minor);
    rustix::fs::mknodat(&dir, NAME, kind, Mode::empty(), device)?;
    let (uid, gid) = (Uid::from_raw(node.owner.0), Gid::from_raw(node.owner.1));
    rustix::fs::chownat(&dir, NAME, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    rustix::fs::chmodat(&dir, NAME, mode, AtFlags::empty())?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    open_tree(&dir, NAME, flags)
}

/// Returns a detached copy of the root directory of a process in other namespaces, without the mounts in it. `namespaces` are
/// the `CLONE_NEW…` bits of those that have to be joined for that: the mount namespace, and for a caller other than root the user
/// namespace that owns it.
///
/// # Errors
/// setns(2)'s, and open_tree(2)'s.
pub fn root_of(process: BorrowedFd<'_>, namespaces: u32) -> Result<OwnedFd, Errno> {
    run(Errand::RootOf(process, namespaces), 0)
}

/// The family, type and protocol of a socket.
pub type SocketKind = (AddressFamily, SocketType, Option<Protocol>);

/// Opens a socket in a network namespace, which it belongs to wherever it is used.
///
/// # Errors
/// setns(2)'s, and socket(2)'s.
pub fn socket_in(network: BorrowedFd<'_>, kind: SocketKind) -> Result<OwnedFd, Errno> {
    run(Errand::Socket((network, libc::CLONE_NEWNET as u32), kind), 0)
}

/// Opens a socket in the network namespace of a process. `namespaces` are the `CLONE_NEW…` bits of those that have to be joined for that: the
/// network namespace, and for a caller other than root the user namespace that owns it.
///
/// # Errors
/// setns(2)'s, and socket(2)'s.
pub fn socket_of(process: BorrowedFd<'_>, namespaces: u32, kind: SocketKind) -> Result<OwnedFd, Errno> {
    run(Errand::Socket((process, namespaces), kind), 0)
}

/// Opens a file for writing as a process in a network namespace sees it, such as a setting below `/proc/sys/net`, which belongs to
/// that namespace wherever it is written to.
///
/// # Errors
/// setns(2)'s, and open(2)'s.
pub fn open_in(network: BorrowedFd<'_>, path: &CStr) -> Result<OwnedFd, Errno> {
    run(Errand::Setting(network, path), 0)
}

/// Detaches the mount together with everything mounted on it; `false` if another mount, or none, is on top at that
/// place. The detaching does not propagate to other mounts.
///
/// # Errors
/// setns(2)'s, and umount(2)'s.
pub fn take_away(mount: &LastingMount<'_>) -> Result<bool, Errno> {
    send(Errand::TakeAway(*mount), 0).map(|was_there| was_there == 1)
}

/// Overlay of a layer on another one that provides only contents of files.
#[derive(Clone, Copy, Debug)]
pub struct ContentOverlay<'a> {
    /// Directory that contains both layers; an absolute path.
    pub dir: &'a CStr,
    /// Name of the layer in that directory.
    pub layer: &'a CStr,
    /// Name of the layer with the contents.
    pub contents: &'a CStr,
    /// Rights of the caller.
    pub rights: MountRights,
}

/// Mounts such an overlay, read-only and detached, to find out what this kernel supports.
///
/// # Errors
/// clone(2)'s; chdir(2)'s, fsopen(2)'s, fsconfig(2)'s and fsmount(2)'s: `EINVAL` if the kernel lacks support.
pub fn overlay(overlay: &ContentOverlay<'_>) -> Result<OwnedFd, Errno> {
    let flags = match overlay.rights {
        MountRights::Root => 0,
        MountRights::NamespaceRoot => libc::CLONE_NEWNS,
        MountRights::None => libc::CLONE_NEWUSER | libc::CLONE_NEWNS,
    };
    run(Errand::Overlay(*overlay), flags)
}

/// Places where a caller may mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MountRights {
    /// Everywhere: root of the machine.
    Root,
    /// In the user namespace that the caller is root of.
    NamespaceRoot,
    /// In a user namespace that has to be made for it.
    None,
}

/// Makes a detached, read-only mount of this process's executable alone, for a caller without the right to mount:
/// every user may mount in a user namespace, and a mount made there stays when the namespace has gone.
pub(crate) fn mount_of_own(path: &CStr) -> Result<OwnedFd, Errno> {
    run(Errand::Executable(path), libc::CLONE_NEWUSER | libc::CLONE_NEWNS)
}

enum Errand<'a> {
    Overlay(ContentOverlay<'a>),
    Executable(&'a CStr),
    User(IdMaps),
    Network(Option<BorrowedFd<'a>>),
    Tree(Tree<'a>),
    RootOf(BorrowedFd<'a>, u32),
    Socket((BorrowedFd<'a>, u32), SocketKind),
    Setting(BorrowedFd<'a>, &'a CStr),
    TakeAway(LastingMount<'a>),
}

/// Runs an errand that brings a descriptor back.
fn run(errand: Errand<'_>, flags: i32) -> Result<OwnedFd, Errno> {
    // SAFETY: the other process opened it in the table that both share, and gave up its ownership.
    send(errand, flags).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn send(errand: Errand<'_>, flags: i32) -> Result<i32, Errno> {
    let mut result = Err(Errno::CHILD);
    let mut stack = [0u128; 1024];
    aside(&mut stack, flags, || result = perform(&errand))?;
    result
}

fn perform(errand: &Errand<'_>) -> Result<i32, Errno> {
    let made = match errand {
        Errand::User(maps) => {
            map_one_id(*maps)?;
            c"/proc/self/ns/user"
        }
        Errand::Network(owner) => {
            if let Some(owner) = owner {
                rustix::thread::move_into_thread_name_spaces(owner.as_fd(), ThreadNameSpaceType::USER)?;
            }
            unshare(libc::CLONE_NEWNET as u32)?;
            loopback_up()?;
            // By thread: once in another user namespace, this process may not look into its own process directory.
            c"/proc/thread-self/ns/net"
        }
        Errand::Overlay(overlay) => return mount_overlay(overlay).map(IntoRawFd::into_raw_fd),
        Errand::Executable(path) => return executable::mount_by_name(path).map(IntoRawFd::into_raw_fd),
        Errand::Tree(tree) => return open(tree).map(IntoRawFd::into_raw_fd),
        Errand::RootOf(process, namespaces) => {
            set_namespaces(*process, *namespaces)?;
            return crate::visit::copy_at(c"/", false).map(IntoRawFd::into_raw_fd);
        }
        Errand::TakeAway(mount) => return lasting::take_away(mount).map(i32::from),
        Errand::Socket((place, namespaces), (family, kind, protocol)) => {
            set_namespaces(*place, *namespaces)?;
            let socket = rustix::net::socket_with(*family, *kind, SocketFlags::CLOEXEC, *protocol);
            return socket.map(IntoRawFd::into_raw_fd);
        }
        Errand::Setting(network, path) => {
            set_namespaces(*network, libc::CLONE_NEWNET as u32)?;
            let flags = OFlags::WRONLY | OFlags::CLOEXEC;
            let file = rustix::fs::open(*path, flags, Mode::empty());
            return file.map(IntoRawFd::into_raw_fd);
        }
    };
    rustix::fs::open(made, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map(IntoRawFd::into_raw_fd)
}

fn mount_overlay(overlay: &ContentOverlay<'_>) -> Result<OwnedFd, Errno> {
    // Names are used, because descriptors would lead to mounts of the previous namespace.
    rustix::process::chdir(overlay.dir)?;
    let context = fsopen(c"overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&context, c"lowerdir+", overlay.layer)?;
    fsconfig_set_string(&context, c"datadir+", overlay.contents)?;
    if overlay.rights != MountRights::Root {
        fsconfig_set_flag(&context, c"userxattr")?;
    }
    fsconfig_create(&context)?;
    let read_only = MountAttrFlags::MOUNT_ATTR_RDONLY;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, read_only)
}

fn open(tree: &Tree<'_>) -> Result<OwnedFd, Errno> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if tree.recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let there = || rustix::thread::move_into_thread_name_spaces(tree.process, ThreadNameSpaceType::MOUNT);
    let opened = if tree.unlocked == Unlocked::Always {
        let opened = open_source(tree.path, tree.subpath, flags)?;
        // Otherwise the tree, mounted in a namespace of lesser rights, would propagate new mounts from there.
        let slave = Attributes {
            propagation: Some((Propagation::Slave, true)),
            ..Attributes::NONE
        };
        propagate(opened.as_fd(), &slave)?;
        there()?;
        let seen = open_source(tree.path, tree.subpath, OpenTreeFlags::OPEN_TREE_CLOEXEC)?;
        let seen = rustix::fs::statx(&seen, c"", AtFlags::EMPTY_PATH, StatxFlags::INO)?;
        let own = rustix::fs::statx(&opened, c"", AtFlags::EMPTY_PATH, StatxFlags::INO)?;
        let file = |stat: &Statx| (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
        if file(&seen) != file(&own) {
            return Err(Errno::STALE);
        }
        opened
    } else {
        there()?;
        open_source(tree.path, tree.subpath, flags)?
    };
    if let Some((idmap, recursive)) = tree.idmap {
        let change = Change {
            set: MountAttrFlags::MOUNT_ATTR_IDMAP,
            idmap: Some(idmap),
            ..Change::NONE
        };
        set_attributes(opened.as_fd(), &change, recursive)?;
    }
    Ok(opened)
}
