//! Trees in use: images as directories.

use crate::StoreError;
use crate::erofs;
use crate::inodes::{self, CONTENTS, INODES, Place};
use crate::lock::Lock;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use tote_erofs::{Image, Kind};
use tote_sys::MountRights;

/// The file of a tree that says what is known of it.
pub(crate) const LEASE: &str = "lease";
/// The directory of links to objects.
pub(crate) const ROOT: &str = "root";

/// An image as a read-only directory, which exists as long as this value is held.
///
/// A tree with inodes of its own has empty files, with the names, kinds, owners, modes, sizes and times of the image, as
/// a directory or in a file. [`Tree::content_of`] and [`Tree::open`] open the content of a file, [`Tree::view`] shows the files with their
/// contents, and [`Store::links`](crate::Store::links) makes ordinary files.
#[derive(Debug)]
pub struct Tree {
    /// `trees/CHAIN`.
    pub(crate) dir: PathBuf,
    pub(crate) path: PathBuf,
    pub(crate) names: Names,
    pub(crate) _lease: Lock,
    pub(crate) own_inodes: Option<OwnInodes>,
}

/// The names of a tree, open for looking up.
#[derive(Debug)]
pub(crate) enum Names {
    Directory(OwnedFd),
    Image(Image),
}

/// Result of [`Tree::open`].
#[derive(Debug)]
pub enum Opened {
    /// Nothing has this path.
    Absent,
    /// The path leads to a directory, a node or a named pipe.
    NoFile,
    /// An empty file.
    Empty,
    /// The content of a file.
    Content(OwnedFd),
}

/// A tree for overlayfs, with inodes of its own for every file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnInodes {
    /// The tree of empty files.
    pub tree: PathBuf,
    /// Kind of the file system that the tree is in, as in `/proc/filesystems`, if the tree is a file; `None` if it is a
    /// directory.
    pub fs: Option<&'static str>,
    /// The directory of their contents.
    pub contents: PathBuf,
    /// Rights with which it must be mounted. With others its files would read as zeros.
    pub rights: MountRights,
}

impl OwnInodes {
    /// The directory of the tree in `dir`.
    pub(crate) fn of(dir: &Path, place: Place, objects: &Path, rights: MountRights) -> Self {
        Self {
            tree: dir.join(INODES),
            fs: None,
            contents: match place {
                Place::Contents => dir.join(CONTENTS),
                Place::Objects => objects.to_owned(),
            },
            rights,
        }
    }

    /// The place of the contents of the tree in `dir`.
    pub(crate) fn place(&self, dir: &Path) -> Place {
        match self.contents.starts_with(dir) {
            true => Place::Contents,
            false => Place::Objects,
        }
    }

    /// The rights with which this process mounts it: a user who is not in a namespace of the image's owners makes one of a single id.
    pub(crate) fn rights_here(&self) -> MountRights {
        match self.rights {
            MountRights::NamespaceRoot if !rustix::process::geteuid().is_root() => MountRights::None,
            rights => rights,
        }
    }

    /// The file of the tree in `dir`.
    pub(crate) fn in_file(dir: &Path, objects: &Path, rights: MountRights) -> Self {
        Self {
            tree: dir.join(erofs::IMAGE),
            fs: Some(erofs::FS),
            contents: objects.to_owned(),
            rights,
        }
    }
}

impl Tree {
    /// The directory with its names; if they are in a file, that of [`Tree::links_path`], which may not exist yet. It must
    /// not be written to: its files are those of other images, too, or the only ones of this.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory with its names, if they are in one.
    #[must_use]
    pub fn directory(&self) -> Option<BorrowedFd<'_>> {
        match &self.names {
            Names::Directory(names) => Some(names.as_fd()),
            Names::Image(_) => None,
        }
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

    /// Opens the content of a regular file below [`Tree::directory`]; `file` is open for reading.
    ///
    /// # Errors
    /// fgetxattr(2)'s and open(2)'s.
    pub fn content_of(&self, file: OwnedFd) -> Result<OwnedFd, Errno> {
        let Some(own) = self.own_inodes.as_ref().filter(|own| own.fs.is_none()) else {
            return Ok(file);
        };
        match inodes::content_name(&file, own.rights)? {
            // An empty file.
            None => Ok(file),
            Some(name) => open_file(&own.contents.join(name)),
        }
    }

    /// Finds the file of a path in a tree whose names are in a file; symbolic links are followed inside the tree.
    ///
    /// # Errors
    /// open(2)'s, and `EIO` for a damaged tree.
    pub fn open(&self, path: &[u8]) -> Result<Opened, Errno> {
        let (Names::Image(image), Some(own)) = (&self.names, &self.own_inodes) else {
            return Ok(Opened::Absent);
        };
        let damaged = |_| Errno::IO;
        let Some(found) = image.find(path).map_err(damaged)? else {
            return Ok(Opened::Absent);
        };
        Ok(
            match (found.kind, erofs::object(image, &found).map_err(damaged)?) {
                (Kind::File, Some(object)) => Opened::Content(open_file(&own.contents.join(object))?),
                (Kind::File, None) => Opened::Empty,
                _ => Opened::NoFile,
            },
        )
    }

    /// Mounts the names of a tree that are in a file, attached nowhere, as a layer of an overlay; `None` if they are in a
    /// directory.
    ///
    /// # Errors
    /// fsopen(2)'s, fsconfig(2)'s and fsmount(2)'s.
    pub fn mounted_names(&self) -> Result<Option<OwnedFd>, Errno> {
        match (&self.names, &self.own_inodes) {
            (Names::Image(_), Some(own)) => erofs::mount_names(&own.tree).map(Some),
            _ => Ok(None),
        }
    }

    /// Opens the image with its contents as one directory, which the kernel mounts if the tree has inodes of its own. Files
    /// then have the inodes and link counts of the image.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it cannot be mounted.
    pub fn view(&self) -> Result<OwnedFd, StoreError> {
        let failed = |errno| StoreError::io("show", self.dir.clone(), errno);
        match (&self.own_inodes, &self.names) {
            (None, Names::Directory(names)) => names.try_clone().map_err(|source| StoreError::Io {
                attempt: "show",
                path: self.dir.clone(),
                source,
            }),
            (None, Names::Image(_)) => Err(failed(Errno::INVAL)),
            (Some(own), Names::Image(_)) => erofs::mount(&own.tree, &own.contents).map_err(failed),
            (Some(own), Names::Directory(_)) => {
                let rights = own.rights_here();
                inodes::mount(&self.dir, own.place(&self.dir), rights).map_err(failed)
            }
        }
    }
}

fn open_file(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(CWD, path, flags, Mode::empty())
}
