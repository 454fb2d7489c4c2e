//! The JSON files in an archive of `docker save`.

use crate::document::{DocumentError, MAX_MANIFEST_BYTES, Read, json};
use crate::text::null_default;
use serde::{Deserialize, Serialize};

/// Name of [`Images`] in the archive.
pub const MANIFEST: &str = "manifest.json";

/// `manifest.json`: the images in the archive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Images(pub Vec<Image>);

/// An image of an archive. The names of files are as in the archive, and not to be trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Image {
    /// The file with the image's configuration.
    pub config: String,
    /// Names as `NAME:TAG`, in familiar form.
    #[serde(deserialize_with = "null_default")]
    pub repo_tags: Vec<String>,
    /// The files with the layers, lowest first.
    #[serde(deserialize_with = "null_default")]
    pub layers: Vec<String>,
}

impl Read for Images {
    fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let images: Self = json(bytes, "archive's manifest.json", MAX_MANIFEST_BYTES)?;
        match images.0.iter().map(|image| image.layers.len()).max() {
            Some(layers) if layers > crate::MAX_LAYERS => Err(DocumentError::Layers(layers)),
            _ => Ok(images),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_docker_writes() {
        let text =
            br#"[{"Config":"blobs/sha256/ab","RepoTags":null,"Layers":["a/layer.tar"],"LayerSources":{}}]"#;
        let images = Images::read(text).unwrap();
        assert_eq!(images.0[0].layers, ["a/layer.tar"]);
        assert!(images.0[0].repo_tags.is_empty());
    }
}
