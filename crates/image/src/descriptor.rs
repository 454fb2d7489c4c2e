use crate::digest::Digest;
use crate::platform::Platform;
use crate::text::null_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Reference to a piece of content elsewhere: its kind, its digest, its size.
///
/// <https://github.com/opencontainers/image-spec/blob/main/descriptor.md>
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// A type of [`crate::media_type`], or an unknown one.
    #[serde(default, deserialize_with = "null_default")]
    pub media_type: String,
    /// Digest of the content.
    pub digest: Digest,
    /// Size of the content in bytes. It must be compared with the received content, and never be allocated
    /// unchecked.
    pub size: u64,
    /// Other addresses of the content.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub urls: Vec<String>,
    /// Free text.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub annotations: BTreeMap<String, String>,
    /// In an index: platform of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// Purpose of the content, if it is not an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
}

impl Descriptor {
    /// Builds a descriptor with only the three mandatory properties.
    #[must_use]
    pub fn new(media_type: &str, digest: Digest, size: u64) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest,
            size,
            urls: Vec::new(),
            annotations: BTreeMap::new(),
            platform: None,
            artifact_type: None,
        }
    }
}
