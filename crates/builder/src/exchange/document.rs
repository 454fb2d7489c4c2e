//! Document of a cache: results of instructions, by key.

use crate::EngineError;
use crate::{BuildFault, CacheFault};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tote_image::{Descriptor, Digest, ImageConfig, MAX_CONFIG_BYTES, Manifest};
use tote_images::ArchiveError;

/// Media type of the configuration of a cache's manifest.
pub(super) const MEDIA_TYPE: &str = "application/vnd.tote.build.cache.v1+json";

/// Name of the annotation of an image that carries its cache.
pub(super) const ANNOTATION: &str = "io.tote.build.cache";

/// Limit of such an annotation, in bytes: registries accept manifests of four megabytes.
pub(super) const MAX_ANNOTATION: usize = 1 << 20;

/// Results of instructions.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Document {
    /// Layers of the manifest, in its order, by the digests of their uncompressed archives.
    pub layers: Vec<Digest>,
    /// Images by the hash of an instruction's key.
    pub(super) records: BTreeMap<String, ImageConfig>,
}

impl Document {
    pub(super) fn to_json(&self) -> Result<Vec<u8>, EngineError> {
        let json = serde_json::to_vec(self).map_err(ArchiveError::SaveDocument)?;
        if json.len() > MAX_CONFIG_BYTES {
            return Err(BuildFault::Cache(CacheFault::CacheSize(json.len())).into());
        }
        Ok(json)
    }

    /// Parses a document of unknown origin.
    pub(super) fn read(json: &[u8]) -> Result<Self, EngineError> {
        if json.len() > MAX_CONFIG_BYTES {
            return Err(BuildFault::Cache(CacheFault::CacheSize(json.len())).into());
        }
        serde_json::from_slice(json)
            .map_err(|error| BuildFault::Cache(CacheFault::CacheDocument(error)).into())
    }

    /// Reads the document of a manifest, and its layers; `config` fetches the configuration.
    pub(super) fn of(
        manifest: &Manifest,
        config: impl FnOnce(&Descriptor) -> Result<Vec<u8>, EngineError>,
    ) -> Result<(Self, BTreeMap<Digest, Descriptor>), EngineError> {
        let document = match manifest.annotations.get(ANNOTATION) {
            _ if manifest.config.media_type == MEDIA_TYPE => Self::read(&config(&manifest.config)?)?,
            Some(text) => Self::read(text.as_bytes())?,
            None => return Err(BuildFault::Cache(CacheFault::NoCache).into()),
        };
        if document.layers.len() != manifest.layers.len() {
            return Err(ArchiveError::LayerCount {
                config: document.layers.len(),
                archive: manifest.layers.len(),
            }
            .into());
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

#[cfg(test)]
mod tests {
    use super::*;
    use tote_image::Read as _;

    fn cache(layers: usize, records: &[(&str, &str)]) -> (Document, Manifest) {
        let document = Document {
            layers: (0..layers).map(digest).collect(),
            records: records
                .iter()
                .map(|(key, config)| ((*key).to_owned(), ImageConfig::read(config.as_bytes()).unwrap()))
                .collect(),
        };
        let blobs = (0..layers).map(|at| Descriptor::new("l", digest(at + 100), 1));
        let manifest = Manifest::oci(Descriptor::new(MEDIA_TYPE, digest(200), 1), blobs.collect());
        (document, manifest)
    }

    fn digest(at: usize) -> Digest {
        Digest::sha256([u8::try_from(at).unwrap(); 32])
    }

    /// The id of an image is the digest of these bytes, and a part of the next instruction's key.
    #[test]
    fn images_come_out_as_they_went_in() {
        let config = r#"{"architecture":"amd64","os":"linux","created":"2026-01-01T00:00:00.5Z","config":{"Env":["A=<&>\u2028é"],
            "Labels":null,"OnBuild":null,"Unknown":{"b":1,"a":[1.5,18446744073709551615,null]}},"docker_version":"1",
            "container_config":{"Cmd":null},"rootfs":{"type":"layers","diff_ids":[]},"history":[{"created_by":"x","z":0}]}"#;
        let (document, manifest) = cache(1, &[("k", config)]);
        let before = document.records["k"].to_json();
        let json = document.to_json().unwrap();
        let (read, layers) = Document::of(&manifest, |_| Ok(json)).unwrap();
        assert_eq!(read.records["k"].to_json(), before);
        assert_eq!(ImageConfig::read(&before).unwrap().to_json(), before);
        assert_eq!(layers[&digest(0)].digest, digest(100));
    }

    #[test]
    fn what_is_no_cache() {
        let (document, mut manifest) = cache(2, &[]);
        let json = document.to_json().unwrap();
        assert!(Document::of(&manifest, |_| Ok(json.clone())).is_ok());
        assert!(Document::of(&manifest, |_| Ok(vec![b' '; MAX_CONFIG_BYTES + 1])).is_err());
        assert!(Document::of(&manifest, |_| Ok(b"{}".to_vec())).is_err());
        let none = || -> Result<Vec<u8>, EngineError> { panic!("an image's configuration is no cache") };
        manifest.config.media_type = tote_image::media_type::OCI_CONFIG.to_owned();
        assert!(Document::of(&manifest, |_| none()).is_err());
        let annotation = String::from_utf8(json).unwrap();
        manifest.annotations.insert(ANNOTATION.to_owned(), annotation);
        assert!(Document::of(&manifest, |_| none()).is_ok());
        manifest.layers.pop();
        assert!(Document::of(&manifest, |_| none()).is_err());
    }
}
