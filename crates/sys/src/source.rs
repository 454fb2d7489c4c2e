//! What is mounted, of the vocabulary of a birth.

use crate::CopyMode;
use rustix::fd::OwnedFd;
use std::ffi::CString;

/// What is mounted.
#[derive(Debug)]
pub enum Source {
    /// A new instance of a file system.
    New {
        /// As in `/proc/filesystems`.
        fs: CString,
        /// Its parameters; the device is the parameter `source`.
        parameters: Vec<Parameter>,
    },
    /// A part of the host's tree.
    Clone(CloneSource),
    /// A copy of what another process has mounted there, in its own mount namespace. It is joined by this process, whose
    /// user namespace must own it.
    Of {
        /// Its pidfd.
        process: OwnedFd,
        /// In its root; links are not followed.
        path: CString,
    },
    /// The tree that came through the last gate; the text is where it is from.
    Handed(CString),
    /// A directory or file in the mount that the root covers: what was [`crate::Target::Root`] before it.
    Beneath {
        /// In that mount.
        path: CString,
        /// Where it is missing, it is a copy of what this tree of the host has at the place; or else of the place.
        copy: Option<(CString, CopyMode)>,
    },
}

/// A part of the host's tree.
#[derive(Debug)]
pub struct CloneSource {
    /// On the host.
    pub path: CString,
    /// Whether mounts below it come along.
    pub recursive: bool,
    /// Whether owners are shown by the maps of the user namespace that came through the gate.
    pub idmap: bool,
}

/// One parameter of a file system.
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
    /// A path on the host, in the file system's own escaping. One longer than fsconfig(2) takes goes by descriptor.
    Path(CString),
    /// The permission bits of the directory that is mounted on, in octal; the parameter is left out where that had to
    /// be made.
    ModeOfPlace,
}
