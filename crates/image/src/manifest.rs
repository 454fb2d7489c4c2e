use crate::descriptor::Descriptor;
use crate::document::{DocumentError, MAX_MANIFEST_BYTES, Read, check_version, json, to_json};
use crate::media_type;
use crate::text::null_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum number of layers of an image. Docker makes at most 127, and the kernel stacks at most 500.
pub const MAX_LAYERS: usize = 1000;

/// An image for a single platform: its configuration and its layers, lowest first. OCI's format and docker's schema
/// 2 differ only in the names of types.
///
/// <https://github.com/opencontainers/image-spec/blob/main/manifest.md>
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Manifest {
    /// The version, always 2.
    pub schema_version: u64,
    /// Media type of this document; optional in OCI's format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Purpose of the content, if it is not an image to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The image's configuration, an [`crate::ImageConfig`].
    pub config: Descriptor,
    /// The layers, lowest first.
    #[serde(default, deserialize_with = "null_default")]
    pub layers: Vec<Descriptor>,
    /// The image that this one describes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<Descriptor>,
    /// Free text.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub annotations: BTreeMap<String, String>,
}

impl Manifest {
    /// Builds an OCI manifest of these parts.
    #[must_use]
    pub fn oci(config: Descriptor, layers: Vec<Descriptor>) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(media_type::OCI_MANIFEST.to_owned()),
            artifact_type: None,
            config,
            layers,
            subject: None,
            annotations: BTreeMap::new(),
        }
    }

    /// Returns the document's media type; OCI's if the document does not have one.
    #[must_use]
    pub fn media_type(&self) -> &str {
        self.media_type.as_deref().unwrap_or(media_type::OCI_MANIFEST)
    }

    /// Returns the total size of the configuration and layers in bytes, as they are transferred.
    #[must_use]
    pub fn size(&self) -> u64 {
        let layers = self
            .layers
            .iter()
            .fold(0u64, |sum, layer| sum.saturating_add(layer.size));
        layers.saturating_add(self.config.size)
    }

    /// Writes the document as compact JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        to_json(self)
    }
}

impl Read for Manifest {
    fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        const KIND: &str = "manifest";
        let manifest: Self = json(bytes, KIND, MAX_MANIFEST_BYTES)?;
        check_version(manifest.schema_version, KIND)?;
        if manifest.layers.len() > MAX_LAYERS {
            return Err(DocumentError::Layers(manifest.layers.len()));
        }
        Ok(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dockers_schema_2() {
        let text = br#"{
            "schemaVersion": 2,
            "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
            "config": {
                "mediaType": "application/vnd.docker.container.image.v1+json",
                "size": 7023,
                "digest": "sha256:b5b2b2c507a0944348e0303114d8d93aaaa081732b86451d9bce1f432a537bc7"
            },
            "layers": [{
                "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                "size": 32654,
                "digest": "sha256:e692418e4cbaf90ca69d05a66403747baa33ee08806650b51fab815ad7fc331f"
            }]
        }"#;
        let manifest = Manifest::read(text).unwrap();
        assert_eq!(manifest.media_type(), media_type::DOCKER_MANIFEST);
        assert_eq!(manifest.size(), 7023 + 32654);
        assert_eq!(Manifest::read(&manifest.to_json()).unwrap(), manifest);
    }

    #[test]
    fn refused() {
        let digest = "sha256:b5b2b2c507a0944348e0303114d8d93aaaa081732b86451d9bce1f432a537bc7";
        let layer = format!(r#"{{"mediaType":"l","digest":"{digest}","size":1}}"#);
        let manifest = |layers: &str| {
            format!(r#"{{"schemaVersion":2,"config":{layer},"layers":[{layers}]}}"#).into_bytes()
        };
        assert!(Manifest::read(&manifest(&layer)).is_ok());
        for layers in [
            layer.replace(":1}", ":-1}"),
            layer.replace(":1}", ":1.5}"),
            layer.replace(":1}", ":99999999999999999999}"),
            layer.replace("sha256:b5", "sha256:zz"),
            layer.replace("digest", "digst"),
            vec![layer.clone(); MAX_LAYERS + 1].join(","),
        ] {
            assert!(Manifest::read(&manifest(&layers)).is_err(), "{}", &layers[..60]);
        }
        assert_eq!(
            Manifest::read(&manifest(&layer.replace(":1}", &format!(":{}}}", u64::MAX))))
                .unwrap()
                .size(),
            u64::MAX
        );
    }
}
