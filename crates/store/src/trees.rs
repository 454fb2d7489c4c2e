//! `trees/`: the directories that containers see, one for each sequence of layers.
//!
//! ```text
//! trees/CHAIN/
//! ├── lease        the id of the boot in which the tree was last known to be whole, and a sign of its form: `#` for
//! │                `image.erofs`, `+` for `inodes/` and `contents/`, `=` for `inodes/` alone; each user of the tree holds a
//! │                shared lock on it
//! ├── image.erofs  the image without contents, for overlayfs, where the kernel mounts such a file for the caller
//! ├── inodes/      elsewhere the same as a directory of empty files with inodes of their own
//! ├── contents/    what these empty files contain, where the objects themselves cannot be that
//! ├── disk.erofs   the image with all contents, for virtual machines, once one has asked for it
//! ├── root/        the image, of links to objects: where overlayfs can show none of these, or once a command
//! │                has asked for it
//! ├── inodes-U-G/  `inodes/` with the owners for containers whose caller is user U and group G inside, once there
//! │                was one; the contents are those of `inodes/`
//! └── root-U-G/    the same as copies of the files, where overlayfs cannot show that, or once a driver has asked for it
//! ```

use crate::StoreError;
use crate::dir::{Dir, write_all};
use crate::erofs;
use crate::error::is_gone;
use crate::error::or_damaged;
use crate::forms::{Form, TreeMade};
use crate::inodes;
use crate::layer::Stored;
use crate::leased::{LEASE, Names, OwnInodes, ROOT, Tree};
use crate::lock::Lock;
use crate::model::Model;
use crate::store::{LOCK, Store, sha256_hex};
use crate::stored_image::Image;
use rustix::fs::{FlockOperation, Mode};
use rustix::io::Errno;
use std::collections::HashSet;
use std::path::PathBuf;
use tote_archive::Change;
use tote_image::Digest;
use tote_sys::best_effort;

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
                Some(form) => self.leased(&chain, lease, form),
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
        let made = self.open_or_build(&chain, image);
        let (tree, made) = made.map_err(|error| self.unless_removed(image, error))?;
        best_effort(lock.remove(&self.trees, &lock_name));
        if made.is_some() {
            best_effort(self.remove_free_locks());
        }
        Ok((tree, made))
    }

    /// Opens the tree, and makes it before if it does not exist or is damaged. The caller must hold the tree's lock.
    fn open_or_build(&self, chain: &str, image: &Image) -> Result<(Tree, Option<TreeMade>), StoreError> {
        let mut made = None;
        loop {
            if let Some(tree) = self.open_tree(chain, image)? {
                return Ok((tree, made));
            }
            made = Some(self.build(chain, image)?);
        }
    }

    /// Returns the error of making a tree, or [`StoreError::NoImage`] if another command has removed the image in the
    /// meantime: its layers are gone then, but not lost.
    fn unless_removed(&self, image: &Image, error: StoreError) -> StoreError {
        match self.image(&image.id) {
            Err(missing @ StoreError::NoImage(_)) => missing,
            _ => error,
        }
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
    pub(crate) fn lease(&self, chain: &str) -> Result<Option<Lock>, StoreError> {
        let name = format!("{chain}/{LEASE}");
        let lease = Lock::of_present(&self.trees, &name, FlockOperation::LockShared);
        lease.map_err(self.trees.failed("lock", name))
    }

    /// Returns the tree's form from its lease, if that was written in this boot.
    fn known(&self, lease: &Lock) -> Result<Option<Form>, StoreError> {
        let mut text = [0; 64];
        let read = rustix::io::pread(&lease.file, &mut text, 0);
        let read = read.map_err(self.trees.failed("read", LEASE))?;
        let sign = text[..read].strip_prefix(self.boot.as_bytes());
        let form = sign.filter(|_| !self.boot.is_empty()).and_then(Form::of_sign);
        Ok(form.filter(|form| self.erofs_from.is_some() || *form != Form::Image))
    }

    /// Opens the tree of a lease; `None` if its files were lost or removed.
    fn leased(&self, chain: &str, lease: Lock, form: Form) -> Result<Option<Tree>, StoreError> {
        let dir = self.trees.path().join(chain);
        let (names, own_inodes) = match (form, self.overlays) {
            (Form::Image, Some(rights)) => {
                let own = OwnInodes::in_file(&dir, self.objects.dir.path(), rights);
                let tree = match self.trees.enter(chain) {
                    Err(error) if error.errno().is_some_and(is_gone) => return Ok(None),
                    entered => entered?,
                };
                let image = or_damaged(erofs::open(&tree))?.flatten();
                (image.map(Names::Image), Some(own))
            }
            (Form::Inodes(place), Some(rights)) => {
                let names = self.names_of(chain, inodes::INODES)?;
                let own = OwnInodes::of(&dir, place, self.objects.dir.path(), rights);
                (names, Some(own))
            }
            _ => (self.names_of(chain, ROOT)?, None),
        };
        let path = match (&names, &own_inodes) {
            (Some(Names::Directory(_)), Some(own)) => own.tree.clone(),
            _ => dir.join(ROOT),
        };
        Ok(names.map(|names| Tree {
            names,
            path,
            dir,
            _lease: lease,
            own_inodes,
        }))
    }

    fn names_of(&self, chain: &str, part: &str) -> Result<Option<Names>, StoreError> {
        let name = format!("{chain}/{part}");
        match self.trees.enter_closed(&name) {
            Err(errno) if is_gone(errno) => Ok(None),
            opened => {
                let opened = opened.map_err(self.trees.failed("open", &name))?;
                Ok(Some(Names::Directory(opened)))
            }
        }
    }

    /// Opens the tree, if it is complete; the caller must hold the tree's lock. The content is neither changed nor
    /// removed, because containers may use it: even within a boot a tree is checked again
    /// ([`Store::doubt_trees_of_replaced`]).
    fn open_tree(&self, chain: &str, image: &Image) -> Result<Option<Tree>, StoreError> {
        let Some(lease) = self.lease(chain)? else {
            return Ok(None);
        };
        if let Some(form) = self.known(&lease)? {
            let tree = self.leased(chain, lease, form)?;
            if tree.is_none() {
                self.discard(&self.trees, chain)?;
            }
            return Ok(tree);
        }
        self.check_layers(image)?;
        let model = self.model(image)?;
        let Some(form) = self.look_through(&self.trees.enter(chain)?, chain, image, &model)? else {
            self.discard(&self.trees, chain)?;
            return Ok(None);
        };
        let emptied = rustix::fs::ftruncate(&lease.file, 0);
        let written = emptied.and_then(|()| write_all(&lease.file, self.words_of(form).as_bytes()));
        written.map_err(self.trees.failed("write", LEASE))?;
        self.leased(chain, lease, form)
    }

    fn build(&self, chain: &str, image: &Image) -> Result<TreeMade, StoreError> {
        self.check_layers(image)?;
        let (dir, unfinished) = self.trees.make_unfinished()?;
        let built = self.fill_tree(&dir, chain, image).and_then(|made| {
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

    /// The image of a tree as ordinary files, which are links to objects: made now unless an earlier command has asked for them. They
    /// have the link counts and inode numbers of the store.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn links(&self, image: &Image, tree: &Tree) -> Result<PathBuf, StoreError> {
        self.add_to_tree(image, ROOT, |_, dir, model| {
            self.link_all(dir, image, &model).map(drop)
        })?;
        Ok(tree.links_path())
    }

    /// Makes another form of a tree beside its image, unless an earlier command has made it. `make` gets the tree's name, its directory
    /// and the image's model, and gives the form its name when it is whole.
    ///
    /// # Errors
    /// [`StoreError`].
    pub(crate) fn add_to_tree(
        &self,
        image: &Image,
        form: &str,
        make: impl FnOnce(&str, &Dir, Model) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let chain = self.tree_name(image)?;
        let name = format!("{chain}/{form}");
        if self.trees.is_there(&name)? {
            return Ok(());
        }
        // Marked: the next command clears what this one leaves if it is killed.
        let _ingest = self.ingest_at_once()?;
        let lock_name = format!("{LOCK}{chain}");
        let lock = Lock::exclusive(&self.trees, &lock_name)?;
        if !self.trees.is_there(&name)? {
            self.check_layers(image)?;
            make(&chain, &self.trees.enter(&chain)?, self.model(image)?)?;
        }
        best_effort(lock.remove(&self.trees, &lock_name));
        Ok(())
    }

    /// Applies an image's layers to each other.
    pub(crate) fn model(&self, image: &Image) -> Result<Model, StoreError> {
        let mut model = Model::new(self.owners);
        for (number, diff_id) in image.layers().iter().enumerate() {
            let dir = self.layer_dir(diff_id)?.ok_or(StoreError::NoLayer(*diff_id))?;
            let mut apply = |change: &Change, stored: Option<&Stored>| {
                let content = stored.map(|stored| (stored.key, stored.size));
                let applied = model.apply(number, change, content);
                applied.map_err(|reason| StoreError::Apply {
                    layer: *diff_id,
                    path: change.path().to_string(),
                    reason,
                })
            };
            match self.recent.take(diff_id) {
                Some(changes) => changes
                    .iter()
                    .try_for_each(|(change, stored)| apply(change, stored))?,
                None => crate::layer::changes(&dir, diff_id, apply)?,
            }
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

    /// Ids of layers that images or nodes have.
    pub(crate) fn live_layers(&self, images: &[Image]) -> Result<HashSet<Digest>, StoreError> {
        let mut live = self.layers_of_nodes()?;
        live.extend(images.iter().flat_map(Image::layers));
        Ok(live)
    }
}
