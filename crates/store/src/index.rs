//! Indexes in `images/`: images for several platforms under one id, and so under one name.
//!
//! Each platform's image is an ordinary image of the store. An index is a directory with a document in OCI's
//! format, `index.json`, whose digest is the index's id. Its entries are of two kinds:
//!
//! - An image of the store: a descriptor of the image's *configuration* ([`OCI_CONFIG`]), with the platform.
//!   Manifest and compressed layers at a registry are unknown until the image is pushed.
//! - Any other content, for example an attestation: a descriptor of a manifest. That document and its blobs are
//!   files beside `index.json`, named by their digests in hexadecimal. If the annotation
//!   [`tote_image::REFERENCE_DIGEST`] names the image that the entry describes, it holds that image's id in the
//!   store.

use crate::StoreError;
use crate::dir::Dir;
use crate::error::or_damaged;
use crate::image;
use crate::ingest::Ingest;
use crate::store::{Store, sha256, sha256_hex};
use tote_image::media_type::OCI_CONFIG;
use tote_image::{Descriptor, Digest, Index, MAX_MANIFEST_BYTES, Manifest, Platform, Raw, Read as _};

pub(crate) const INDEX: &str = "index.json";

/// Maximum size in bytes of a document beside an index: lists of an image's content are long.
const MAX_DOCUMENT: u64 = 64 << 20;

/// Images for several platforms under one id.
#[derive(Clone, Debug)]
pub struct ImageIndex {
    /// Digest of the index as the store has it.
    pub id: Digest,
    /// Entries: images of the store by their configurations, and other documents by their manifests.
    pub index: Index,
}

impl ImageIndex {
    /// Iterates over the entries that are images of the store.
    pub fn entries(&self) -> impl Iterator<Item = &Descriptor> {
        self.index.manifests.iter().filter(|entry| is_image(entry))
    }

    /// Iterates over the ids of its images, in order.
    pub fn images(&self) -> impl Iterator<Item = Digest> {
        self.entries().map(|entry| entry.digest)
    }

    /// True if the index contains the image.
    #[must_use]
    pub fn has(&self, image: &Digest) -> bool {
        self.images().any(|own| own == *image)
    }

    /// Selects the best image among those that the platform means.
    #[must_use]
    pub fn select(&self, wanted: &Platform) -> Option<Digest> {
        let meant = self.entries().filter_map(|entry| {
            let platform = entry.platform.as_ref()?;
            let rank = wanted.rank(platform).filter(|_| wanted.means(platform))?;
            Some((rank, entry.digest))
        });
        meant.min_by_key(|(rank, _)| *rank).map(|(_, image)| image)
    }

    /// Selects the default image: the one that runs best on this machine, or else the first.
    #[must_use]
    pub fn usual(&self) -> Option<Digest> {
        let here = Platform::host();
        let ranked = self.entries().map(|entry| {
            let rank = entry.platform.as_ref().and_then(|platform| here.rank(platform));
            (rank.unwrap_or(u32::MAX), entry.digest)
        });
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, image)| image)
    }
}

/// True if an entry of an index is an image of the store.
fn is_image(entry: &Descriptor) -> bool {
    entry.media_type == OCI_CONFIG
}

impl Store {
    /// Returns the index of that id; `None` if the id is an image's.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] if the id is unknown, [`StoreError::Damaged`] and [`StoreError::Io`].
    pub fn index(&self, id: &Digest) -> Result<Option<ImageIndex>, StoreError> {
        let dir = image::dir(self, id)?;
        let Some(bytes) = dir.read(INDEX, MAX_MANIFEST_BYTES as u64 + 1)? else {
            return Ok(None);
        };
        if sha256(&bytes) != *id {
            return Err(StoreError::damaged(
                dir.path().join(INDEX),
                "it is not what its digest says",
            ));
        }
        let index = Index::read(&bytes).map_err(StoreError::Manifest)?;
        Ok(Some(ImageIndex { id: *id, index }))
    }

