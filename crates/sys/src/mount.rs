//! Mounts by the descriptor-based API: fsopen(2), open_tree(2), mount_setattr(2), move_mount(2).
//!
//! A mount is made detached, gets its attributes there, and only then is moved to a place that was resolved inside the
//! root: no path is looked up twice, so no link swapped in between can redirect it.

use crate::attach::attach;
use crate::attributes::{Change, beyond, change, propagate, set_attributes};
use crate::fresh::{self, Fresh};
use crate::lookup::openat2;
use crate::registers::Registers;
use crate::root::{self, Last};
use crate::source::{on_host, open_source};
use crate::text::Text;
use crate::{Attributes, CloneSource, CopyMode, Errno, Source, Value, copy, instance};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use std::ffi::{CStr, CString};

/// Something to mount, and its place.
#[derive(Debug)]
pub struct MountOp {
    /// Source of the mount.
    pub source: Source,
    /// Place of the mount.
    pub target: Target,
    /// Attributes of the mount.
    pub attributes: Attributes,
    /// Source in case the kernel does not let this namespace have a new instance.
    pub otherwise: Option<CloneSource>,
    /// Special treatment.
    pub quirk: Quirk,
}

/// Special treatment of some mounts, beyond making and placing them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// None.
    None,
    /// The existing contents of the place are copied into the mount.
    CopyUp,
    /// The source must be a whole procfs, with nothing mounted over its `self`: the container would take any other file system below
    /// `/proc` for the kernel's, and what its links lead to for its own descriptors.
    OnlyProc,
    /// Nothing is mounted unless the source is a file system of this kind of the kernel's (`f_type` of statfs(2)).
    OnlyOf {
        /// The kind.
        magic: u32,
    },
    /// Nothing is mounted unless the source is this device.
    OnlyDevice {
        /// True for a block device.
        block: bool,
        /// Number, as in `st_rdev`.
        number: u64,
    },
}

impl Quirk {
    /// True if a source that is missing, or of another kind, is left out.
    fn may_be_left_out(self) -> bool {
        matches!(self, Self::OnlyOf { .. } | Self::OnlyDevice { .. })
    }

    /// True unless the mount has to be left out.
    fn fits(self, mount: BorrowedFd<'_>) -> Result<bool, Errno> {
        Ok(match self {
            Self::OnlyOf { magic } => kind_of(mount)? == magic.into(),
            Self::OnlyDevice { block, number } => {
                let found = rustix::fs::fstat(mount)?;
                let kind = if block {
                    FileType::BlockDevice
                } else {
                    FileType::CharacterDevice
                };
                FileType::from_raw_mode(found.st_mode) == kind && found.st_rdev == number
            }
            Self::None | Self::CopyUp | Self::OnlyProc => true,
        })
    }
}

/// Place of a mount.
#[derive(Debug)]
pub enum Target {
    /// A directory on the host; the mount made last this way is the container's root.
    Root(CString),
    /// A directory on the host that a later operation builds upon.
    Host(CString),
    /// A path inside the root.
    Inside {
        /// Path inside.
        path: CString,
        /// Kind of mount point that is made if the path is missing.
        make: Make,
        /// True if a symbolic link on the way is an error; otherwise links are followed.
        strict: bool,
        /// True if the place may be a file of a procfs, which is refused otherwise: the kernel's own switches must
        /// not be replaced (CVE-2019-16884, CVE-2025-52881).
        over_proc: bool,
    },
}

/// Kind of mount point to make where one is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// None: its absence is an error.
    Nothing,
    /// A directory.
    Dir,
    /// An empty file.
    File,
    /// A directory or an empty file, like the source.
    LikeSource,
}

/// Makes a mount and puts it in its place.
pub(crate) fn mount(op: &MountOp, registers: &mut Registers<'_>) -> Result<(), Errno> {
    let (path, make, strict, over_proc) = match &op.target {
        Target::Root(path) => {
            let mount = make_mount(op, None, registers)?;
            // The mount must neither propagate to the mounts that it was copied from nor pass on mounts made on it;
            // attaching it to a shared mount makes it shared, so its propagation is set twice.
            propagate(mount.as_fd(), &op.attributes)?;
            attach(mount.as_fd(), on_host(path)?.as_fd())?;
            propagate(mount.as_fd(), &op.attributes)?;
            registers.beneath = registers.root.replace(mount);
            return Ok(());
        }
        Target::Host(path) => {
            let mount = make_mount(op, None, registers)?;
            return attach(mount.as_fd(), on_host(path)?.as_fd());
        }
        Target::Inside {
            path,
            make,
            strict,
            over_proc,
        } => (path, *make, *strict, *over_proc),
    };
    if let Source::Beneath {
        path: own,
        copy: Some((tree, how)),
    } = &op.source
    {
        let (place, _) = place(path, strict, None, registers)?;
        // The original is opened on the host: an overlay on top of the tree could not share a file's content with its
        // copy.
        let original = root::open(on_host(tree)?.as_fd(), path, strict);
        let original = original.as_ref().unwrap_or(&place);
        let mount = beneath(own, *how, original.as_fd(), registers)?;
        change(mount.as_fd(), &op.attributes)?;
        return attach(mount.as_fd(), place.as_fd());
    }
    // The new mount may cover the fresh file system.
    if registers
        .fresh
        .as_ref()
        .is_some_and(|fresh| fresh.name(path).is_none())
    {
        registers.fresh = None;
    }
    let Source::New { fs, .. } = &op.source else {
        return existing_at(op, (path, make), (strict, over_proc), registers);
    };
    let last = (make != Make::Nothing).then_some(Last::Dir(0o755));
    let mount = new_at(op, path, last, (strict, over_proc), registers)?;
    propagate(mount.as_fd(), &op.attributes)?;
    match fs.to_bytes() {
        b"proc" if registers.proc.is_none() => registers.proc = Some(mount),
        b"devpts" if registers.devpts.is_none() => registers.devpts = Some(mount),
        b"tmpfs" if registers.fresh.is_none() && op.quirk == Quirk::None => {
            registers.fresh = Fresh::new(path, mount);
        }
        _ => {}
    }
    Ok(())
}

