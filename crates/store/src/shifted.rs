//! Trees of images for containers whose owners have other numbers on disk: those of `--userns keep-id`.
//!
//! The owner of a file is in its inode, so such a container needs inodes of its own. Where overlayfs shows empty files that lead to their
//! contents, `inodes-U-G/` has these empty files once more, with other owners; what they lead to is the same, and so are its
//! pages in memory. An idmapped mount would take no inodes at all, but only root of the machine makes one of a disk's file system,
//! and overlayfs in a user namespace has none. Elsewhere, on kernels before 6.16, the files are copied to `root-U-G/`, which costs
//! nothing where the file system shares their blocks.
//!
//! Both are made at the first start that needs them, are checked as the rest of the tree is, and go with it.

use crate::StoreError;
use crate::crew;
use crate::dir::Dir;
use crate::error::is_gone;
use crate::fault::step;
use crate::inodes::{self, EmptyFiles, Numbers, Place};
use crate::key::{Attributes, Key};
use crate::leased::{OwnInodes, Tree};
use crate::model::Model;
use crate::objects::{Objects, duplicate};
use crate::parts::Divided;
use crate::store::Store;
use crate::stored_image::Image;
use crate::tree::{Files, Site};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use tote_archive::{EntryPath, Shift};
use tote_sys::best_effort;

/// Beginnings of the names of both.
const EMPTY: &str = "inodes-";
const COPIES: &str = "root-";

/// An image with the owners for some containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shifted {
    /// Directory with the names of its files; it may not exist yet.
    pub path: PathBuf,
    /// Empty files for overlayfs, if its files have their contents elsewhere.
    pub own_inodes: Option<OwnInodes>,
}

impl Shifted {
    /// Opens it with its contents as one directory, in the numbers of the disk.
    ///
    /// # Errors
    /// [`StoreError::Io`] if it cannot be mounted.
    pub fn view(&self) -> Result<OwnedFd, StoreError> {
        let failed = |errno| StoreError::io("show", self.path.clone(), errno);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match (&self.own_inodes, self.path.parent(), self.path.file_name()) {
            (Some(own), Some(dir), Some(part)) => {
                let part = part.to_string_lossy();
                inodes::mount_part(dir, &part, own.place(dir), own.rights_here())
            }
            _ => rustix::fs::openat(CWD, &self.path, flags, Mode::empty()),
        };
        opened.map_err(failed)
    }
}

impl Tree {
    /// Returns the tree of the same image with the owners for those containers. [`Store::shift`] makes it.
    #[must_use]
    pub fn shifted(&self, shift: Shift) -> Shifted {
        let (uid, gid) = shift.kept();
        // Root of the machine, whose trees may be files, keeps no ids.
        let Some(own) = self.own_inodes.as_ref().filter(|own| own.fs.is_none()) else {
            return self.shifted_copies(shift);
        };
        let path = self.dir.join(format!("{EMPTY}{uid}-{gid}"));
        let own_inodes = Some(OwnInodes {
            tree: path.clone(),
            ..own.clone()
        });
        Shifted { path, own_inodes }
    }

    /// Returns the same as ordinary files, for drivers that copy them.
    #[must_use]
    pub fn shifted_copies(&self, shift: Shift) -> Shifted {
        let (uid, gid) = shift.kept();
        Shifted {
            path: self.dir.join(format!("{COPIES}{uid}-{gid}")),
            own_inodes: None,
        }
    }
}

impl Store {
    /// Makes such a tree of an image, unless an earlier command has made it. Any of several threads tells how many files have been made,
    /// and of how many.
    ///
    /// # Errors
    /// [`StoreError`]; [`StoreError::Owner`] where the image has a file of an owner for whom the ranges of ids have no number.
    pub fn shift(
        &self,
        image: &Image,
        shifted: &Shifted,
        shift: Shift,
        tell: &(dyn Fn(usize, usize) + Sync),
    ) -> Result<(), StoreError> {
        let name = shifted.path.file_name().unwrap_or_default().to_string_lossy();
        self.add_to_tree(image, &name, |_, dir, mut model| {
            self.check_objects(image, &model)?;
            model.shift(shift);
            let (root, unfinished) = dir.make_unfinished()?;
            let count = Count::of(&model, tell);
            let made = match &shifted.own_inodes {
                Some(own) => self.fill_empty(&root, &model, (own, dir), &count),
                None => self.fill(&root, &model, &count.of_each(CopiedFiles(&self.objects))),
            };
            let named = made.and_then(|()| {
                let named = dir.rename(&unfinished, dir, &name);
                named.map_err(dir.failed("make", &*name))
            });
            if named.is_err() {
                best_effort(dir.remove_tree(&unfinished));
            }
            named
        })
    }

