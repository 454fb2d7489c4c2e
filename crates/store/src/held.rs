//! Objects that trees need, beside those that layers need.
//!
//! The contents of a tree in a file (`image.erofs`), and of directories without `contents/`, are the objects themselves, without
//! links of the tree's own. A layer keeps its objects, and a tree usually has an image whose layers are there. But a container keeps its tree without
//! the image, and opens most of its files later. So a sweep asks each tree whose layers do not answer for it.
//!
//! The invariant, which holds at every moment and so after a kill: **an object is removed only under the store's
//! exclusive lock, and only if neither a layer nor a tree needs it**. No tree can begin to need another object while that
//! lock is held, because it is made under the shared one, and its file never changes. A tree that is in use afterwards was
//! either in `trees/` when its objects were asked for, or was in the trash and in use already: a tree without a user
//! has left `trees/` before, unless it has an image, and no command takes a tree out of the trash.

use crate::StoreError;
use crate::dir::Dir;
use crate::erofs;
use crate::error::or_damaged;
use crate::inodes;
use crate::key::Key;
use crate::layer;
use crate::leased::LEASE;
use crate::lock::Lock;
use crate::store::{Store, sha256_hex};
use crate::stored_image::Image;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use std::collections::HashSet;
use tote_image::Digest;

impl Store {
    /// Collects the keys of all objects that layers and trees need. `None` if it cannot be known, because a tree in use is
    /// damaged: all objects stay until its container ends.
    pub(crate) fn needed(&self) -> Result<Option<HashSet<Key>>, StoreError> {
        let mut needed = HashSet::new();
        let mut whole = HashSet::new();
        // By now all layers have an image. A layer with a damaged record needs none: it is added again before its next
        // use.
        for name in self.layers.names()? {
            if !name.starts_with('.') {
                let layer = match self.layers.enter(&name) {
                    Err(error) if error.is_no_directory() => continue,
                    entered => entered?,
                };
                if let Some(contents) = or_damaged(layer::contents(&layer))? {
                    needed.extend(contents.iter().map(|stored| stored.key));
                    whole.insert(name);
                }
            }
        }
        let answered = self.answered(&whole)?;
        for name in self.trees.names()? {
            if !name.starts_with('.')
                && !answered.contains(&name)
                && !self.add_objects_of(&self.trees, &name, &mut needed)?
            {
                return Ok(None);
            }
        }
        for name in self.trash.names()? {
            if !is_leased(&self.trash, &name)? {
                continue;
            }
            match self.add_objects_of(&self.trash, &name, &mut needed) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                // Another process has the lease, because it removes the tree.
                Err(error) if error.errno() == Some(Errno::NOENT) && !is_used(&self.trash, &name)? => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Some(needed))
    }

    /// Names of the trees whose layers are all among these.
    fn answered(&self, layers: &HashSet<String>) -> Result<HashSet<String>, StoreError> {
        let is_whole = |layer: &Digest| sha256_hex(layer).is_ok_and(|name| layers.contains(&name));
        let images = self.images()?;
        let whole = images
            .iter()
            .filter(|image: &&Image| image.layers().iter().all(is_whole));
        whole.map(|image| self.tree_name(image)).collect()
    }

    /// Adds the keys of the objects that a tree needs. False if the tree is in use and does not say which.
    fn add_objects_of(&self, dir: &Dir, name: &str, needed: &mut HashSet<Key>) -> Result<bool, StoreError> {
        let tree = match dir.enter(name) {
            Err(error) if error.is_no_directory() || error.errno() == Some(Errno::NOENT) => return Ok(true),
            entered => entered?,
        };
        match or_damaged(objects_of(&tree))? {
            Some(keys) => {
                needed.extend(keys);
                Ok(true)
            }
            None => Ok(!is_leased(dir, name)?),
        }
    }
}

/// Keys of the objects that a tree needs without having links to them.
fn objects_of(tree: &Dir) -> Result<Vec<Key>, StoreError> {
    let Some(image) = erofs::open(tree)? else {
        return inodes::objects_of(tree);
    };
    let mut keys = Vec::new();
    let all = image.for_each(|file| {
        let object = erofs::object(&image, file)?;
        keys.extend(object.as_deref().and_then(Key::of_name));
        Ok(())
    });
    all.map_err(|error| erofs::unreadable(tree.path(), error))?;
    Ok(keys)
}

/// True if a process uses a tree, and none removes it: users share the lease.
fn is_used(dir: &Dir, name: &str) -> Result<bool, StoreError> {
    let lease = format!("{name}/{LEASE}");
    match Lock::of_present(dir, &lease, FlockOperation::NonBlockingLockShared) {
        Err(Errno::WOULDBLOCK) | Ok(None) => Ok(false),
        // A removal that was broken off leaves the lease free.
        Ok(Some(lock)) => {
            drop(lock);
            is_leased(dir, name)
        }
        Err(errno) => Err(dir.failed("lock", lease)(errno)),
    }
}

/// True if a process uses a tree, or removes it.
fn is_leased(dir: &Dir, name: &str) -> Result<bool, StoreError> {
    let lease = format!("{name}/{LEASE}");
    match Lock::of_present(dir, &lease, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(true),
        Ok(_) => Ok(false),
        Err(errno) => Err(dir.failed("lock", lease)(errno)),
    }
}
