//! `trees/`: the directories that containers see, one for each sequence of layers.
//!
//! ```text
//! trees/CHAIN/
//! ├── lease       the id of the boot in which the tree was last known to be complete, and a `+` if the
//! │               two below `root/` exist; the tree's users hold a shared lock on it
//! ├── root/       the image, of links to objects
//! ├── inodes/     the image, of empty files with inodes of their own, for overlayfs
//! └── contents/   the contents of these files
//! ```

use crate::StoreError;
use crate::crew;
use crate::dir::{Dir, is_gone, write_all};
use crate::image::Image;
use crate::inodes;
use crate::lock::Lock;
use crate::model::{Model, Node};
use crate::objects::is_unchanged;
use crate::store::{LOCK, Store, sha256_hex};
use crate::tree::{self, LinkedFiles};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use tote_archive::EntryPath;
use tote_image::Digest;
use tote_sys::{MountRights, best_effort};

pub(crate) const LEASE: &str = "lease";
const ROOT: &str = "root";

/// An image as a read-only directory, which exists as long as this value is held.
#[derive(Debug)]
pub struct Tree {
    path: PathBuf,
    dir: OwnedFd,
    lease: Lock,
    own_inodes: Option<OwnInodes>,
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

/// Part of making a tree; the two parts take about equally long.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Empty files with inodes of their own.
    Inodes,
    /// Links to objects: the tree that is read by name, and the contents of the empty files.
    Links,
}

/// State of a tree that its lease calls complete.
#[derive(Clone, Copy, Debug)]
struct Whole {
    own_inodes: bool,
}

impl Tree {
    /// Returns the path of the tree. It must not be written to: its files belong to other images, too.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the tree that overlayfs should show instead, if the kernel and the file system support it.
    #[must_use]
    pub fn own_inodes(&self) -> Option<&OwnInodes> {
        self.own_inodes.as_ref()
    }

    /// Returns the digest of its layers together, in hexadecimal.
    #[must_use]
    pub fn chain(&self) -> Option<&str> {
        self.path.parent()?.file_name()?.to_str()
    }
}

impl AsFd for Tree {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Work that was done to provide a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeMade {
    /// Number of device nodes that could not be made.
    pub left_out: u64,
}

impl Store {
    /// Returns the tree of an image, and makes it if needed. A tree that was made in another boot of the machine is
    /// checked first, and parts lost by a power cut are made again from the objects.
    ///
    /// # Errors
    /// [`StoreError::Lost`] if objects are lost, too; their layers are then removed, so that adding the image once
    /// more repairs it. [`StoreError`] otherwise.
    pub fn tree(&self, image: &Image) -> Result<Tree, StoreError> {
        self.make_tree(image).map(|(tree, _)| tree)
    }

    /// Returns the tree of an image, if it exists and was made or checked in this boot of the machine. Otherwise
    /// nothing is done.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn ready_tree(&self, image: &Image) -> Result<Option<Tree>, StoreError> {
        let chain = self.tree_name(image)?;
        match self.lease(&chain)? {
            Some(lease) => match self.known(&lease)? {
                Some(whole) => self.leased(&chain, lease, whole),
                None => Ok(None),
            },
            None => Ok(None),
        }
    }

    /// Returns the tree as [`Store::tree`] does, and the work that was done for it, if any.
    ///
    /// # Errors
    /// Those of [`Store::tree`].
    pub fn make_tree(&self, image: &Image) -> Result<(Tree, Option<TreeMade>), StoreError> {
        self.doubt_trees_of_replaced();
        let chain = self.tree_name(image)?;
        if let Some(tree) = self.ready_tree(image)? {
            return Ok((tree, None));
        }
        let _ingest = self.ingest()?;
        let lock_name = format!("{LOCK}{chain}");
        let lock = Lock::exclusive(&self.trees, &lock_name)?;
        let mut made = None;
        let tree = loop {
            if let Some(tree) = self.open_tree(&chain, image)? {
                break tree;
            }
            made = Some(self.build(&chain, image)?);
        };
        best_effort(lock.remove(&self.trees, &lock_name));
        if made.is_some() {
            best_effort(self.remove_free_locks());
        }
        Ok((tree, made))
    }

