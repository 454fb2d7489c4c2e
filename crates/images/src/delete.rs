//! The end of images in the store.

use crate::ImagesError;
use crate::index::orphans;
use tote_image::{Digest, Reference};
use tote_store::{Store, StoreError};

/// What `rmi` did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RemovedImage {
    /// A name is gone.
    Untagged(Reference),
    /// An image is gone, or a layer that nothing else had.
    Deleted(Digest),
}

/// Removes an image with all its names; with an index also its images that nothing else has.
pub fn delete(store: &Store, id: &Digest) -> Result<Vec<RemovedImage>, ImagesError> {
    // A damaged one goes, too, and cannot say what its images were.
    let index = store.index(id).ok().flatten();
    let orphans = index.map(|index| orphans(store, &index)).transpose()?;
    let removed = store.remove_image(id)?;
    let names = removed.names.into_iter().map(RemovedImage::Untagged);
    let layers = removed.layers.into_iter().rev().map(RemovedImage::Deleted);
    let mut all: Vec<RemovedImage> = names.chain([RemovedImage::Deleted(*id)]).chain(layers).collect();
    for image in orphans.unwrap_or_default() {
        match delete(store, &image) {
            // Another command was faster.
            Err(ImagesError::Store(StoreError::NoImage(_))) => {}
            removed => all.extend(removed?),
        }
    }
    Ok(all)
}
