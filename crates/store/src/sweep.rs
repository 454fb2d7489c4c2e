//! What nobody needs any more, and its end.
//!
//! Removing an image only takes it out of the way: names and records go, its tree is renamed. The bytes are removed by a
//! sweep, which marks what the images need and removes the rest. A sweep excludes all who add something, so it asks for
//! its lock without waiting, and what takes long, emptying the trash, is done without the lock. With a deadline it stops
//! in between and leaves the rest to the next one.

use crate::StoreError;
use crate::crew;
use crate::dir::{ADDING, Dir, UNFINISHED, is_full, numbered};
use crate::gap::{STORE, wait_for_gap};
use crate::key::Key;
use crate::known::or_damaged;
use crate::layer;
use crate::lock::Lock;
use crate::removal::remove;
use crate::store::{LOCK, Store, sha256_hex};
use crate::trees::LEASE;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;
use tote_image::{Digest, Reference};

/// Says that there may be something to sweep.
const GARBAGE: &str = "garbage";

/// What went with an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Its names.
    pub names: Vec<Reference>,
    /// Layers that no other image has.
    pub layers: Vec<Digest>,
    /// Whether a container uses its tree, which stays until then.
    pub in_use: bool,
}

/// How much time a sweep may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Waits until nobody adds anything, and then finishes.
    Endless,
    /// Does not wait, and stops at that moment.
    Until(Instant),
}

impl Patience {
    pub(crate) fn is_over(self) -> bool {
        matches!(self, Self::Until(end) if Instant::now() >= end)
    }
}

/// What a sweep has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Bytes of contents that are gone.
    pub bytes: u64,
    /// Objects.
    pub objects: u64,
    /// Layers.
    pub layers: u64,
    /// Whether nothing is left to sweep.
    pub finished: bool,
}

impl Swept {
    /// One more object, of that size.
    fn count(&mut self, size: u64) {
        self.objects += 1;
        self.bytes += size;
    }
}

