//! Decisions about images and their names.
//!
//! Adding holds the store's lock for as long as it takes, a pull for minutes; a removal cannot wait for that. So what reads names and then changes or
//! removes what they say holds a lock of its own, that of the directory `names/`, for the moment in which it decides: [`Store::decide`].
//! A command that is about to be a user of an image shares it while it looks for the image and records itself ([`Steady`]).
//!
//! A command that needs the store's lock as well takes that first.

use crate::StoreError;
use crate::error::or_damaged;
use crate::index::ImageIndex;
use crate::ingest::Ingest;
use crate::store::{IMAGES, NAMES, Store, sha256_hex};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::cell::RefCell;
use std::path::Path;
use tote_image::Digest;
use tote_sys::{Errno, LockKind, MOMENT_LOCK, lock_within};

thread_local! {
    /// Directories whose lock this thread has: a part of a decision does not wait for the whole.
    static DECIDING: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// A decision: as long as this value exists, no other command gives or takes a name, removes an image, or becomes the user of one.
#[derive(Debug)]
pub struct Decision {
    /// Lock, and the directory that has it; `None` within another decision of this thread.
    held: Option<(OwnedFd, (u64, u64))>,
}

impl Drop for Decision {
    fn drop(&mut self) {
        if let Some((_, place)) = &self.held {
            DECIDING.with_borrow_mut(|deciding| deciding.retain(|held| held != place));
        }
    }
}

impl Store {
    /// Begins a decision; waits for those of other commands.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn decide(&self) -> Result<Decision, StoreError> {
        let path = self.names.path();
        let failed = |source| StoreError::Io {
            attempt: "lock",
            path: path.to_owned(),
            source,
        };
        let dir = open(path).map_err(|errno| failed(errno.into()))?;
        let stat = rustix::fs::fstat(&dir).map_err(|errno| failed(errno.into()))?;
        let place = (stat.st_dev, stat.st_ino);
        if DECIDING.with_borrow(|deciding| deciding.contains(&place)) {
            return Ok(Decision { held: None });
        }
        lock_within(dir.as_fd(), LockKind::Exclusive, MOMENT_LOCK, path).map_err(failed)?;
        DECIDING.with_borrow_mut(|deciding| deciding.push(place));
        Ok(Decision {
            held: Some((dir, place)),
        })
    }
}

impl Ingest<'_> {
    /// Adds an image once more, or those of an index, if another command has removed what this one has added: until now it had no
    /// name, or one that the other command has taken away. The layers are there, because nothing is swept meanwhile.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] for an image that this one has not added, and others.
    pub(crate) fn keep(&self, id: &Digest) -> Result<(), StoreError> {
        if !self.store().images.is_there(&sha256_hex(id)?)? {
            return match self.add_again(id)? {
                true => Ok(()),
                false => Err(StoreError::NoImage(id.to_string())),
            };
        }
        // A damaged index can have a name as well; those that use it say what is damaged.
        for member in or_damaged(self.store().index(id))?
            .flatten()
            .iter()
            .flat_map(ImageIndex::images)
        {
            if !self.store().images.is_there(&sha256_hex(&member)?)? {
                // An index may have lost an image long ago.
                self.add_again(&member)?;
            }
        }
        Ok(())
    }
}

/// Images that stay as they are: as long as this value exists, no command decides about them.
#[derive(Debug)]
pub struct Steady {
    _lock: Option<OwnedFd>,
}

impl Steady {
    /// Waits for the decisions of other commands about the store in this directory.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn of(store: &Path) -> Result<Self, StoreError> {
        let path = store.join(NAMES);
        let taken = match open(&path) {
            // A store without names has no images.
            Err(Errno::NOENT) => return Ok(Self { _lock: None }),
            Err(errno) => Err(errno.into()),
            Ok(dir) => lock_within(dir.as_fd(), LockKind::Shared, MOMENT_LOCK, &path).map(|()| dir),
        };
        let taken = taken.map_err(|source| StoreError::Io {
            attempt: "lock",
            path,
            source,
        });
        Ok(Self { _lock: Some(taken?) })
    }

    /// Asks whether the store in this directory has an image.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn has(&self, store: &Path, image: &Digest) -> Result<bool, StoreError> {
        let path = store.join(IMAGES).join(sha256_hex(image)?);
        path.try_exists().map_err(|source| StoreError::Io {
            attempt: "look at",
            path,
            source,
        })
    }
}

fn open(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}
