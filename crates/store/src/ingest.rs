//! Adding content to the store.

use crate::StoreError;
use crate::dir::ADDING;
use crate::error::WrongLayer;
use crate::gap::Presence;
use crate::intake::{ReadBy, take_in_archive};
use crate::layer::{BLOBS, Layer};
use crate::lock::Lock;
use crate::store::{Store, sha256_hex};
use crate::stored_image::Image;
use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tote_archive::Limits;
use tote_image::{Descriptor, Digest, Reference};
use tote_sys::best_effort;

/// The right to add to the store. While any process holds one, nothing is swept away.
#[derive(Debug)]
pub struct Ingest<'a> {
    store: &'a Store,
    /// Name of the file that marks the addition as unfinished.
    mark: Option<String>,
    /// Configurations and manifests of the images that it has added, as received.
    added: Mutex<HashMap<Digest, Documents>>,
    _presence: Presence,
}

/// Configuration and manifest of an image.
type Documents = (Vec<u8>, Option<Vec<u8>>);

impl Drop for Ingest<'_> {
    fn drop(&mut self) {
        self.tell_doubts();
        self.store.objects.forget_seen();
        self.store.recent.forget();
        // The lock is still held here, so no sweep takes the mark for an abandoned one.
        if let Some(mark) = &self.mark {
            best_effort(self.store.root.unlink(mark));
        }
    }
}

/// Result of looking for a layer.
#[derive(Debug)]
pub enum Slot {
    /// The store has the layer.
    Present(Layer),
    /// The store lacks the layer. Other processes that need it wait until this value is dropped.
    Vacant(Vacancy),
}

/// The lock on a layer that is about to be added.
#[derive(Debug)]
pub struct Vacancy {
    diff_id: Digest,
    lock: Lock,
}

impl Store {
    /// Begins an addition. Waits while a sweep is running.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn ingest(&self) -> Result<Ingest<'_>, StoreError> {
        Ingest::new(self)
    }

    /// Begins to add an image as a whole: if this process is killed, the remains are garbage that the next sweep
    /// finds.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn ingest_at_once(&self) -> Result<Ingest<'_>, StoreError> {
        Ingest::marked(self)
    }
}

impl<'a> Ingest<'a> {
    /// Does what is due at the end of an addition, for a forked process that goes before the addition ends in its parent.
    pub fn tell_doubts(&self) {
        self.store.doubt_trees_of_replaced();
    }

    pub(crate) fn new(store: &'a Store) -> Result<Self, StoreError> {
        Ok(Self {
            store,
            _presence: Presence::enter(&store.root)?,
            mark: None,
            added: Mutex::default(),
        })
    }

    pub(crate) fn marked(store: &'a Store) -> Result<Self, StoreError> {
        let mut ingest = Self::new(store)?;
        let (_, mark) = store.root.create_numbered(ADDING)?;
        ingest.mark = Some(mark);
        // Done before anything is added, when there is little to write.
        store.sync(true)?;
        Ok(ingest)
    }

