//! Details of an image, in docker's words.

use crate::{EngineError, Home};
use serde_json::{Value, json};
use tote_image::{Digest, Platform, Reference};
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

/// An image as `docker image inspect` shows it, where it is for the platforms that are asked for.
///
/// # Errors
/// [`EngineError::Store`], and [`ImagesError::OtherPlatform`](tote_images::ImagesError::OtherPlatform).
pub fn inspect_image(home: &Home, wanted: &str, platforms: &[Platform]) -> Result<Value, EngineError> {
    let store = open_store(home)?;
    let image = store.image(&resolve(&store, wanted, platforms)?)?;
    let names: Vec<Reference> = names_of_images(&store)?
        .into_iter()
        .filter(|(_, id)| *id == image.id)
        .map(|(name, _)| name)
        .collect();
    let (digests, tags): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.digest().is_some());
    let config = image.config.value();
    let familiar = |names: Vec<&Reference>| names.into_iter().map(Reference::familiar).collect::<Vec<_>>();
    let other = |key: &str| config.other.get(key).cloned().unwrap_or_default();
    let manifest = store.manifest(&image.id).unwrap_or_default();
    let annotations = manifest.map(|manifest| manifest.into_parts().1.annotations);
    Ok(json!({
        "Id": image.id,
        "RepoTags": familiar(tags),
        "RepoDigests": familiar(digests),
        "Parent": "",
        "Comment": config.history.last().map(|step| step.comment.clone()).unwrap_or_default(),
        "Created": config.created,
        "DockerVersion": other("docker_version").as_str().unwrap_or_default(),
        "Author": config.author,
        "Config": config.config,
        "Architecture": config.architecture,
        "Variant": config.variant,
        "Os": config.os,
        "Size": image.record.size,
        "GraphDriver": { "Name": "tote", "Data": null },
        "RootFS": { "Type": "layers", "Layers": image.layers() },
        "Annotations": annotations.unwrap_or_default(),
        "Metadata": { "LastTagTime": null },
    }))
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
