//! Trees in use: images as directories.

use crate::StoreError;
use crate::inodes::{self, CONTENTS, INODES};
use crate::lock::Lock;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use tote_sys::MountRights;

/// The directory of links to objects.
pub(crate) const ROOT: &str = "root";

/// An image as a read-only directory, which exists as long as this value is held.
///
/// A tree with inodes of its own has empty files, with the names, kinds, owners, modes, sizes and times of the image.
/// [`Tree::content_of`] opens the content of a file, [`Tree::view`] shows the files with their contents, and
/// [`Store::links`](crate::Store::links) makes ordinary files.
#[derive(Debug)]
pub struct Tree {
    /// `trees/CHAIN`.
    pub(crate) dir: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) names: OwnedFd,
    pub(crate) _lease: Lock,
    pub(crate) own_inodes: Option<OwnInodes>,
}

/// A tree for overlayfs, with inodes of its own for every file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnInodes {
    /// The tree of empty files.
    pub tree: PathBuf,
    /// The directory of their contents.
    pub contents: PathBuf,
    /// Rights with which it must be mounted. With others its files would read as zeros.
    pub rights: MountRights,
}

impl OwnInodes {
    /// The directories of the tree in `dir`.
    pub(crate) fn of(dir: &Path, rights: MountRights) -> Self {
        Self {
            tree: dir.join(INODES),
            contents: dir.join(CONTENTS),
            rights,
        }
    }
}

impl Tree {
    /// The directory with its names. It must not be written to: its files are those of other images, too, or the only ones of this.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the tree that overlayfs should show, if the kernel and the file system support it.
    #[must_use]
    pub fn own_inodes(&self) -> Option<&OwnInodes> {
        self.own_inodes.as_ref()
    }

    /// Returns the digest of its layers together, in hexadecimal.
    #[must_use]
    pub fn chain(&self) -> Option<&str> {
        self.dir.file_name()?.to_str()
    }

    /// Returns the directory in which [`Store::links`](crate::Store::links) makes the image of links to objects; it may not
    /// exist yet.
    #[must_use]
    pub fn links_path(&self) -> PathBuf {
        self.dir.join(ROOT)
    }

    /// Opens the content of a regular file below this directory; `file` is open for reading.
    ///
    /// # Errors
    /// fgetxattr(2)'s and open(2)'s.
    pub fn content_of(&self, file: OwnedFd) -> Result<OwnedFd, Errno> {
        let Some(own) = &self.own_inodes else {
            return Ok(file);
        };
        match inodes::content_name(&file, own.rights)? {
            // An empty file.
            None => Ok(file),
            Some(name) => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(CWD, own.contents.join(name), flags, Mode::empty())
            }
        }
    }

    /// Opens the image with its contents as one directory, which the kernel mounts if the tree has inodes of its own. Files
    /// then have the inodes and link counts of the image.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it cannot be mounted.
    pub fn view(&self) -> Result<OwnedFd, StoreError> {
        let failed = |errno| StoreError::io("show", self.dir.clone(), errno);
        match &self.own_inodes {
            None => self.names.try_clone().map_err(|source| StoreError::Io {
                attempt: "show",
                path: self.dir.clone(),
                source,
            }),
            Some(own) => {
                // A user who is not in a namespace of the image's owners makes one of a single id.
                let is_root = rustix::process::geteuid().is_root();
                let rights = match own.rights {
                    MountRights::NamespaceRoot if !is_root => MountRights::None,
                    rights => rights,
                };
                inodes::mount(&self.dir, rights).map_err(failed)
            }
        }
    }
}

impl AsFd for Tree {
    /// The directory of its names.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.names.as_fd()
    }
}
