//! Access to an image without leaving it, and to the file systems below.

use crate::PrepareError;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, Stat};
use std::path::Path;
use tote_sys::Errno;

/// File systems on which files can share their content: `statfs(2)` magic and name.
const SHARING: [(u64, &str); 3] = [
    (0x9123_683e, "btrfs"),
    (0x5846_5342, "xfs"),
    (0xca45_1a4e, "bcachefs"),
];

/// Opens the tree of an image (O_PATH).
pub(crate) fn tree(path: &Path) -> Result<OwnedFd, PrepareError> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(|source| PrepareError::Look {
        path: path.to_owned(),
        source,
    })
}

/// Resolves a path of the image inside it; returns its metadata, `None` if it does not exist.
pub(crate) fn stat(tree: impl AsFd, path: &Path) -> Result<Option<Stat>, PrepareError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let found = tote_sys::openat2(tree, path, flags, Mode::empty(), resolve);
    match found.and_then(|fd| rustix::fs::fstat(&fd)) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::NOENT) => Ok(None),
        Err(source) => Err(PrepareError::Look {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Returns the name of the path's file system, if files can share content on it.
pub(crate) fn sharing_file_system(path: impl AsFd) -> Option<&'static str> {
    let magic = rustix::fs::fstatfs(path).ok()?.f_type;
    let known = |(known, _): &&(u64, &str)| i128::from(magic) == i128::from(*known);
    SHARING.iter().find(known).map(|(_, name)| *name)
}

/// True if files below one path can share their content with files below the other.
pub(crate) fn can_share(tree: impl AsFd, other: &Path) -> bool {
    let Some(name) = sharing_file_system(tree.as_fd()) else {
        return false;
    };
    let (Ok(one), Ok(two)) = (rustix::fs::fstat(&tree), rustix::fs::stat(other)) else {
        return false;
    };
    // absence: files are copied instead of shared
    let same_kind = || rustix::fs::open(other, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok();
    // Subvolumes of a btrfs have devices of their own. Two different btrfs look like one here; files are then
    // copied.
    one.st_dev == two.st_dev
        || name == "btrfs" && same_kind().is_some_and(|other| sharing_file_system(other) == Some(name))
}
