//! An image in the store: its documents, and facts about it.

use serde::{Deserialize, Serialize};
use tote_image::{Digest, ImageConfig, Raw};

/// An image in the store.
#[derive(Clone, Debug)]
pub struct Image {
    /// Digest of its configuration.
    pub id: Digest,
    /// The configuration, as parsed and as received.
    pub config: Raw<ImageConfig>,
    /// Time of its arrival, and its size.
    pub record: ImageRecord,
}

/// Facts about an image that its own documents do not contain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageRecord {
    /// Total bytes of the files in all its layers.
    pub size: u64,
    /// Time of its arrival, in seconds since 1970.
    pub added: u64,
}

impl Image {
    /// Digests of its layers, lowest first.
    #[must_use]
    pub fn layers(&self) -> &[Digest] {
        &self.config.value().rootfs.diff_ids
    }
}