    /// Removes the lock files of trees that have no holder: commands that made a tree were killed.
    fn remove_free_locks(&self) -> Result<(), StoreError> {
        for name in self.trees.names()? {
            if name.starts_with(LOCK)
                && let Ok(Some(lock)) =
                    Lock::of_present(&self.trees, &name, FlockOperation::NonBlockingLockExclusive)
            {
                best_effort(lock.remove(&self.trees, &name));
            }
        }
        Ok(())
    }

    /// True if the tree of these layers exists, whether it is used or not; `chain` is that of [`Tree::chain`]. A
    /// failure counts as true, because files made for a tree are removed if it does not exist.
    #[must_use]
    pub fn has_tree(&self, chain: &str) -> bool {
        !matches!(self.trees.is_there(chain), Ok(false))
    }

    /// Returns the name of an image's tree. An image without layers has an empty directory.
    pub(crate) fn tree_name(&self, image: &Image) -> Result<String, StoreError> {
        let chain = Self::chain(image.layers());
        chain.map_or_else(|| Ok("empty".to_owned()), |chain| sha256_hex(&chain.0))
    }

    /// Takes a shared lock on the lease of a tree; `None` if there is no such tree.
    fn lease(&self, chain: &str) -> Result<Option<Lock>, StoreError> {
        let name = format!("{chain}/{LEASE}");
        let lease = Lock::of_present(&self.trees, &name, FlockOperation::LockShared);
        lease.map_err(self.trees.failed("lock", name))
    }

    /// Returns the tree's state from its lease, if that was written in this boot.
    fn known(&self, lease: &Lock) -> Result<Option<Whole>, StoreError> {
        let mut text = [0; 64];
        let read = rustix::io::pread(&lease.file, &mut text, 0);
        let read = read.map_err(self.trees.failed("read", LEASE))?;
        let rest = text[..read].strip_prefix(self.boot.as_bytes());
        Ok(match rest.filter(|_| !self.boot.is_empty()) {
            Some(b"") => Some(Whole { own_inodes: false }),
            Some(b"+") => Some(Whole { own_inodes: true }),
            _ => None,
        })
    }

    fn words_of(&self, whole: Whole) -> String {
        let more = if whole.own_inodes { "+" } else { "" };
        format!("{}{more}", self.boot)
    }

