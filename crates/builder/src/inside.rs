//! Paths inside a root that is not trusted.

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};

/// Opens a path; links are followed as if the root were `/`.
pub(crate) fn open(root: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    resolve(
        root,
        path,
        flags,
        ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Opens a path; a link on the way is an error.
pub fn open_straight(root: impl AsFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    resolve(
        root,
        path,
        flags,
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    )
}

/// Returns an opened directory; `None` if the name is missing or belongs to something else.
///
/// # Errors
/// All others of open(2), because an entry that cannot be opened may exist.
pub(crate) fn found(opened: Result<OwnedFd, Errno>) -> Result<Option<OwnedFd>, Errno> {
    tote_sys::reachable(opened)
}

fn resolve(root: impl AsFd, path: &[u8], flags: OFlags, resolve: ResolveFlags) -> Result<OwnedFd, Errno> {
    let path = match path.iter().position(|byte| *byte != b'/') {
        Some(start) => &path[start..],
        None => b".",
    };
    tote_sys::openat2(root, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Splits a path into its parent and its last name.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b"", path),
    }
}
