//! What a cache says: what instructions made, by key.

use crate::EngineError;
use crate::build::BuildFault;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tote_image::{Descriptor, Digest, ImageConfig, MAX_CONFIG_BYTES, Manifest};

/// What the configuration of a cache's manifest is.
pub(super) const MEDIA_TYPE: &str = "application/vnd.tote.build.cache.v1+json";

/// The annotation of an image that brings its cache.
pub(super) const ANNOTATION: &str = "io.tote.build.cache";

/// The most of such an annotation, in bytes: registries take manifests of four megabytes.
pub(super) const MAX_ANNOTATION: usize = 1 << 20;

/// What instructions made.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Document {
    /// The layers of the manifest, in its order, by the digests of their uncompressed archives.
    pub(super) layers: Vec<Digest>,
    /// Images by the hash of an instruction's key.
    pub(super) records: BTreeMap<String, ImageConfig>,
}

impl Document {
    pub(super) fn to_json(&self) -> Result<Vec<u8>, EngineError> {
        let json = serde_json::to_vec(self).map_err(EngineError::SaveDocument)?;
        if json.len() > MAX_CONFIG_BYTES {
            return Err(BuildFault::CacheSize(json.len()).into());
        }
        Ok(json)
    }

    /// Reads what may be anybody's.
    pub(super) fn read(json: &[u8]) -> Result<Self, EngineError> {
        if json.len() > MAX_CONFIG_BYTES {
            return Err(BuildFault::CacheSize(json.len()).into());
        }
        serde_json::from_slice(json).map_err(|error| BuildFault::CacheDocument(error).into())
    }

    /// The document of that manifest, whose configuration `config` fetches, and its layers.
    pub(super) fn of(
        manifest: &Manifest,
        config: impl FnOnce(&Descriptor) -> Result<Vec<u8>, EngineError>,
    ) -> Result<(Self, BTreeMap<Digest, Descriptor>), EngineError> {
        let document = match manifest.annotations.get(ANNOTATION) {
            _ if manifest.config.media_type == MEDIA_TYPE => Self::read(&config(&manifest.config)?)?,
            Some(text) => Self::read(text.as_bytes())?,
            None => return Err(BuildFault::NoCache.into()),
        };
        if document.layers.len() != manifest.layers.len() {
            return Err(EngineError::LayerCount {
                config: document.layers.len(),
                archive: manifest.layers.len(),
            });
        }
        let layers = document
            .layers
            .iter()
            .copied()
            .zip(manifest.layers.iter().cloned());
        let layers = layers.collect();
        Ok((document, layers))
    }
}
