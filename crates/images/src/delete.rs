//! Removal of images from the store.

use crate::ImagesError;
use crate::index::orphans;
use tote_image::{Digest, Reference};
use tote_store::{Store, StoreError};

/// Result of a removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovedImage {
    /// Name that was removed.
    Untagged(Reference),
    /// Image that was removed, or layer that no other image had.
    Deleted(Digest),
}

/// Removes an image with all its names. The removal of an index includes its images, except those
/// that are also used elsewhere.
pub fn delete(store: &Store, id: &Digest) -> Result<Vec<RemovedImage>, ImagesError> {
    let _decision = store.decide()?;
    // A damaged index is removed as well, although its images are unknown.
    let index = store.index(id).ok().flatten();
    let orphans = index.map(|index| orphans(store, &index)).transpose()?;
    let removed = store.remove_image(id)?;
    let names = removed.names.into_iter().map(RemovedImage::Untagged);
    let layers = removed.layers.into_iter().rev().map(RemovedImage::Deleted);
    let mut all: Vec<RemovedImage> = names.chain([RemovedImage::Deleted(*id)]).chain(layers).collect();
    for image in orphans.unwrap_or_default() {
        match delete(store, &image) {
            // Another command has removed the image meanwhile.
            Err(ImagesError::Store(StoreError::NoImage(_))) => {}
            removed => all.extend(removed?),
        }
    }
    Ok(all)
}
