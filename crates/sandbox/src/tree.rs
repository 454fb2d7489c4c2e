//! Trees that the parent of a container opens for it.

use std::ffi::CString;
use tote_sys::Unlocked;

/// A tree that the parent opens, in the mount namespace of the new process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Path on the host.
    pub path: CString,
    /// Path inside that directory which is the tree in its place.
    pub subpath: Option<CString>,
    /// True if mounts below it come along.
    pub recursive: bool,
    /// Maps by which owners are shown, and whether they apply to the mounts below as well.
    pub idmap: Option<(Idmap, bool)>,
    /// Whether the tree may come from the caller's own mounts.
    pub unlocked: Unlocked,
}

/// Maps of an id-mapped mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Idmap {
    /// Maps as in `uid_map` and `gid_map` of a user namespace.
    Maps {
        /// User ids.
        uid: String,
        /// Group ids.
        gid: String,
    },
    /// Maps of the user namespace at this path.
    Namespace(String),
}