/// Mounts what is there already, at a path inside the container.
fn existing_at(
    op: &MountOp,
    (path, make): (&CStr, Make),
    (strict, over_proc): (bool, bool),
    registers: &mut Registers<'_>,
) -> Result<(), Errno> {
    let mount = match make_mount(op, None, registers) {
        // Those to whom the source belongs may have changed it meanwhile.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if op.quirk.may_be_left_out() => return Ok(()),
        mount => mount?,
    };
    if !op.quirk.fits(mount.as_fd())? {
        return Ok(());
    }
    let last = last(make, mount.as_fd())?;
    if let (Some(last), true) = (last, op.quirk == Quirk::None || op.quirk.may_be_left_out())
        && fresh::make(registers.fresh.as_ref(), path, last)?
    {
        fresh::attach(registers.fresh.as_ref(), path, mount.as_fd())?;
        return propagate(mount.as_fd(), &op.attributes);
    }
    let (place, _) = place(path, strict, last, registers)?;
    if op.quirk == Quirk::OnlyProc && !is_whole_proc(mount.as_fd())? {
        registers
            .text
            .set(b"only a procfs may be mounted there, with nothing over its self");
        return Err(Errno::XDEV);
    }
    check_place(place.as_fd(), over_proc, registers)?;
    attach(mount.as_fd(), place.as_fd())?;
    propagate(mount.as_fd(), &op.attributes)
}

/// Makes a new instance of a file system and mounts it at a path inside the container.
fn new_at(
    op: &MountOp,
    path: &CStr,
    last: Option<Last>,
    (strict, over_proc): (bool, bool),
    registers: &mut Registers<'_>,
) -> Result<OwnedFd, Errno> {
    if let (Some(last), Quirk::None) = (last, op.quirk)
        && fresh::make(registers.fresh.as_ref(), path, last)?
    {
        let mount = make_mount(op, None, registers)?;
        fresh::attach(registers.fresh.as_ref(), path, mount.as_fd())?;
        return Ok(mount);
    }
    let (place, was_there) = place(path, strict, last, registers)?;
    check_place(place.as_fd(), over_proc, registers)?;
    let place_mode = if was_there { Some(place.as_fd()) } else { None };
    let mount = make_mount(op, place_mode, registers)?;
    // A directory that was made for this mount has nothing to copy, and a mode that no user asked for.
    if was_there && op.quirk == Quirk::CopyUp {
        copy::copy_up(place.as_fd(), mount.as_fd())?;
    }
    attach(mount.as_fd(), place.as_fd())?;
    Ok(mount)
}

/// Returns the place to mount at, and whether it existed before.
fn place(
    path: &CStr,
    strict: bool,
    last: Option<Last>,
    registers: &mut Registers<'_>,
) -> Result<(OwnedFd, bool), Errno> {
    let root = registers.root()?;
    match (root::open(root, path, strict), last) {
        (Err(Errno::NOENT), Some(last)) => root::make(root, path, strict, last).map(|place| (place, false)),
        (Err(errno @ Errno::LOOP), _) if strict => {
            registers.text.set(b"must be mounted on ordinary directory"); // runc's words
            Err(errno)
        }
        (place, _) => Ok((place?, true)),
    }
}

fn kind_of(fd: BorrowedFd<'_>) -> Result<rustix::fs::FsWord, Errno> {
    Ok(rustix::fs::fstatfs(fd)?.f_type)
}

fn is_proc(fd: BorrowedFd<'_>) -> Result<bool, Errno> {
    Ok(kind_of(fd)? == rustix::fs::PROC_SUPER_MAGIC)
}

