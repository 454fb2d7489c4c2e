//! Requirements of a container on its storage, which every driver reads.

use crate::{OwnFiles, Survey};
use std::path::{Path, PathBuf};
use tote_rootfs::{CopiedLinks, LinkedName, OwnInodes};

/// Requirements of a container on its storage.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Layers of the image, the topmost first; all drivers except overlay take a single layer.
    pub layers: &'a [PathBuf],
    /// The tree that overlay, loop, loop-xfs and split show in their place.
    pub own_inodes: Option<&'a OwnInodes>,
    /// A directory with the names of the image's files, and with their contents or without, if `layers` are not such.
    pub names: Option<&'a Path>,
    /// Sorted names of files that have several names in the image; `None` if the tree has the image's hard links. A
    /// store that merges equal files to save space makes more hard links than the image has. Needed if
    /// [`crate::copies_tree`] says so.
    pub image_links: Option<&'a [LinkedName]>,
    /// True if the caller is root of the machine.
    pub privileged: bool,
    /// Digest of the tree in hexadecimal, if the tree never changes; `None` for other trees.
    pub key: Option<&'a str>,
    /// Directory in which drivers keep what they make once for each image.
    pub templates: &'a Path,
    /// Directory of the container, named from its id. It is created if files are put there.
    pub container: &'a Path,
    /// True if the container's files are not kept.
    pub rm: bool,
    /// True if the container is only examined: nothing is created.
    pub dry: bool,
    /// True if the container is about to run; false if only its files are read.
    pub runs: bool,
    /// Limit in bytes on the container's writes.
    pub disk_size: Option<u64>,
    /// Limit in bytes on writes in memory, used without `disk_size`; 0 means no limit.
    pub tmpfs_size: Option<u64>,
    /// Paths that the container can write to with split, besides [`crate::DEFAULT_WRITABLE`]; absolute.
    pub writable: &'a [PathBuf],
    /// Mount points that must exist.
    pub mount_points: &'a [MountPoint],
    /// Files that are written for the container; given if the image's owners may have no ids in its user namespace.
    /// Used by overlay.
    pub own_files: Option<OwnFiles<'a>>,
    /// True if the caller is not the root of the container, to whom the container's own root directory is to belong.
    pub owns_root: bool,
    /// Result of split's survey of the image, if another process has made it.
    pub survey: Option<&'a Survey>,
}

/// A path of the root that must exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountPoint {
    /// Path, absolute.
    pub path: PathBuf,
    /// True for a regular file, false for a directory.
    pub file: bool,
    /// True if a mount there covers everything below.
    pub covers: bool,
}

impl Request<'_> {
    /// Returns the hard links to keep in a copy of the tree.
    pub(crate) fn copied_links(&self) -> CopiedLinks {
        self.image_links
            .map_or(CopiedLinks::All, |links| CopiedLinks::Only(links.to_vec()))
    }

    /// Returns the limit in bytes on the container's writes in memory.
    pub(crate) fn memory_size(&self) -> Option<u64> {
        self.disk_size.or(self.tmpfs_size)
    }

    /// True if writes need no place on disk.
    pub(crate) fn in_memory(&self) -> bool {
        self.rm || self.dry
    }
}
