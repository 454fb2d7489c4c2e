//! Entries that a container needs in its root and an image must not get: mount points, and files of its own.

use super::inside;
use rustix::fs::{AtFlags, FileType, OFlags};
use std::collections::HashSet;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tote_archive::EntryPath;
use tote_sys::{Errno, best_effort, reachable};

/// Files that are written into every container.
const OWN: [&str; 3] = ["etc/hostname", "etc/hosts", "etc/resolv.conf"];

/// Paths that exist only while a container runs.
pub(crate) struct Stubs {
    /// Paths that did not exist before, the deepest last.
    missing: Vec<EntryPath>,
    /// All paths, with the directories that contain them.
    pub(crate) touched: HashSet<EntryPath>,
}

impl Stubs {
    /// Records the missing paths before a container with those mounts runs.
    pub(crate) fn of<'a>(view: &OwnedFd, destinations: impl Iterator<Item = &'a str>) -> Self {
        let mut stubs = Self {
            missing: Vec::new(),
            touched: HashSet::from([EntryPath::root()]),
        };
        for path in destinations.chain(OWN) {
            // The mount itself refuses a path that leads out of the root.
            let Ok(mut path) = EntryPath::parse(path.as_bytes()) else {
                continue;
            };
            while stubs.touched.insert(path.clone()) {
                // An entry that cannot be examined may be the image's, and stays.
                let opened = inside::open(view, path.as_bytes(), OFlags::PATH | OFlags::NOFOLLOW);
                if matches!(inside::found(opened), Ok(None)) {
                    stubs.missing.push(path.clone());
                }
                match path.parent() {
                    Some(parent) => path = parent,
                    None => break,
                }
            }
        }
        stubs.missing.sort_by_key(|path| path.components().count());
        stubs
    }

    /// Removes the stubs from the container's writes.
    ///
    /// # Errors
    /// The kernel's, for a stub that cannot be looked at: it would be in the image.
    pub(crate) fn clear(&self, upper: BorrowedFd<'_>) -> Result<(), Errno> {
        for path in OWN {
            remove(upper, path.as_bytes(), true)?;
        }
        for path in self.missing.iter().rev() {
            remove(upper, path.as_bytes(), false)?;
        }
        Ok(())
    }
}

/// Removes a file, unless `whatever` only an empty one, or an empty directory. Any other entry was
/// made by the command.
fn remove(upper: BorrowedFd<'_>, path: &[u8], whatever: bool) -> Result<(), Errno> {
    let (parent, name) = inside::split(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let Some(parent) = reachable(inside::open_straight(upper, parent, flags))? else {
        return Ok(());
    };
    let stat = rustix::fs::statat(parent.as_fd(), name, AtFlags::SYMLINK_NOFOLLOW);
    let Some(stat) = reachable(stat)? else {
        return Ok(());
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => best_effort(rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR)),
        FileType::RegularFile if stat.st_size > 0 && !whatever => {}
        _ => best_effort(rustix::fs::unlinkat(&parent, name, AtFlags::empty())),
    }
    Ok(())
}
