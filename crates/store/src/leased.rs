//! A tree in use: an image as a directory that stays for as long as the value is held.

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

/// An image as a read-only directory, which stays for as long as this is held.
///
/// A tree with inodes of its own has empty files. Names, kinds, owners, modes, sizes and times are right there; what a file
/// contains, [`Tree::content_of`] opens, [`Tree::view`] shows, and [`Store::links`](crate::Store::links) has as ordinary files.
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
    /// The tree, with empty files.
    pub tree: PathBuf,
    /// The directory of what they contain.
    pub contents: PathBuf,
    /// With which rights it is to be mounted. With others its files would be zeros.
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

    /// The tree that overlayfs is to show, where the kernel and the file system can have it.
    #[must_use]
    pub fn own_inodes(&self) -> Option<&OwnInodes> {
        self.own_inodes.as_ref()
    }

    /// Returns the digest of its layers together, in hexadecimal.
    #[must_use]
    pub fn chain(&self) -> Option<&str> {
        self.dir.file_name()?.to_str()
    }

    /// Where [`Store::links`](crate::Store::links) makes the image of links to objects, whether or not it is there.
    #[must_use]
    pub fn links_path(&self) -> PathBuf {
        self.dir.join(ROOT)
    }

    /// The file that has the content of a regular file below this directory, which was opened for reading.
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

    /// The image with its contents as one directory, which the kernel puts together where need be. Where links to objects do
    /// not make it, its files have the inodes and link counts of the image's.
    ///
    /// # Errors
    /// [`StoreError::Io`]: it cannot be mounted.
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
