//! Removal of images, and of everything that is not needed any more.
//!
//! Removing an image only puts it aside: names and records are removed, its tree is renamed. A sweep then removes
//! the bytes: it marks the objects that images need and removes the rest. It excludes all processes that add
//! something. So it asks for its lock without waiting, and does the longest work, emptying the trash, without the
//! lock. With a deadline it stops in between and leaves the rest to the next one.

use crate::StoreError;
use crate::dir::{ADDING, Dir, UNFINISHED, numbered};
use crate::doomed;
use crate::error::or_damaged;
use crate::gap::{Gap, STORE, wait_for_gap};
use crate::layer;
use crate::leased::LEASE;
use crate::lock::Lock;
use crate::patience::Patience;
use crate::removal::remove;
use crate::store::{LOCK, Store, sha256_hex};
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use tote_image::{Digest, Reference};

/// Name of the file that exists if there may be something to sweep.
const GARBAGE: &str = "garbage";

/// Result of removing an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Names of the image.
    pub names: Vec<Reference>,
    /// Layers that no other image has.
    pub layers: Vec<Digest>,
    /// True if a container uses its tree, which stays until the container ends.
    pub in_use: bool,
}

/// Result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Bytes of removed contents.
    pub bytes: u64,
    /// Number of removed objects.
    pub objects: u64,
    /// Number of removed layers.
    pub layers: u64,
    /// True if nothing is left to sweep.
    pub finished: bool,
}

impl Swept {
    /// Counts a removed object of that size.
    fn count(&mut self, size: u64) {
        self.objects += 1;
        self.bytes += size;
    }
}