impl Store {
    /// Takes an image or an index away with all its names. What it alone needed is removed by the next sweep; images of an
    /// index stay.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] and others.
    pub fn remove_image(&self, id: &Digest) -> Result<Removed, StoreError> {
        if !self.images.is_there(&sha256_hex(id)?)? {
            return Err(StoreError::NoImage(id.to_string()));
        }
        // A damaged one cannot say what its layers were; the sweep finds them. An index has none.
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
        let live = self.live_layers(&others);
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

    /// Puts something into the trash; that it is gone is enough.
    pub(crate) fn discard(&self, dir: &Dir, name: &str) -> Result<(), StoreError> {
        loop {
            let place = numbered(UNFINISHED);
            let moved = match dir.rename_to_free(name, &self.trash, &place) {
                // A file system that cannot tell whether a place is free. A directory replaces an empty one.
                Err(Errno::INVAL) => {
                    let made = self.trash.make(&place, 0o700);
                    made.and_then(|()| dir.rename(name, &self.trash, &place))
                }
                moved => moved,
            };
            match moved {
                Ok(()) => return Ok(()),
                // What a killed process of the same number has put there; or a sweep took the place away.
                Err(Errno::EXIST) => {}
                Err(Errno::NOENT) if dir.has(name) => {}
                Err(Errno::NOENT) => return Ok(()),
                Err(errno) if is_full(errno) => return remove_in_place(dir, name),
                Err(errno) => return Err(dir.failed("remove", name)(errno)),
            }
        }
    }

    /// Whether there may be something to sweep: something was removed since the last sweep that came to its end.
    #[must_use]
    pub fn has_garbage(&self) -> bool {
        self.unnoted.load(Ordering::Relaxed) || self.root.has(GARBAGE)
    }

    /// Notes that there is something to sweep. On a full disk only this process knows that, and whoever removes something
    /// after it: to remove something is how a full disk is emptied.
    fn note_garbage(&self) -> Result<(), StoreError> {
        if self.root.has(GARBAGE) {
            return Ok(());
        }
        match self.root.create(GARBAGE, 0o600) {
            Ok(_) | Err(Errno::EXIST) => Ok(()),
            Err(errno) if is_full(errno) => {
                self.unnoted.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(errno) => Err(self.root.failed("make", GARBAGE)(errno)),
        }
    }

    /// Whether somebody adds an image, or was killed before it was one. Only a sweep can tell which.
    #[must_use]
    pub fn has_marks(&self) -> bool {
        self.root
            .names()
            .is_ok_and(|names| names.iter().any(|name| name.starts_with(ADDING)))
    }

    /// Marks of the dead, for whoever adds something is excluded: from now on there is something to sweep, until a sweep
    /// comes to its end.
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

    /// Removes what no image needs. `None` where somebody is adding something and there is no patience to wait.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn sweep(&self, patience: Patience) -> Result<Option<Swept>, StoreError> {
        let mut swept = Swept::default();
        // Also before, so that a sweep without much time comes forward somewhere.
        self.empty_trash(patience)?;
        let lock = match patience {
            Patience::Endless => wait_for_gap(&self.root)?,
            Patience::Until(_) => match Lock::try_exclusive(&self.root, STORE)? {
                Some(lock) => lock,
                None => return Ok(None),
            },
        };
        self.heed_marks()?;
        // First: further copies of objects are of use for as long as a tree has them, an unfinished one, too.
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
        for name in self.trees.names()? {
            // A tree may get its links to objects later than the rest.
            if let Ok(tree) = self.trees.enter(&name) {
                remove_unfinished(&tree)?;
            }
        }
        let mut finished = self.sweep_records(patience, &mut swept)?;
        // For the same reason, a sweep that may take long empties the trash once more, and another one leaves the copies of
        // what it has just put there to the next.
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

    /// Layers and trees of no image, and names of none. Says whether it could do without them all. An image that is damaged
    /// keeps nothing but its own record: nobody can use it until it has come once more, with its layers.
    fn sweep_records(&self, patience: Patience, swept: &mut Swept) -> Result<bool, StoreError> {
        let images = self.images()?;
        for (name, id) in self.names()? {
            if !self.images.is_there(&sha256_hex(&id)?)? {
                self.untag(&name)?;
            }
        }
        if patience == Patience::Endless {
            // Not by a sweep of a moment, so that `verify` can say which names they were.
            for (file, _) in crate::names::damaged(&self.names)? {
                self.names
                    .unlink(&file)
                    .map_err(self.names.failed("remove", file))?;
            }
        }
        let layers: HashSet<String> = self.live_layers(&images).iter().map(Digest::hex).collect();
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

    /// Keys of all objects that layers need; all layers have an image by now. One whose record of them is damaged has none:
    /// it is made again before it is used.
    fn needed(&self) -> Result<HashSet<Key>, StoreError> {
        let mut needed = HashSet::new();
        for name in self.layers.names()? {
            if !name.starts_with('.') {
                let layer = match self.layers.enter(&name) {
                    // Whoever needs it makes it again.
                    Err(error) if error.is_no_directory() => continue,
                    entered => entered?,
                };
                let contents = or_damaged(layer::contents(&layer))?;
                needed.extend(contents.iter().flatten().map(|stored| stored.key));
            }
        }
        Ok(needed)
    }

    fn sweep_objects(&self, patience: Patience, swept: &mut Swept) -> Result<bool, StoreError> {
        let needed = self.needed()?;
        let mut shards = self.objects.dir.names()?;
        shards.retain(|shard| !shard.starts_with('.'));
        // Not always the same first, so that short sweeps come round, too.
        let start = std::process::id() as usize % shards.len().max(1);
        shards.rotate_left(start);
        if let Patience::Until(_) = patience {
            for shard in &shards {
                if patience.is_over() {
                    return Ok(false);
                }
                self.sweep_shard(shard, &needed, &mut |size| swept.count(size))?;
            }
            return Ok(true);
        }
        let all = Mutex::new(*swept);
        crew::for_each(&shards, |shard| {
            let mut own = Swept::default();
            self.sweep_shard(shard, &needed, &mut |size| own.count(size))?;
            let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
            all.objects += own.objects;
            all.bytes += own.bytes;
            Ok::<_, StoreError>(())
        })?;
        *swept = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(true)
    }

    /// Removes the objects of a directory that nobody needs; `removed` is told the size of each.
    fn sweep_shard(
        &self,
        shard: &str,
        needed: &HashSet<Key>,
        removed: &mut dyn FnMut(u64),
    ) -> Result<(), StoreError> {
        let dir = match self.objects.dir.enter(shard) {
            Err(error) if error.is_no_directory() => {
                let objects = &self.objects.dir;
                return objects.unlink(shard).map_err(objects.failed("remove", shard));
            }
            entered => entered?,
        };
        for name in dir.names()? {
            let keep = match Key::parse(shard, &name) {
                Some((key, 0)) => needed.contains(&key),
                // A further copy is of use as long as a tree has it.
                Some((key, _)) => {
                    let stat = dir.stat(&name).map_err(dir.failed("look at", &name))?;
                    needed.contains(&key) && stat.st_nlink > 1
                }
                None => false,
            };
            if !keep {
                let size = dir
                    .stat(&name)
                    .map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or_default());
                dir.unlink(&name).map_err(dir.failed("remove", name))?;
                removed(size);
            }
        }
        Ok(())
    }

    fn empty_trash(&self, patience: Patience) -> Result<bool, StoreError> {
        let mut all = true;
        for name in self.trash.names()? {
            let lease = format!("{name}/{LEASE}");
            let free = Lock::of_present(&self.trash, &lease, FlockOperation::NonBlockingLockExclusive);
            if let Err(Errno::WOULDBLOCK) = free {
                // A damaged tree that a container still has.
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

/// Removes a record or a tree where it is, for there is no room to move it. First goes the file without which it is none, so
/// that nobody takes what is left of it for the whole.
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

/// What killed processes left half done, and locks that nobody holds: whoever adds something is excluded.
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
