//! `trees/`: the directories that containers see, one for each sequence of layers.
//!
//! ```text
//! trees/CHAIN/
//! ├── lease       the id of the boot in which the tree was last known to be whole, and a `+` where
//! │               the two below `root/` are there; whoever uses the tree has it locked
//! ├── root/       the image, of links to objects
//! ├── inodes/     the image, of empty files with inodes of their own, for overlayfs
//! └── contents/   what these files contain
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

/// An image as a read-only directory, which stays for as long as this is held.
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
    /// The tree, with empty files.
    pub tree: PathBuf,
    /// The directory of what they contain.
    pub contents: PathBuf,
    /// With which rights it is to be mounted. With others its files would be zeros.
    pub rights: MountRights,
}

/// A part of a tree, which takes about as long as the other.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// Empty files with inodes of their own.
    Inodes,
    /// Links to objects: the tree that is read by name, and the contents of the empty files.
    Links,
}

/// A tree that its lease calls whole.
#[derive(Clone, Copy, Debug)]
struct Whole {
    own_inodes: bool,
}

impl Tree {
    /// Where it is. Nobody may write below it: its files are those of other images, too.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The tree that overlayfs is to show instead, where the kernel and the file system can have it.
    #[must_use]
    pub fn own_inodes(&self) -> Option<&OwnInodes> {
        self.own_inodes.as_ref()
    }

    /// What its layers are together, as a digest in hexadecimal.
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

/// What was done to have a tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeMade {
    /// Device nodes that could not be made.
    pub left_out: u64,
}

impl Store {
    /// The tree of an image; made now if need be. One that was made in another boot of the machine is looked through
    /// first, and what a power cut took from it is made again from the objects.
    ///
    /// # Errors
    /// [`StoreError::Lost`] where objects are gone, too; their layers are forgotten then, so that getting the image once
    /// more mends it. [`StoreError`] otherwise.
    pub fn tree(&self, image: &Image) -> Result<Tree, StoreError> {
        self.make_tree(image).map(|(tree, _)| tree)
    }

    /// The tree of an image, if it is there and was made or looked through in this boot of the machine: nothing is done
    /// about it otherwise.
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

    /// The same, and what was done for it, if anything was.
    ///
    /// # Errors
    /// As [`Store::tree`].
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

    /// Removes the lock files of trees that nobody holds: commands that made one of the trees were killed.
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

    /// Whether the tree of these layers is there, whoever uses it; `chain` as of [`Tree::chain`]. What cannot be asked is: what
    /// was made of the tree goes where it is not there.
    #[must_use]
    pub fn has_tree(&self, chain: &str) -> bool {
        !matches!(self.trees.is_there(chain), Ok(false))
    }

    /// What the tree of an image is called. That of an image without layers is an empty directory.
    pub(crate) fn tree_name(&self, image: &Image) -> Result<String, StoreError> {
        let chain = Self::chain(image.layers());
        chain.map_or_else(|| Ok("empty".to_owned()), |chain| sha256_hex(&chain.0))
    }

    /// The right to use a tree that is there.
    fn lease(&self, chain: &str) -> Result<Option<Lock>, StoreError> {
        let name = format!("{chain}/{LEASE}");
        let lease = Lock::of_present(&self.trees, &name, FlockOperation::LockShared);
        lease.map_err(self.trees.failed("lock", name))
    }

    /// The tree as its lease describes it, if the lease was written in this boot.
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

    /// The tree that a lease is for, unless somebody has taken it away.
    fn leased(&self, chain: &str, lease: Lock, whole: Whole) -> Result<Option<Tree>, StoreError> {
        let name = format!("{chain}/{ROOT}");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match rustix::fs::openat(&self.trees, &*name, flags, Mode::empty()) {
            // Its owner, another of a user's ids, has closed it: a container's root may look into it all the same.
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

    /// The tree, if it is there and whole; whoever calls it has the tree's lock. Nothing that is in it is changed or removed,
    /// for containers may use it: also within one boot a tree is looked through again ([`Store::doubt_trees_of_replaced`]).
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

    /// Looks at the inodes and contents of a tree, or makes them where there are none yet; `None` where they are damaged.
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

    /// What is damaged in the tree of an image, whose layers are whole: a path in it, or its lease.
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
            // What is there has no lease, for that is what was looked for: a crash has taken it.
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

    /// All objects are there and have their sizes, or the layers that they came with are forgotten.
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

    /// An image's layers, put on each other.
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

    /// Takes the tree of these layers out of the way, unless somebody uses it.
    pub(crate) fn retire_tree(&self, chain: &str) -> Result<bool, StoreError> {
        let name = format!("{chain}/{LEASE}");
        match Lock::of_present(&self.trees, &name, FlockOperation::NonBlockingLockExclusive) {
            Ok(Some(_lease)) => self.discard(&self.trees, chain).map(|()| true),
            // A tree whose lease a crash has taken is nobody's.
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
