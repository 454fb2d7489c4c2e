//! How content comes into the store.

use crate::StoreError;
use crate::dir::ADDING;
use crate::error::WrongLayer;
use crate::gap::Presence;
use crate::image::Image;
use crate::intake::take_in_archive;
use crate::layer::{BLOBS, LayerSizes};
use crate::lock::Lock;
use crate::store::{Store, sha256_hex};
use std::collections::BTreeMap;
use std::io::Read;
use tote_archive::Limits;
use tote_image::{Descriptor, Digest, Reference};
use tote_sys::best_effort;

/// The right to add to the store. As long as one lives, in whichever process, nothing is swept away.
#[derive(Debug)]
pub struct Ingest<'a> {
    store: &'a Store,
    /// The file that says that what is added is nothing yet.
    mark: Option<String>,
    _presence: Presence,
}

impl Drop for Ingest<'_> {
    fn drop(&mut self) {
        self.store.doubt_trees_of_replaced();
        // The lock is held still: no sweep takes the mark for one that was left.
        if let Some(mark) = &self.mark {
            best_effort(self.store.root.unlink(mark));
        }
    }
}

/// A layer that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The digest of its uncompressed archive.
    pub diff_id: Digest,
    /// How large it is.
    pub sizes: LayerSizes,
}

/// What a layer's place is like.
#[derive(Debug)]
pub enum Slot {
    /// The layer is there.
    Present(Layer),
    /// It is not, and whoever else wants it waits for the holder of this.
    Vacant(Vacancy),
}

/// The lock on a layer that is to come.
#[derive(Debug)]
pub struct Vacancy {
    diff_id: Digest,
    lock: Lock,
}

impl<'a> Ingest<'a> {
    pub(crate) fn new(store: &'a Store) -> Result<Self, StoreError> {
        Ok(Self {
            store,
            _presence: Presence::enter(&store.root)?,
            mark: None,
        })
    }

    pub(crate) fn marked(store: &'a Store) -> Result<Self, StoreError> {
        let mut ingest = Self::new(store)?;
        let (_, mark) = store.root.create_numbered(ADDING)?;
        ingest.mark = Some(mark);
        // Before something is written: then it has little to write.
        store.sync(true)?;
        Ok(ingest)
    }

    pub(crate) fn store(&self) -> &'a Store {
        self.store
    }

    /// Looks for a layer. When another process is just getting it, this waits; so two pulls of one layer share the work.
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
                // Those who still wait make the file again; a sweep removes the last one.
                best_effort(lock.remove(&self.store.layers, &lock_name(diff_id)?));
                Ok(Slot::Present(layer))
            }
        }
    }

    /// Takes in the layer that a slot waits for, from its uncompressed archive.
    ///
    /// # Errors
    /// [`StoreError::WrongLayer`] when the archive is not the one that was expected, and others; no layer is there then,
    /// and objects that came of it wait for a sweep.
    pub fn fill(
        &self,
        vacancy: Vacancy,
        input: impl Read + Send,
        limits: Limits,
    ) -> Result<Layer, StoreError> {
        let layer = self.take_in(Some(vacancy.diff_id), input, limits)?;
        best_effort(
            vacancy
                .lock
                .remove(&self.store.layers, &lock_name(&layer.diff_id)?),
        );
        Ok(layer)
    }

    /// Takes in a layer whose digest nobody knows yet.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn add_layer(&self, input: impl Read + Send, limits: Limits) -> Result<Layer, StoreError> {
        self.take_in(None, input, limits)
    }

    fn take_in(
        &self,
        expected: Option<Digest>,
        input: impl Read + Send,
        limits: Limits,
    ) -> Result<Layer, StoreError> {
        self.store.note_unsynced()?;
        let (dir, unfinished) = self.store.layers.make_unfinished()?;
        let taken = take_in_archive(self.store, &dir, expected, input, limits);
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
        // Somebody without a vacancy was faster, and both are the same; but one that is damaged makes room.
        if self.store.layer(&layer.diff_id)?.is_some() {
            return self.store.layers.remove_tree(unfinished);
        }
        self.store
            .put_in_place(&self.store.layers, unfinished, &sha256_hex(&layer.diff_id)?)?;
        self.store.note_unsynced()
    }

    /// Notes a compressed form of a layer, as registries have it.
    ///
    /// # Errors
    /// [`StoreError`], of a layer that is not there for one.
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

    /// Adds an image, all of whose layers are there: its configuration and, where one is known, its manifest, both as
    /// received. The blobs of the manifest are noted with the layers.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`] and others.
    pub fn image(&self, config: &[u8], manifest: Option<&[u8]>) -> Result<Image, StoreError> {
        crate::image::add(self, self.store, config, manifest)
    }

    /// Adds annotations to an image's manifest. Its id is that of its configuration, and stays what it is.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn annotate(&self, image: &Image, annotations: &BTreeMap<String, String>) -> Result<(), StoreError> {
        crate::image::annotate(self.store, image, annotations)
    }

    /// Gives an image or an index a name, which another may have had until now; that one's id is given back.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tag(&self, name: &Reference, image: &Digest) -> Result<Option<Digest>, StoreError> {
        let is_index = crate::index::is_one(&self.store.images, &sha256_hex(image)?);
        crate::names::put(&self.store.names, name, (image, is_index))
    }
}

fn lock_name(diff_id: &Digest) -> Result<String, StoreError> {
    Ok(format!("{}{}", crate::store::LOCK, sha256_hex(diff_id)?))
}
