//! Details of an image, in docker's words.

use crate::{EngineError, Home};
use std::collections::BTreeMap;
use tote_image::{Digest, ImageConfig, Platform, Reference};
use tote_images::{names_of_images, open_store, resolve};
use tote_store::Usage;

/// A step in the making of an image.
#[derive(Clone, Debug)]
pub struct HistoryRow {
    /// When it was made, as the image says.
    pub created: Option<String>,
    /// By what.
    pub created_by: String,
    /// Bytes of the files of its layer; 0 without a layer.
    pub size: u64,
    /// In words.
    pub comment: String,
}

/// Contents of the store, and how much of them is in use.
#[derive(Clone, Debug)]
pub struct Space {
    /// Bytes, all in all and for each image.
    pub usage: Usage,
    /// Images that a container has.
    pub active: Vec<Digest>,
}

/// An image with all that a description of it tells.
#[derive(Clone, Debug)]
pub struct ImageDetails {
    /// Id of the image.
    pub id: Digest,
    /// Its names, with a tag or a digest each.
    pub names: Vec<Reference>,
    /// Its configuration.
    pub config: ImageConfig,
    /// Bytes of its files.
    pub size: u64,
    /// Its layers, the lowest one first.
    pub layers: Vec<Digest>,
    /// Annotations of its manifest.
    pub annotations: BTreeMap<String, String>,
}

/// Looks at an image, where it is for the platforms that are asked for.
///
/// # Errors
/// [`EngineError::Store`], and [`ImagesError::OtherPlatform`](tote_images::ImagesError::OtherPlatform).
pub fn inspect_image(home: &Home, wanted: &str, platforms: &[Platform]) -> Result<ImageDetails, EngineError> {
    let store = open_store(home)?;
    let image = store.image(&resolve(&store, wanted, platforms)?)?;
    let names = names_of_images(&store)?.into_iter();
    let own = names.filter(|(_, id)| *id == image.id);
    let manifest = store.manifest(&image.id).unwrap_or_default();
    let annotations = manifest.map(|manifest| manifest.into_parts().1.annotations);
    Ok(ImageDetails {
        names: own.map(|(name, _)| name).collect(),
        config: image.config.value().clone(),
        size: image.record.size,
        layers: image.layers().to_vec(),
        annotations: annotations.unwrap_or_default(),
        id: image.id,
    })
}

/// The steps of an image, the last one first, where it is for the platforms that are asked for.
///
/// # Errors
/// [`EngineError::Store`], and [`ImagesError::OtherPlatform`](tote_images::ImagesError::OtherPlatform).
pub fn history(
    home: &Home,
    wanted: &str,
    platforms: &[Platform],
) -> Result<(Digest, Vec<HistoryRow>), EngineError> {
    let store = open_store(home)?;
    let image = store.image(&resolve(&store, wanted, platforms)?)?;
    let mut layers = image.layers().iter();
    let mut rows = Vec::new();
    for step in &image.config.value().history {
        let layer = if step.empty_layer { None } else { layers.next() };
        let layer = layer.map(|layer| store.layer(layer)).transpose()?.flatten();
        rows.push(HistoryRow {
            created: step.created.clone(),
            created_by: step.created_by.clone(),
            size: layer.map_or(0, |layer| layer.sizes.size),
            comment: step.comment.clone(),
        });
    }
    rows.reverse();
    Ok((image.id, rows))
}

/// Returns the sizes of the images on disk.
///
/// # Errors
/// [`EngineError::Store`].
pub fn space(home: &Home) -> Result<Space, EngineError> {
    let store = open_store(home)?;
    let images = store.images()?.into_iter().map(|image| image.id);
    let active: Vec<Digest> = images
        .filter(|id| crate::container::may_have_users(home, id))
        .collect();
    let usage = store.usage(&|id| active.contains(id))?;
    Ok(Space { usage, active })
}