    fn fill_empty(
        &self,
        root: &Dir,
        model: &Model,
        (own, dir): (&OwnInodes, &Dir),
        count: &Count<'_>,
    ) -> Result<(), StoreError> {
        let numbers = match own.place(dir.path()) {
            Place::Contents => Some(Numbers::of(model)),
            Place::Objects => None,
        };
        let files = EmptyFiles::new(&self.objects, root, numbers.as_ref(), own.rights);
        self.fill(root, model, &count.of_each(files))
    }

    /// Makes the files of a tree, by several threads.
    fn fill(&self, root: &Dir, model: &Model, files: &(impl Files + Clone + Sync)) -> Result<(), StoreError> {
        let site = Site::new((&self.objects, self.owners), model, root);
        let divided = Divided::of(model);
        divided.begin(&site)?;
        crew::for_each(&divided.parts, |part| part.make(&site, &mut files.clone()))?;
        divided.finish(&site)
    }

    /// Returns how many copies of the image's files such trees have, each with all of them. A tree that is not there has none.
    pub(crate) fn copies_of(&self, image: &Image) -> Result<u64, StoreError> {
        let chain = self.tree_name(image)?;
        let names = match self.trees.enter(&chain).and_then(|dir| dir.names()) {
            Err(error) if error.errno().is_some_and(is_gone) => return Ok(0),
            names => names?,
        };
        Ok(names.iter().map(|name| u64::from(name.starts_with(COPIES))).sum())
    }

    /// Returns the path of an entry of such a tree that is not as it was made. Its owners are not looked at, and neither are those
    /// of other trees.
    pub(crate) fn damaged_shifted(&self, model: &Model, dir: &Dir) -> Result<Option<EntryPath>, StoreError> {
        for name in dir.names()? {
            let damaged = if name.starts_with(COPIES) {
                self.damaged_links(model, dir, &name)
            } else if let (true, Some(rights)) = (name.starts_with(EMPTY), self.overlays) {
                inodes::damaged(&self.objects, model, (dir, &name), rights)?
            } else {
                None
            };
            if damaged.is_some() {
                return Ok(damaged);
            }
        }
        Ok(None)
    }
}

/// The number of files that have been made.
struct Count<'a> {
    made: AtomicUsize,
    of: usize,
    tell: &'a (dyn Fn(usize, usize) + Sync),
}

impl<'a> Count<'a> {
    fn of(model: &Model, tell: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        Self {
            made: AtomicUsize::new(0),
            of: model.files().count(),
            tell,
        }
    }

    fn of_each<F>(&self, files: F) -> Counted<'_, F> {
        Counted { files, count: self }
    }
}

/// A maker of files that counts them.
#[derive(Clone)]
struct Counted<'a, F> {
    files: F,
    count: &'a Count<'a>,
}

impl<F: Files> Files for Counted<'_, F> {
    fn make(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        content: (&Key, u64),
        attributes: &Attributes,
        path: &Path,
    ) -> Result<(), StoreError> {
        self.files.make(dir, name, content, attributes, path)?;
        let made = self.count.made.fetch_add(1, Ordering::Relaxed) + 1;
        (self.count.tell)(made, self.count.of);
        Ok(())
    }
}

/// A maker of files that are copies of objects.
#[derive(Clone, Debug)]
struct CopiedFiles<'a>(&'a Objects);

impl Files for CopiedFiles<'_> {
    fn make(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &[u8],
        (key, size): (&Key, u64),
        attributes: &Attributes,
        path: &Path,
    ) -> Result<(), StoreError> {
        let failed = |errno| StoreError::io("make", path.to_owned(), errno);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = step().and_then(|()| rustix::fs::openat(dir, name, flags, Mode::RUSR | Mode::WUSR));
        let file = made.map_err(failed)?;
        if size > 0 {
            let source = key.name(0);
            let from = self.0.dir.open_file(&source);
            let from = from.map_err(self.0.dir.failed("open", &source))?;
            duplicate(&from, &file).map_err(failed)?;
        }
        self.0.set_attributes(&file, attributes, path)
    }
}