impl Store {
    /// Waits until no process adds anything to the store, and keeps others from adding as long as the result is held. A
    /// caller that removes images because they have no name must hold it, or it removes those that a build, a load or a
    /// pull is about to name. [`Store::sweep`] and [`Store::ingest`] would wait for it in vain.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn gap(&self) -> Result<Gap, StoreError> {
        Gap::wait(&self.root)
    }

    /// Removes an image or an index with all its names. The next sweep removes the objects and layers that only it
    /// needed; images of an index stay.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] and others.
    pub fn remove_image(&self, id: &Digest) -> Result<Removed, StoreError> {
        if !self.images.is_there(&sha256_hex(id)?)? {
            return Err(StoreError::NoImage(id.to_string()));
        }
        // The layers of a damaged image are unknown; the sweep finds them. An index has no layers.
        let image = or_damaged(self.image(id))?;
        let mut removed = Removed::default();
        self.note_garbage()?;
        for (name, named) in self.names()? {
            if named == *id {
                self.untag(&name)?;
                removed.names.push(name);
            }
        }
        self.discard(&self.images, &sha256_hex(id)?)?;
        let Some(image) = image else {
            return Ok(removed);
        };
        let others = self.images()?;
        let live = self.live_layers(&others)?;
        removed.layers = image
            .layers()
            .iter()
            .filter(|layer| !live.contains(layer))
            .copied()
            .collect();
        if others.iter().all(|other| other.layers() != image.layers()) {
            removed.in_use = !self.retire_tree(&self.tree_name(&image)?)?;
        }
        Ok(removed)
    }

    /// Puts an entry into the trash; a missing one is accepted.
    pub(crate) fn discard(&self, dir: &Dir, name: &str) -> Result<(), StoreError> {
        loop {
            let place = numbered(UNFINISHED);
            let moved = match dir.rename_to_free(name, &self.trash, &place) {
                // The file system cannot check whether the place is free. An empty directory can be replaced by a
                // directory.
                Err(Errno::INVAL) => {
                    let made = self.trash.make(&place, 0o700);
                    made.and_then(|()| dir.rename(name, &self.trash, &place))
                }
                moved => moved,
            };
            match moved {
                Ok(()) => return Ok(()),
                // A killed process of the same number left an entry there; or a sweep removed the place.
                Err(Errno::EXIST) => {}
                Err(Errno::NOENT) if dir.has(name) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) if tote_sys::is_full(errno) => return remove_in_place(dir, name),
                Err(errno) => return Err(dir.failed("remove", name)(errno)),
            }
        }
    }

    /// True if there may be something to sweep: something was removed since the last complete sweep.
    #[must_use]
    pub fn has_garbage(&self) -> bool {
        self.unnoted.load(Ordering::Relaxed) || self.root.has(GARBAGE)
    }

    /// Records that there is something to sweep. On a full disk, which a removal must be able to empty, only this
    /// process knows that, until another removal records it.
    pub(crate) fn note_garbage(&self) -> Result<(), StoreError> {
        if self.root.has(GARBAGE) {
            return Ok(());
        }
        match self.root.create(GARBAGE, 0o600) {
            Ok(_) | Err(Errno::EXIST) => Ok(()),
            Err(errno) if tote_sys::is_full(errno) => {
                self.unnoted.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(errno) => Err(self.root.failed("make", GARBAGE)(errno)),
        }
    }

    /// True if a process is adding an image, or was killed while it did. Only a sweep can tell which.
    #[must_use]
    pub fn has_marks(&self) -> bool {
        self.root
            .names()
            .is_ok_and(|names| names.iter().any(|name| name.starts_with(ADDING)))
    }

    /// Replaces marks of killed processes by a record that there is something to sweep, which stays until a sweep
    /// is complete. No other process is adding here, because the lock is held.
    fn heed_marks(&self) -> Result<(), StoreError> {
        let mut marks = self.root.names()?;
        marks.retain(|name| name.starts_with(ADDING));
        if !marks.is_empty() {
            self.note_garbage()?;
        }
        for mark in marks {
            self.root
                .unlink(&mark)
                .map_err(self.root.failed("remove", mark))?;
        }
        Ok(())
    }

    /// Removes everything that no image needs. `None` if another process is adding something and `patience` does
    /// not allow waiting.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn sweep(&self, patience: Patience) -> Result<Option<Swept>, StoreError> {
        let mut swept = Swept::default();
        // The trash is emptied here too, so that a short sweep makes some progress.
        self.empty_trash(patience)?;
        let lock = match patience {
            Patience::Endless => wait_for_gap(&self.root)?,
            Patience::Until(_) => match Lock::try_exclusive(&self.root, STORE)? {
                Ok(lock) => lock,
                Err(_) => return Ok(None),
            },
        };
        self.heed_marks()?;
        // Unfinished trees go first: a further copy of an object is kept as long as a tree has it, even an
        // unfinished one.
        for dir in [
            &self.root,
            &self.objects.dir,
            &self.names,
            &self.layers,
            &self.images,
            &self.trees,
        ] {
            remove_unfinished(dir)?;
        }
        if let Some(nodes) = self.nodes_dir()? {
            remove_unfinished(&nodes)?;
        }
        for name in self.trees.names()? {
            // A tree may get its links to objects later than the rest.
            if let Ok(tree) = self.trees.enter(&name) {
                remove_unfinished(&tree)?;
            }
        }
        let mut finished = self.sweep_records(patience, &mut swept)?;
        // For the same reason, an endless sweep now empties the trash once more. A short sweep leaves the copies of
        // the trees that it has just put there to the next one.
        finished &= match patience {
            Patience::Endless => self.empty_trash(patience)?,
            Patience::Until(_) => self.trash.names()?.is_empty(),
        };
        finished &= self.sweep_objects(patience, &mut swept)?;
        drop(lock);
        finished &= self.empty_trash(patience)?;
        if patience == Patience::Endless {
            self.sync(false)?;
        }
        if finished {
            self.unnoted.store(false, Ordering::Relaxed);
            self.root
                .unlink(GARBAGE)
                .map_err(self.root.failed("remove", GARBAGE))?;
        }
        swept.finished = finished;
        Ok(Some(swept))
    }

    /// Removes layers of no image and no node, trees of no image, and names without one. Returns whether all could be removed. A damaged
    /// image only keeps its own record: it cannot be used until it is added again, with its layers.
    fn sweep_records(&self, patience: Patience, swept: &mut Swept) -> Result<bool, StoreError> {
        let images = self.images()?;
        for (name, id) in self.names()? {
            if !self.images.is_there(&sha256_hex(&id)?)? {
                self.untag(&name)?;
            }
        }
        if patience == Patience::Endless {
            // A short sweep leaves damaged names, so that `verify` can list them.
            for (file, _) in crate::names::damaged(&self.names)? {
                self.names
                    .unlink(&file)
                    .map_err(self.names.failed("remove", file))?;
            }
        }
        let layers: HashSet<String> = self.live_layers(&images)?.iter().map(Digest::hex).collect();
        for name in self.layers.names()? {
            if !name.starts_with('.') && !layers.contains(&name) {
                self.discard(&self.layers, &name)?;
                swept.layers += 1;
            }
        }
        let trees = images
            .iter()
            .map(|image| self.tree_name(image))
            .collect::<Result<HashSet<_>, _>>()?;
        let mut all = true;
        for name in self.trees.names()? {
            if !name.starts_with('.') && !trees.contains(&name) {
                all &= self.retire_tree(&name)?;
            }
        }
        Ok(all)
    }

    fn sweep_objects(&self, patience: Patience, swept: &mut Swept) -> Result<bool, StoreError> {
        let Some(needed) = self.needed()? else {
            return Ok(false);
        };
        let mut shards = self.objects.dir.names()?;
        shards.retain(|shard| !shard.starts_with('.'));
        // Start with a different shard each time, so that short sweeps reach all of them in the end.
        let start = std::process::id() as usize % shards.len().max(1);
        shards.rotate_left(start);
        if patience == Patience::Endless {
            doomed::remove_all(&self.objects.dir, &shards, &needed, &mut |size| swept.count(size))?;
            return Ok(true);
        }
        for shard in &shards {
            if patience.is_over() {
                return Ok(false);
            }
            for object in doomed::list(&self.objects.dir, shard, &needed)? {
                swept.count(object.remove(&self.objects.dir)?);
            }
        }
        Ok(true)
    }

    fn empty_trash(&self, patience: Patience) -> Result<bool, StoreError> {
        let mut all = true;
        for name in self.trash.names()? {
            let lease = format!("{name}/{LEASE}");
            let free = Lock::of_present(&self.trash, &lease, FlockOperation::NonBlockingLockExclusive);
            if let Err(Errno::WOULDBLOCK) = free {
                // A damaged tree that a container still uses.
                all = false;
                continue;
            }
            if !remove(&self.trash, &name, patience)? {
                return Ok(false);
            }
        }
        Ok(all)
    }
}

/// Removes a record or a tree in place, because there is no room to move it. The file that defines it goes first,
/// so that the rest is not taken for a complete one.
fn remove_in_place(dir: &Dir, name: &str) -> Result<(), StoreError> {
    for first in [LEASE, layer::SIZES, crate::image::CONFIG, crate::index::INDEX] {
        let first = format!("{name}/{first}");
        match dir.unlink(&first) {
            Ok(()) | Err(Errno::NOTDIR) => {}
            Err(errno) => return Err(dir.failed("remove", first)(errno)),
        }
    }
    remove(dir, name, Patience::Endless).map(|_| ())
}

/// Removes unfinished files of killed processes, and lock files without a holder. No other process is adding here,
/// because the lock is held.
fn remove_unfinished(dir: &Dir) -> Result<(), StoreError> {
    for name in dir.names()? {
        if name.starts_with(UNFINISHED) {
            remove(dir, &name, Patience::Endless)?;
        } else if name.starts_with(LOCK) {
            dir.unlink(&name).map_err(dir.failed("remove", name))?;
        }
    }
    Ok(())
}
