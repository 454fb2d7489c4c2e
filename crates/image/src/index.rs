use crate::descriptor::Descriptor;
use crate::document::{DocumentError, MAX_MANIFEST_BYTES, Read, check_version, json, to_json};
use crate::media_type;
use crate::platform::Platform;
use crate::text::null_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Annotation by which docker's builder marks an entry of an index that is not an image: [`ATTESTATION`].
pub const REFERENCE_TYPE: &str = "vnd.docker.reference.type";

/// The value of [`REFERENCE_TYPE`] for a manifest of attestations.
pub const ATTESTATION: &str = "attestation-manifest";

/// Annotation with the digest of the entry in the same index that an attestation is about.
pub const REFERENCE_DIGEST: &str = "vnd.docker.reference.digest";

/// Images for several platforms under one name: OCI's index, docker's manifest list.
///
/// <https://github.com/opencontainers/image-spec/blob/main/image-index.md>
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Index {
    /// The version, always 2.
    pub schema_version: u64,
    /// Media type of this document; optional in OCI's format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_type: Option<String>,
    /// Purpose of the content, if it is not an image to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
    /// The images, and possibly further indexes.
    #[serde(default, deserialize_with = "null_default")]
    pub manifests: Vec<Descriptor>,
    /// The image that the entries of this index describe.
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

/// An index has no image for a platform.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no image for {wanted}, only for {}", list(.offered))]
pub struct NoPlatform {
    /// The platform that was asked for.
    pub wanted: Box<Platform>,
    /// The platforms in the index.
    pub offered: Vec<Platform>,
}

impl Index {
    /// Builds an OCI index of these images.
    #[must_use]
    pub fn oci(manifests: Vec<Descriptor>) -> Self {
        Self {
            schema_version: 2,
            media_type: Some(media_type::OCI_INDEX.to_owned()),
            artifact_type: None,
            manifests,
            subject: None,
            annotations: BTreeMap::new(),
        }
    }

    /// Returns the document's media type; OCI's if the document does not have one.
    #[must_use]
    pub fn media_type(&self) -> &str {
        self.media_type.as_deref().unwrap_or(media_type::OCI_INDEX)
    }

    /// Returns the best image for a platform, the first among equals. If none fits, a single image without a
    /// platform is returned: its configuration will decide.
    ///
    /// # Errors
    /// [`NoPlatform`] lists the platforms in the index.
    pub fn select(&self, wanted: &Platform) -> Result<&Descriptor, NoPlatform> {
        let best = self
            .manifests
            .iter()
            .filter_map(|image| Some((wanted.rank(image.platform.as_ref()?)?, image)))
            .min_by_key(|(rank, _)| *rank);
        if let Some((_, image)) = best {
            return Ok(image);
        }
        match &self.manifests[..] {
            [image] if image.platform.is_none() => Ok(image),
            _ => Err(NoPlatform {
                wanted: Box::new(wanted.clone()),
                offered: self.platforms(),
            }),
        }
    }

    /// Lists the platforms in the index, without the attestations of builders (`unknown/unknown`).
    #[must_use]
    pub fn platforms(&self) -> Vec<Platform> {
        let known = |platform: &&Platform| platform.os != "unknown" && !platform.os.is_empty();
        let mut platforms: Vec<Platform> = self
            .manifests
            .iter()
            .filter_map(|image| image.platform.as_ref())
            .filter(known)
            .map(Platform::normalized)
            .collect();
        platforms.dedup();
        platforms
    }

    /// Writes the document as compact JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        to_json(self)
    }
}

impl Read for Index {
    fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        const KIND: &str = "index";
        let index: Self = json(bytes, KIND, MAX_MANIFEST_BYTES)?;
        check_version(index.schema_version, KIND)?;
        Ok(index)
    }
}

fn list(platforms: &[Platform]) -> String {
    const MOST: usize = 20;
    if platforms.is_empty() {
        return "platforms that it does not name".to_owned();
    }
    let mut words: Vec<String> = platforms.iter().take(MOST).map(Platform::to_string).collect();
    if platforms.len() > MOST {
        words.push("…".to_owned());
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Digest;

    fn index(platforms: &[&str]) -> Index {
        let image = |(number, platform): (usize, &&str)| {
            let mut image = Descriptor::new(
                media_type::OCI_MANIFEST,
                Digest::sha256([u8::try_from(number).unwrap(); 32]),
                7,
            );
            image.platform = (!platform.is_empty()).then(|| platform.parse().unwrap());
            image
        };
        Index::oci(platforms.iter().enumerate().map(image).collect())
    }

    #[test]
    fn the_best_is_selected() {
        for (platforms, wanted, place) in [
            (&["linux/arm64", "linux/amd64"][..], "linux/amd64", Some(1)),
            (&["linux/386", "linux/amd64"], "linux/amd64", Some(1)),
            (&["linux/386", "linux/s390x"], "linux/amd64", Some(0)),
            (
                &["linux/arm/v5", "linux/arm/v6", "linux/arm/v7"],
                "linux/arm/v6",
                Some(1),
            ),
            (&["linux/amd64", "linux/amd64"], "linux/amd64", Some(0)),
            (&["linux/arm64", "unknown/unknown"], "linux/amd64", None),
            (&[""], "linux/amd64", Some(0)),
            (&["", ""], "linux/amd64", None),
            (&["", "linux/amd64"], "linux/amd64", Some(1)),
            (&[], "linux/amd64", None),
        ] {
            let index = index(platforms);
            let selected = index
                .select(&wanted.parse().unwrap())
                .ok()
                .map(|image| image.digest);
            assert_eq!(
                selected,
                place.map(|place| index.manifests[place].digest),
                "{platforms:?}"
            );
        }
    }

    #[test]
    fn what_there_is_is_in_the_error() {
        let index = index(&["linux/arm64", "linux/s390x", "unknown/unknown"]);
        let error = index.select(&"linux/amd64".parse().unwrap()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "there is no image for linux/amd64, only for linux/arm64, linux/s390x"
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        let index = index(&["linux/amd64", "linux/arm/v6"]);
        assert_eq!(Index::read(&index.to_json()).unwrap(), index);
    }
}
