//! An image as `docker image inspect` shows it.

use serde_json::{Value, json};
use tote_engine::{ImageDetails, Reference};

/// Describes an image with docker's fields.
#[must_use]
pub fn image_details(of: &ImageDetails) -> Value {
    let (digests, tags): (Vec<_>, Vec<_>) = of.names.iter().partition(|name| name.digest().is_some());
    let config = &of.config;
    let familiar = |names: Vec<&Reference>| names.into_iter().map(Reference::familiar).collect::<Vec<_>>();
    let other = |key: &str| config.other.get(key).cloned().unwrap_or_default();
    json!({
        "Id": of.id,
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
        "Size": of.size,
        "GraphDriver": { "Name": "tote", "Data": null },
        "RootFS": { "Type": "layers", "Layers": of.layers },
        "Annotations": of.annotations,
        "Metadata": { "LastTagTime": null },
    })
}
