//! Mounts by the descriptor-based API: fsopen(2), open_tree(2), mount_setattr(2), move_mount(2).
//!
//! A mount is made detached, gets its attributes there, and only then is moved to a place that was resolved inside the
//! root: no path is looked up twice, so no link swapped in between can redirect it.

use crate::birth::errno;
use crate::child::{Registers, Text};
use crate::root::{self, Last};
use crate::{Attributes, CloneSource, Errno, Make, MountOp, Parameter, Propagation, Source, Target, Value};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, fsconfig_create,
    fsconfig_set_fd, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use std::ffi::CStr;

/// Makes a mount and puts it in its place.
pub(crate) fn mount(op: &MountOp, registers: &mut Registers<'_>) -> Result<(), Errno> {
    let mount = match &op.source {
        Source::New { fs, parameters } => new(fs, parameters, op.attributes.set, &mut registers.text)?,
        Source::Clone(source) => clone(source, &op.attributes, registers.idmap.as_ref())?,
    };
    let (path, make, strict, over_proc) = match &op.target {
        Target::Root(path) => {
            attach(
                mount.as_fd(),
                rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?.as_fd(),
            )?;
            registers.root = Some(mount);
            return Ok(());
        }
        Target::Host(path) => {
            let place = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
            return attach(mount.as_fd(), place.as_fd());
        }
        Target::Inside {
            path,
            make,
            strict,
            over_proc,
        } => (path, *make, *strict, *over_proc),
    };
    let root = registers.root()?;
    let place = match last(make, mount.as_fd())? {
        Some(last) => root::open_or_make(root, path, strict, last)?,
        None => root::open(root, path, strict)?,
    };
    if !over_proc && rustix::fs::fstatfs(&place)?.f_type == rustix::fs::PROC_SUPER_MAGIC {
        return Err(Errno::XDEV);
    }
    attach(mount.as_fd(), place.as_fd())?;
    if let Source::New { fs, .. } = &op.source {
        match fs.to_bytes() {
            b"proc" if registers.proc.is_none() => registers.proc = Some(mount),
            b"devpts" if registers.devpts.is_none() => registers.devpts = Some(mount),
            _ => {}
        }
    }
    Ok(())
}

fn last(make: Make, mount: BorrowedFd<'_>) -> Result<Option<Last>, Errno> {
    Ok(match make {
        Make::Nothing => None,
        Make::Dir => Some(Last::Dir(0o755)),
        Make::File => Some(Last::File(0o644)),
        Make::LikeSource => match FileType::from_raw_mode(rustix::fs::fstat(mount)?.st_mode) {
            FileType::Directory => Some(Last::Dir(0o755)),
            _ => Some(Last::File(0o644)),
        },
    })
}

fn new(fs: &CStr, parameters: &[Parameter], set: MountAttrFlags, text: &mut Text) -> Result<OwnedFd, Errno> {
    let context = fsopen(fs, FsOpenFlags::FSOPEN_CLOEXEC)?;
    let configure = || {
        for Parameter { key, value } in parameters {
            match value {
                Value::Flag => fsconfig_set_flag(&context, key.as_c_str())?,
                Value::Path(path) if path.as_bytes().len() > LONGEST => set_long_path(&context, key, path)?,
                Value::Text(value) | Value::Path(value) => {
                    fsconfig_set_string(&context, key.as_c_str(), value.as_c_str())?;
                }
            }
        }
        fsconfig_create(&context)
    };
    configure().inspect_err(|_| explain(&context, text))?;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, set)
}

/// The longest value that fsconfig(2) takes, in bytes.
const LONGEST: usize = 255;