    pub(crate) fn store(&self) -> &'a Store {
        self.store
    }

    /// Looks for a layer. If another process is just adding it, this waits; so two pulls of one layer share the
    /// work.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn layer(&self, diff_id: &Digest) -> Result<Slot, StoreError> {
        if let Some(layer) = self.store.layer(diff_id)? {
            return Ok(Slot::Present(layer));
        }
        let lock = Lock::exclusive(&self.store.layers, &lock_name(diff_id)?)?;
        match self.store.layer(diff_id)? {
            None => Ok(Slot::Vacant(Vacancy {
                diff_id: *diff_id,
                lock,
            })),
            Some(layer) => {
                // Processes that still wait will create the file again; a sweep removes the last one.
                best_effort(lock.remove(&self.store.layers, &lock_name(diff_id)?));
                Ok(Slot::Present(layer))
            }
        }
    }

    /// Adds the layer that a slot waits for, from its uncompressed archive.
    ///
    /// # Errors
    /// [`StoreError::WrongLayer`] if the archive does not have the expected digest, and others. The layer is not
    /// added then, and a sweep removes the objects that were made of it.
    pub fn fill(
        &self,
        vacancy: Vacancy,
        input: impl Read + Send,
        limits: Limits,
    ) -> Result<Layer, StoreError> {
        let layer = self.take_in(Some(vacancy.diff_id), (input, limits, ReadBy::Thread))?;
        best_effort(
            vacancy
                .lock
                .remove(&self.store.layers, &lock_name(&layer.diff_id)?),
        );
        Ok(layer)
    }

    /// Adds a layer whose digest is not known yet.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn add_layer(&self, input: impl Read + Send, limits: Limits) -> Result<Layer, StoreError> {
        self.take_in(None, (input, limits, ReadBy::Thread))
    }

    /// Adds a layer as [`Self::add_layer`] does, from an archive whose bytes need no more than copying: no thread of its own reads
    /// them.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn add_plain_layer(&self, input: impl Read + Send, limits: Limits) -> Result<Layer, StoreError> {
        self.take_in(None, (input, limits, ReadBy::Others))
    }

    fn take_in(
        &self,
        expected: Option<Digest>,
        input: (impl Read + Send, Limits, ReadBy),
    ) -> Result<Layer, StoreError> {
        self.store.note_unsynced()?;
        let (dir, unfinished) = self.store.layers.make_unfinished()?;
        let taken = take_in_archive(self.store, &dir, expected, input);
        let moved = taken.and_then(
            |layer| match expected.filter(|expected| *expected != layer.diff_id) {
                Some(expected) => Err(StoreError::WrongLayer(Box::new(WrongLayer {
                    expected,
                    found: layer.diff_id,
                }))),
                None => self.settle(&unfinished, &layer).map(|()| layer),
            },
        );
        if moved.is_err() {
            best_effort(self.store.layers.remove_tree(&unfinished));
        }
        moved
    }

    fn settle(&self, unfinished: &str, layer: &Layer) -> Result<(), StoreError> {
        // Another process without a vacancy may have added the same layer already. A damaged one is replaced.
        if self.store.layer(&layer.diff_id)?.is_some() {
            return self.store.layers.remove_tree(unfinished);
        }
        self.store
            .put_in_place(&self.store.layers, unfinished, &sha256_hex(&layer.diff_id)?)?;
        self.store.note_unsynced()
    }

    /// Records a compressed form of a layer, as registries have it.
    ///
    /// # Errors
    /// [`StoreError`], for example if the layer is missing.
    pub fn note_blob(&self, diff_id: &Digest, blob: &Descriptor) -> Result<(), StoreError> {
        let dir = self
            .store
            .layer_dir(diff_id)?
            .ok_or(StoreError::NoLayer(*diff_id))?;
        let mut blobs = crate::layer::blobs(&dir)?;
        if blobs.iter().any(|known| known.digest == blob.digest) {
            return Ok(());
        }
        blobs.push(Descriptor::new(&blob.media_type, blob.digest, blob.size));
        let json = serde_json::to_vec(&blobs);
        let json = json.map_err(|_| StoreError::damaged(dir.path().join(BLOBS), "it cannot be written"))?;
        dir.write(BLOBS, &json)
    }

    /// Adds an image whose layers all exist: its configuration and, if known, its manifest, both as received. The
    /// manifest's blobs are recorded with the layers.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`] and others.
    pub fn image(&self, config: &[u8], manifest: Option<&[u8]>) -> Result<Image, StoreError> {
        let image = crate::image::add(self, self.store, config, manifest)?;
        let documents = (config.to_vec(), manifest.map(<[u8]>::to_vec));
        self.added().insert(image.id, documents);
        Ok(image)
    }

    /// Adds an image once more; false if this one has not added it before.
    pub(crate) fn add_again(&self, id: &Digest) -> Result<bool, StoreError> {
        let Some((config, manifest)) = self.added().get(id).cloned() else {
            return Ok(false);
        };
        crate::image::add(self, self.store, &config, manifest.as_deref()).map(|_| true)
    }

    fn added(&self) -> MutexGuard<'_, HashMap<Digest, Documents>> {
        // Each change is one insertion.
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds annotations to an image's manifest. Its id stays the same, because that is the configuration's digest.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn annotate(&self, image: &Image, annotations: &BTreeMap<String, String>) -> Result<(), StoreError> {
        crate::image::annotate(self.store, image, annotations)
    }

    /// Gives a name to an image or an index; returns the id that had the name before, if any. What this one has added is there
    /// then, whatever other commands remove meanwhile.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] for another image that is gone, and others.
    pub fn tag(&self, name: &Reference, image: &Digest) -> Result<Option<Digest>, StoreError> {
        let _decision = self.store.decide()?;
        self.keep(image)?;
        let is_index = crate::index::is_one(&self.store.images, &sha256_hex(image)?);
        crate::names::put(&self.store.names, name, (image, is_index))
    }
}

fn lock_name(diff_id: &Digest) -> Result<String, StoreError> {
    Ok(format!("{}{}", crate::store::LOCK, sha256_hex(diff_id)?))
}