    /// Opens the tree of a lease; `None` if its directory was lost or removed.
    fn leased(&self, chain: &str, lease: Lock, whole: Whole) -> Result<Option<Tree>, StoreError> {
        let name = format!("{chain}/{ROOT}");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&self.trees, &*name, flags, Mode::empty()) {
            // The directory's owner, another of the user's ids, has closed it; a container's root can still use it.
            Err(Errno::ACCESS) => {
                rustix::fs::openat(&self.trees, &*name, flags | OFlags::PATH, Mode::empty())
            }
            other => other,
        };
        match opened {
            Err(errno) if is_gone(errno) => Ok(None),
            opened => Ok(Some(Tree {
                dir: opened.map_err(self.trees.failed("open", &name))?,
                path: self.trees.path().join(name),
                lease,
                own_inodes: self
                    .overlays
                    .filter(|_| whole.own_inodes)
                    .map(|rights| OwnInodes {
                        tree: self.trees.path().join(chain).join(inodes::INODES),
                        contents: self.trees.path().join(chain).join(inodes::CONTENTS),
                        rights,
                    }),
            })),
        }
    }

    /// Opens the tree, if it is complete; the caller must hold the tree's lock. The content is neither changed nor
    /// removed, because containers may use it: even within a boot a tree is checked again
    /// ([`Store::doubt_trees_of_replaced`]).
    fn open_tree(&self, chain: &str, image: &Image) -> Result<Option<Tree>, StoreError> {
        let Some(lease) = self.lease(chain)? else {
            return Ok(None);
        };
        if let Some(whole) = self.known(&lease)? {
            let tree = self.leased(chain, lease, whole)?;
            if tree.is_none() {
                self.discard(&self.trees, chain)?;
            }
            return Ok(tree);
        }
        let Some(tree) = self.leased(chain, lease, Whole { own_inodes: false })? else {
            self.discard(&self.trees, chain)?;
            return Ok(None);
        };
        self.check_layers(image)?;
        let model = self.model(image)?;
        if self.damaged_links(&model, &tree.dir).is_some() {
            self.discard(&self.trees, chain)?;
            return Ok(None);
        }
        let Some(whole) = self.look_through_inodes(&self.trees.enter(chain)?, &model)? else {
            self.discard(&self.trees, chain)?;
            return Ok(None);
        };
        let emptied = rustix::fs::ftruncate(&tree.lease.file, 0);
        let written = emptied.and_then(|()| write_all(&tree.lease.file, self.words_of(whole).as_bytes()));
        written.map_err(self.trees.failed("write", LEASE))?;
        self.leased(chain, tree.lease, whole)
    }

    /// Checks the inodes and contents of a tree, or makes them if they do not exist yet; `None` if they are
    /// damaged.
    fn look_through_inodes(&self, dir: &Dir, model: &Model) -> Result<Option<Whole>, StoreError> {
        match self.overlays {
            Some(rights) if inodes::are_there(dir) => {
                let damaged = inodes::damaged(&self.objects, model, dir, rights)?;
                // Another kernel may not show them.
                let own_inodes = damaged.is_none() && inodes::show(model, dir, rights);
                Ok(damaged.is_none().then_some(Whole { own_inodes }))
            }
            _ => self.make_inodes(dir, model).map(Some),
        }
    }

    fn make_inodes(&self, dir: &Dir, model: &Model) -> Result<Whole, StoreError> {
        let Some(rights) = self.overlays else {
            return Ok(Whole { own_inodes: false });
        };
        inodes::link_contents(&self.objects, model, dir)?;
        let made = inodes::make_files((&self.objects, self.owners), model, dir, rights)?;
        let own_inodes = inodes::keep(made, model, dir, rights)?;
        Ok(Whole { own_inodes })
    }

    fn damaged_links(&self, model: &Model, root: &OwnedFd) -> Option<EntryPath> {
        tree::damaged(model, root.as_fd(), &|name, key, stat| {
            tree::is_object(&self.objects, key, stat, root.as_fd(), name)
        })
    }

    /// Returns the damaged part of the tree of an image whose layers are complete: a path in it, or its lease.
    pub(crate) fn damage_of_tree(&self, image: &Image) -> Result<Option<String>, StoreError> {
        let chain = self.tree_name(image)?;
        let Some(lease) = self.lease(&chain)? else {
            return Ok(Some("lease is gone".to_owned()));
        };
        let whole = self.known(&lease)?.unwrap_or(Whole { own_inodes: false });
        let Some(tree) = self.leased(&chain, lease, whole)? else {
            return Ok(Some("root is gone".to_owned()));
        };
        let model = self.model(image)?;
        let mut damaged = self.damaged_links(&model, &tree.dir);
        if let (None, Some(own)) = (&damaged, &tree.own_inodes) {
            let dir = self.trees.enter(&chain)?;
            damaged = inodes::damaged(&self.objects, &model, &dir, own.rights)?;
        }
        Ok(damaged.map(|path| format!("{path} is not as it was made")))
    }

    fn build(&self, chain: &str, image: &Image) -> Result<TreeMade, StoreError> {
        self.check_layers(image)?;
        let model = self.model(image)?;
        let (dir, unfinished) = self.trees.make_unfinished()?;
        let built = self.fill_tree(&dir, image, &model).and_then(|made| {
            rustix::fs::fchmod(&dir, Mode::from_raw_mode(0o711))
                .map_err(dir.failed("set the mode of", ""))?;
            // An existing entry has no lease, as checked before, so a crash has damaged it.
            self.put_in_place(&self.trees, &unfinished, chain)?;
            Ok(made)
        });
        if built.is_err() {
            best_effort(self.trees.remove_tree(&unfinished));
        }
        built
    }

    fn fill_tree(&self, dir: &Dir, image: &Image, model: &Model) -> Result<TreeMade, StoreError> {
        let lease = dir.create(LEASE, 0o600).map_err(dir.failed("make", LEASE))?;
        dir.make(ROOT, 0o700).map_err(dir.failed("make", ROOT))?;
        let root = dir.enter(ROOT)?;
        let (left_out, made) = (AtomicU64::new(0), AtomicBool::new(false));
        crew::for_each(&[Part::Inodes, Part::Links], |part| {
            match (part, self.overlays) {
                (Part::Inodes, None) => {}
                (Part::Inodes, Some(rights)) => {
                    let objects = (&self.objects, self.owners);
                    made.store(
                        inodes::make_files(objects, model, dir, rights)?,
                        Ordering::Relaxed,
                    );
                }
                (Part::Links, overlays) => {
                    self.check_objects(image, model)?;
                    let mut files = LinkedFiles::new(&self.objects);
                    let made = tree::make((&self.objects, self.owners), model, &root, &mut files)?;
                    left_out.store(made, Ordering::Relaxed);
                    if overlays.is_some() {
                        inodes::link_contents(&self.objects, model, dir)?;
                    }
                }
            }
            Ok::<_, StoreError>(())
        })?;
        let own_inodes = match self.overlays {
            Some(rights) => inodes::keep(made.into_inner(), model, dir, rights)?,
            None => false,
        };
        let whole = Whole { own_inodes };
        write_all(&lease, self.words_of(whole).as_bytes()).map_err(dir.failed("write", LEASE))?;
        Ok(TreeMade {
            left_out: left_out.into_inner(),
        })
    }

    /// Checks that all objects exist and have their sizes; otherwise removes the layers that they came with.
    fn check_objects(&self, image: &Image, model: &Model) -> Result<(), StoreError> {
        let mut lost = HashSet::new();
        for inode in model.inodes() {
            if let Node::File { key, size } = &inode.node {
                let name = key.name(0);
                match self.objects.dir.stat(&name) {
                    Ok(stat) if is_unchanged(&stat, *size, &inode.attributes) => {}
                    Ok(_) => drop(lost.insert(*key)),
                    Err(errno) if is_gone(errno) => drop(lost.insert(*key)),
                    Err(errno) => return Err(self.objects.dir.failed("look at", name)(errno)),
                }
            }
        }
        let Some(first) = lost.iter().next() else {
            return Ok(());
        };
        for diff_id in image.layers() {
            let dir = self.layer_dir(diff_id)?.ok_or(StoreError::NoLayer(*diff_id))?;
            if crate::layer::contents(&dir)?
                .iter()
                .any(|stored| lost.contains(&stored.key))
            {
                self.discard(&self.layers, &sha256_hex(diff_id)?)?;
            }
        }
        Err(StoreError::Lost {
            image: image.id,
            count: lost.len(),
            first: first.name(0),
        })
    }

    /// Applies an image's layers to each other.
    pub(crate) fn model(&self, image: &Image) -> Result<Model, StoreError> {
        let mut model = Model::new(self.owners);
        for (number, diff_id) in image.layers().iter().enumerate() {
            let dir = self.layer_dir(diff_id)?.ok_or(StoreError::NoLayer(*diff_id))?;
            crate::layer::changes(&dir, diff_id, |change, stored| {
                let content = stored.map(|stored| (stored.key, stored.size));
                let applied = model.apply(number, change, content);
                applied.map_err(|reason| StoreError::Apply {
                    layer: *diff_id,
                    path: change.path().to_string(),
                    reason,
                })
            })?;
        }
        Ok(model)
    }

    /// Moves the tree of these layers to the trash, unless it is in use. Returns whether it was moved.
    pub(crate) fn retire_tree(&self, chain: &str) -> Result<bool, StoreError> {
        let name = format!("{chain}/{LEASE}");
        match Lock::of_present(&self.trees, &name, FlockOperation::NonBlockingLockExclusive) {
            Ok(Some(_lease)) => self.discard(&self.trees, chain).map(|()| true),
            // A tree without a lease was damaged by a crash and is not in use.
            Ok(None) => self.discard(&self.trees, chain).map(|()| true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(self.trees.failed("lock", name)(errno)),
        }
    }

    /// Ids of layers that images have.
    pub(crate) fn live_layers(&self, images: &[Image]) -> HashSet<Digest> {
        images.iter().flat_map(Image::layers).copied().collect()
    }
}