/// Hands over a long path as a descriptor (Linux 6.13). The descriptor takes the path as it is, so the backslashes that
/// overlayfs wants before `:`, `,` and themselves are taken out again.
fn set_long_path(context: &OwnedFd, key: &CStr, path: &CStr) -> Result<(), Errno> {
    let mut plain = [0u8; 4096];
    let mut length = 0;
    let mut escaped = false;
    for &byte in path.to_bytes() {
        escaped = byte == b'\\' && !escaped;
        if !escaped {
            *plain.get_mut(length).ok_or(Errno::NAMETOOLONG)? = byte;
            length += 1;
        }
    }
    let plain = CStr::from_bytes_with_nul(plain.get(..=length).ok_or(Errno::NAMETOOLONG)?)
        .map_err(|_| Errno::INVAL)?;
    let dir = rustix::fs::open(plain, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    fsconfig_set_fd(context, key, dir)
}

/// A file system context says in words what it did not like, as `e overlay: …`.
fn explain(context: &OwnedFd, text: &mut Text) {
    let mut bytes = [0u8; 256];
    if let Ok(length) = rustix::io::read(context, &mut bytes)
        && length > 2
    {
        text.set(&bytes[2..length]);
    }
}

fn clone(source: &CloneSource, attributes: &Attributes, idmap: Option<&OwnedFd>) -> Result<OwnedFd, Errno> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if source.recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let tree = open_tree(CWD, source.path.as_c_str(), flags)?;
    if source.idmap {
        let idmap = idmap.ok_or(Errno::BADF)?;
        let change = Change {
            set: MountAttrFlags::MOUNT_ATTR_IDMAP,
            idmap: Some(idmap.as_fd()),
            ..Change::NONE
        };
        set_attributes(tree.as_fd(), &change, source.recursive)?;
    }
    change(tree.as_fd(), attributes)?;
    Ok(tree)
}

pub(crate) fn change(mount: BorrowedFd<'_>, attributes: &Attributes) -> Result<(), Errno> {
    let below = Change {
        set: attributes.set_below,
        clear: attributes.clear_below,
        ..Change::NONE
    };
    set_attributes(mount, &below, true)?;
    let (propagation, recursive) = attributes.propagation.unzip();
    let here = Change {
        set: attributes.set,
        clear: attributes.clear,
        ..Change::NONE
    };
    if recursive == Some(true) {
        set_attributes(mount, &here, false)?;
        return set_attributes(
            mount,
            &Change {
                propagation,
                ..Change::NONE
            },
            true,
        );
    }
    set_attributes(mount, &Change { propagation, ..here }, false)
}

/// Changes a mount of the container in place.
pub(crate) fn remount(path: &CStr, attributes: &Attributes, registers: &Registers<'_>) -> Result<(), Errno> {
    let mount = root::open(registers.root()?, path, false)?;
    change(mount.as_fd(), attributes)
}

/// Sets the propagation of every mount of this namespace.
pub(crate) fn set_propagation(propagation: Propagation) -> Result<(), Errno> {
    let root = rustix::fs::open(c"/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    set_attributes(
        root.as_fd(),
        &Change {
            propagation: Some(propagation),
            ..Change::NONE
        },
        true,
    )
}

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

/// Makes the container's root the root of this mount namespace and of this process.
pub(crate) fn pivot(registers: &Registers<'_>) -> Result<(), Errno> {
    rustix::process::fchdir(registers.root()?)?;
    // The old root ends up on top of the new one, where the next call lets go of it: no directory is needed for it.
    rustix::process::pivot_root(c".", c".")?;
    rustix::mount::unmount(c".", UnmountFlags::DETACH)?;
    rustix::process::chdir(c"/")
}

/// Puts a detached mount at a place; both are descriptors.
pub(crate) fn attach(mount: BorrowedFd<'_>, place: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(mount, c"", place, c"", flags)
}

struct Change<'a> {
    set: MountAttrFlags,
    clear: MountAttrFlags,
    propagation: Option<Propagation>,
    idmap: Option<BorrowedFd<'a>>,
}

impl Change<'_> {
    const NONE: Self = Self {
        set: MountAttrFlags::empty(),
        clear: MountAttrFlags::empty(),
        propagation: None,
        idmap: None,
    };
}

/// mount_setattr(2), which rustix lacks.
fn set_attributes(mount: BorrowedFd<'_>, change: &Change<'_>, recursive: bool) -> Result<(), Errno> {
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