/// True for a procfs whose links to a process's own directory are the kernel's. With the mount interface of descriptors, a file can be
/// mounted on a link, and another link is such a file.
fn is_whole_proc(mount: BorrowedFd<'_>) -> Result<bool, Errno> {
    if !is_proc(mount)? {
        return Ok(false);
    }
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_XDEV;
    for name in [c"self", c"thread-self"] {
        match openat2(mount, name, flags, Mode::empty(), resolve) {
            // A directory of a procfs has no such name.
            Err(Errno::XDEV | Errno::NOENT | Errno::NOTDIR) => return Ok(false),
            found => drop(found?),
        }
    }
    Ok(true)
}

fn check_place(place: BorrowedFd<'_>, over_proc: bool, registers: &mut Registers<'_>) -> Result<(), Errno> {
    if !over_proc && is_proc(place)? {
        registers
            .text
            .set(b"cannot be mounted because it is inside /proc");
        return Err(Errno::XDEV);
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

/// Makes a detached mount.
fn make_mount(
    op: &MountOp,
    place: Option<BorrowedFd<'_>>,
    registers: &mut Registers<'_>,
) -> Result<OwnedFd, Errno> {
    match &op.source {
        Source::New { fs, parameters } => {
            let wants_mode = parameters
                .iter()
                .any(|parameter| parameter.value == Value::ModeOfPlace);
            let place_mode = match place {
                Some(place) if wants_mode => Some(rustix::fs::fstat(place)?.st_mode & 0o7777),
                _ => None,
            };
            let made = instance::new(fs, parameters, op.attributes.set, place_mode, &mut registers.text);
            match (made, &op.otherwise) {
                (Err(Errno::PERM | Errno::BUSY), Some(source)) => {
                    registers.text = Text::EMPTY;
                    clone(source, &op.attributes, registers.idmap.as_ref())
                }
                (made, _) => {
                    let mount = made?;
                    beyond(mount.as_fd(), &op.attributes)?;
                    Ok(mount)
                }
            }
        }
        Source::Clone(source) => clone(source, &op.attributes, registers.idmap.as_ref()),
        Source::Of {
            process,
            path,
            recursive,
        } => {
            let mount = crate::visit::mount_of(process.as_fd(), path, *recursive)?;
            change(mount.as_fd(), &op.attributes)?;
            Ok(mount)
        }
        Source::Opened { tree, .. } => {
            let tree = rustix::io::fcntl_dupfd_cloexec(tree, 3)?;
            change(tree.as_fd(), &op.attributes)?;
            Ok(tree)
        }
        Source::Handed(_) => {
            let tree = registers.tree.take().ok_or(Errno::BADF)?;
            change(tree.as_fd(), &op.attributes)?;
            Ok(tree)
        }
        Source::Beneath { path, copy: None } => {
            let top = registers.beneath.as_ref().ok_or(Errno::BADF)?.as_fd();
            let mount = clone_of(root::open(top, path, true)?.as_fd())?;
            change(mount.as_fd(), &op.attributes)?;
            Ok(mount)
        }
        // A place is needed for the copy, and only [`mount`] knows it.
        Source::Beneath { copy: Some(_), .. } => Err(Errno::INVAL),
    }
}

fn clone(source: &CloneSource, attributes: &Attributes, idmap: Option<&OwnedFd>) -> Result<OwnedFd, Errno> {
    let mut flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    if source.recursive {
        flags |= OpenTreeFlags::AT_RECURSIVE;
    }
    let tree = open_source(&source.path, source.subpath.as_deref(), flags)?;
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

/// Name of a copy until it is complete, in the mount that the root covers.
const FRESH: &CStr = c".fresh";

/// Returns a part of the mount that the root covers; a missing part is copied from the original first.
fn beneath(
    path: &CStr,
    how: CopyMode,
    original: BorrowedFd<'_>,
    registers: &Registers<'_>,
) -> Result<OwnedFd, Errno> {
    let top = registers.beneath.as_ref().ok_or(Errno::BADF)?.as_fd();
    let found = match root::open(top, path, true) {
        Err(Errno::NOENT) => {
            copy::copy_to(original, top, FRESH, how)?;
            root::rename(top, FRESH, path)?;
            root::open(top, path, true)?
        }
        found => found?,
    };
    clone_of(found.as_fd())
}

/// Makes a detached mount of an open directory or file.
fn clone_of(place: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(place, c"", flags)
}

/// Copies the root and what is mounted in it.
pub(crate) fn set_aside(registers: &mut Registers<'_>) -> Result<(), Errno> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH
        | OpenTreeFlags::AT_RECURSIVE;
    registers.tree = Some(open_tree(registers.root()?, c"", flags)?);
    registers.fresh = None;
    Ok(())
}

/// Changes a mount of the container in place.
pub(crate) fn remount(path: &CStr, attributes: &Attributes, registers: &Registers<'_>) -> Result<(), Errno> {
    let mount = root::open(registers.root()?, path, false)?;
    change(mount.as_fd(), attributes)?;
    propagate(mount.as_fd(), attributes)
}
