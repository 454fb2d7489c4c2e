//! Sources of mounts, as the operations of a birth name them.

use crate::{CopyMode, Errno, root};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::{OpenTreeFlags, open_tree};
use std::ffi::{CStr, CString};

/// Source of a mount.
#[derive(Debug)]
pub enum Source {
    /// A new instance of a file system.
    New {
        /// Name as in `/proc/filesystems`.
        fs: CString,
        /// Parameters of the file system; the device is the parameter `source`.
        parameters: Vec<Parameter>,
    },
    /// A part of the host's tree.
    Clone(CloneSource),
    /// Copy of a mount in another process's mount namespace. The child joins that namespace to get it, so its user
    /// namespace must own it.
    Of {
        /// Pidfd of that process.
        process: OwnedFd,
        /// Path in that process's root; links are not followed.
        path: CString,
        /// True if mounts below it come along.
        recursive: bool,
    },
    /// Tree that came through the last gate; the text says where it is from.
    Handed(CString),
    /// Detached tree that was opened before the birth.
    Opened {
        /// The tree.
        tree: OwnedFd,
        /// Origin of the tree, for people.
        origin: CString,
    },
    /// Directory or file in the mount that the root covers, which was [`crate::Target::Root`] before.
    Beneath {
        /// Path in that mount.
        path: CString,
        /// Source of a copy that is made if `path` is missing: the same place in this tree of the host, or else the
        /// place inside the container that is mounted on.
        copy: Option<(CString, CopyMode)>,
    },
}

/// A part of the host's tree.
#[derive(Debug)]
pub struct CloneSource {
    /// Path on the host.
    pub path: CString,
    /// Path inside that directory which is the source in its place. Links on the way cannot leave the directory.
    pub subpath: Option<CString>,
    /// True if mounts below it come along.
    pub recursive: bool,
    /// True if owners are shown by the maps of the user namespace that came through the gate.
    pub idmap: bool,
}

/// Parameter of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// The key.
    pub key: CString,
    /// The value.
    pub value: Value,
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The key alone.
    Flag,
    /// A text.
    Text(CString),
    /// A path on the host, in the file system's own escaping. A path too long for fsconfig(2) is passed by descriptor.
    Path(CString),
    /// Permission bits, in octal, of the directory that the mount covers; the parameter is left out if that directory
    /// had to be made.
    ModeOfPlace,
}

/// Opens a tree of the host, or a part of it that is found without leaving it.
pub(crate) fn open_source(
    path: &CStr,
    subpath: Option<&CStr>,
    flags: OpenTreeFlags,
) -> Result<OwnedFd, Errno> {
    let Some(subpath) = subpath else {
        return open_tree(CWD, path, flags);
    };
    let place = root::open(on_host(path)?.as_fd(), subpath, false)?;
    open_tree(place, c"", flags | OpenTreeFlags::AT_EMPTY_PATH)
}

/// Opens a path of the host (O_PATH).
pub(crate) fn on_host(path: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
}
