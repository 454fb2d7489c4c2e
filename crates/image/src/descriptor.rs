use crate::digest::Digest;
use crate::platform::Platform;
use crate::text::null_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a document says about a piece of content that lies elsewhere: its kind, its digest, its size.
///
/// <https://github.com/opencontainers/image-spec/blob/main/descriptor.md>
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Descriptor {
    /// One of [`crate::media_type`], or a stranger's.
    #[serde(default, deserialize_with = "null_default")]
    pub media_type: String,
    /// What the content hashes to.
    pub digest: Digest,
    /// Size of the content in bytes; to be held against what arrives, never allocated unseen.
    pub size: u64,
    /// Other places that have the content.
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
    /// In an index: where the image runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub platform: Option<Platform>,
    /// What the content is for, where it is no image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_type: Option<String>,
}

impl Descriptor {
    /// A descriptor with nothing but the three properties that every one has.
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
