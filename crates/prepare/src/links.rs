//! Which names of an image's tree are one file, for drivers that copy it.

use crate::{EngineError, Home};
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use tote_archive::EntryPath;
use tote_image::Digest;
use tote_rootfs::LinkedName;

/// The names of files that have several in an image of the store, by the inodes of the directories that they are in; sorted.
/// Equal files are one file in its tree as well, and there only.
///
/// # Errors
/// [`EngineError`]: what the store knows of the image cannot be read.
pub(crate) fn of_image(home: &Home, id: &Digest, tree: &Path) -> Result<Vec<LinkedName>, EngineError> {
    let tree = open(tree).map_err(|source| EngineError::Kernel {
        attempt: "open the image's files",
        source,
    })?;
    let store = tote_images::open_store(home)?;
    let links = store.hard_links(&store.image(id)?)?;
    let (mut files, mut directories) = (HashMap::new(), HashMap::new());
    let mut names = Vec::with_capacity(links.len());
    for (path, first) in &links {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            continue;
        };
        let directory = match directories.get(&parent) {
            Some(known) => *known,
            None => {
                let found = inode(tree.as_fd(), &parent).ok();
                directories.insert(parent, found);
                found
            }
        };
        // In a directory that is closed to this process its names are files of their own.
        let (Some(directory), Ok(name)) = (directory, CString::new(name)) else {
            continue;
        };
        let next = files.len() as u64;
        let file = *files.entry(first).or_insert(next);
        names.push(LinkedName {
            directory,
            name,
            file,
        });
    }
    names.sort();
    Ok(names)
}

fn open(tree: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(tree, flags, Mode::empty())
}

fn inode(tree: BorrowedFd<'_>, path: &EntryPath) -> Result<u64, Errno> {
    let name = match path.as_bytes() {
        b"" => b".",
        name => name,
    };
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let dir = tote_sys::openat2(tree, name, flags, Mode::empty(), resolve)?;
    Ok(rustix::fs::fstat(dir)?.st_ino)
}