    /// Lists all indexes, in the order of their ids.
    ///
    /// # Errors
    /// [`StoreError::Io`]; damaged indexes are left out.
    pub fn indexes(&self) -> Result<Vec<ImageIndex>, StoreError> {
        let mut ids = image::ids(self)?;
        ids.sort();
        let mut indexes = Vec::new();
        for id in ids {
            match or_damaged(self.index(&id)) {
                // Another command has just removed the index.
                Err(StoreError::NoImage(_)) => {}
                found => indexes.extend(found?.flatten()),
            }
        }
        Ok(indexes)
    }

    /// Returns the image for an id: the id itself if it is an image's; for an index the image for `platform`, or
    /// without one the image that is best for this machine. `None` if the index has no such image.
    ///
    /// # Errors
    /// Those of [`Store::index`].
    pub fn image_of(&self, id: &Digest, platform: Option<&Platform>) -> Result<Option<Digest>, StoreError> {
        Ok(match self.index(id)? {
            None => Some(*id),
            Some(index) => match platform {
                Some(platform) => index.select(platform),
                None => index.usual(),
            },
        })
    }

    /// Returns a document that is stored beside an index: a manifest that the index names, or a blob of that
    /// manifest.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if it is missing or does not have its digest, and [`StoreError::Io`].
    pub fn document(&self, index: &Digest, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let dir = image::dir(self, index)?;
        let name = sha256_hex(digest)?;
        match dir.read(&name, MAX_DOCUMENT + 1)? {
            Some(bytes) if sha256(&bytes) == *digest => Ok(bytes),
            _ => Err(StoreError::damaged(
                dir.path().join(name),
                "it is not what its digest says",
            )),
        }
    }

    /// True if all that an index names exists: its images, and its documents with their blobs.
    pub(crate) fn is_whole_index(&self, index: &ImageIndex) -> Result<bool, StoreError> {
        for entry in &index.index.manifests {
            let is_there = if is_image(entry) {
                self.images.has(&sha256_hex(&entry.digest)?)
            } else {
                or_damaged(self.documents_of(&index.id, entry))?.is_some()
            };
            if !is_there {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns a manifest beside an index, and the blobs that it names.
    ///
    /// # Errors
    /// Those of [`Store::document`], and [`StoreError::Manifest`].
    pub fn documents_of(
        &self,
        index: &Digest,
        entry: &Descriptor,
    ) -> Result<(Raw<Manifest>, Vec<Vec<u8>>), StoreError> {
        let manifest = self.document(index, &entry.digest)?;
        let manifest = Raw::<Manifest>::read(manifest).map_err(StoreError::Manifest)?;
        let value = manifest.value();
        let mut blobs = Vec::new();
        for blob in [&value.config].into_iter().chain(&value.layers) {
            blobs.push(self.document(index, &blob.digest)?);
        }
        Ok((manifest, blobs))
    }
}

impl Ingest<'_> {
    /// Adds an index with entries in this module's form, and the documents that it has beside images of the store.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] if the store lacks an image that the index names, and [`StoreError::Io`].
    pub fn index(&self, index: &Index, documents: &[Vec<u8>]) -> Result<ImageIndex, StoreError> {
        let store = self.store();
        for entry in index.manifests.iter().filter(|entry| is_image(entry)) {
            if !store.images.has(&sha256_hex(&entry.digest)?) {
                return Err(StoreError::NoImage(entry.digest.to_string()));
            }
        }
        let json = index.to_json();
        let id = sha256(&json);
        let added = ImageIndex {
            id,
            index: index.clone(),
        };
        if or_damaged(store.index(&id)).is_ok_and(|known| known.flatten().is_some())
            && store.is_whole_index(&added)?
        {
            return Ok(added);
        }
        let (dir, unfinished) = store.images.make_unfinished()?;
        for document in documents {
            dir.write(&sha256(document).hex(), document)?;
        }
        dir.write(INDEX, &json)?;
        store.put_in_place(&store.images, &unfinished, &sha256_hex(&id)?)?;
        Ok(added)
    }
}

/// True if a directory of `images/` is that of an index.
pub(crate) fn is_one(dir: &Dir, name: &str) -> bool {
    dir.has(&format!("{name}/{INDEX}"))
}
