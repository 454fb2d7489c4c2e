//! Metadata of directories that are set at the end: times, which every new entry changes, and modes that would be
//! in the way.

use super::dirs::{Dirs, open_child};
use super::node::times;
use crate::entry::Timestamp;
use crate::path::EntryPath;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::collections::HashMap;
use std::os::fd::BorrowedFd;

/// Directories whose metadata is still to be set.
#[derive(Debug, Default)]
pub(crate) struct Fixups(HashMap<EntryPath, (Timestamp, Option<Mode>)>);

impl Fixups {
    /// Records the final metadata of a directory.
    pub(crate) fn note(&mut self, path: &EntryPath, mtime: Timestamp, mode: Option<Mode>) {
        self.0.insert(path.clone(), (mtime, mode));
    }

    /// Forgets a removed entry and everything below it.
    pub(crate) fn forget(&mut self, removed: &EntryPath) {
        self.0.retain(|path, _| !path.starts_with(removed));
    }

    /// Sets all recorded metadata, the innermost first: a directory without search permission hides those below.
    pub(crate) fn apply(self, root: BorrowedFd<'_>, dirs: &mut Dirs<'_>) -> Result<(), (EntryPath, Errno)> {
        let mut all: Vec<_> = self.0.into_iter().collect();
        all.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        for (path, (mtime, mode)) in all {
            match set(root, dirs, &path, mtime, mode) {
                // The directory was replaced under another name that a link gave it; its replacement has its own
                // record.
                Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(errno) => return Err((path, errno)),
            }
        }
        Ok(())
    }
}

fn set(
    root: BorrowedFd<'_>,
    dirs: &mut Dirs<'_>,
    path: &EntryPath,
    mtime: Timestamp,
    mode: Option<Mode>,
) -> Result<(), Errno> {
    let Some((parent, name)) = path.split_last() else {
        if let Some(mode) = mode {
            rustix::fs::fchmod(root, mode)?;
        }
        return rustix::fs::futimens(root, &times(mtime));
    };
    let parent = dirs.get(parent)?;
    let Some(mode) = mode else {
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        return rustix::fs::utimensat(&*parent, name, &times(mtime), flags);
    };
    let fd = open_child(&*parent, name)?;
    rustix::fs::fchmod(&fd, mode)?;
    rustix::fs::futimens(&fd, &times(mtime))
}
