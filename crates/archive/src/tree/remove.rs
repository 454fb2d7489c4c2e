//! Removal of entries that are in the way.

use super::dirs::{names, open_child};
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Removes an entry of a directory with everything below it, without following links. A missing entry is not an
/// error.
///
/// Each level needs a descriptor, so a tree deeper than the limit on open files is an error.
pub(crate) fn remove_tree(dir: impl AsFd, name: &[u8]) -> Result<(), Errno> {
    match rustix::fs::unlinkat(&dir, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        // POSIX's error for a directory, and Linux's.
        Err(Errno::PERM | Errno::ISDIR) => {}
        Err(errno) => return Err(errno),
    }
    match rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST) => {}
        // The entry is not a directory, so the first error was a real one.
        Err(Errno::NOTDIR) => return Err(Errno::PERM),
        Err(errno) => return Err(errno),
    }
    let child = open_child(&dir, name)?;
    for name in names(&child)? {
        remove_tree(&child, &name)?;
    }
    rustix::fs::unlinkat(&dir, name, AtFlags::REMOVEDIR)
}
