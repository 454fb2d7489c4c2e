//! Result of a build.

use crate::PushedImage;
use tote_image::{Digest, Reference};

/// Image that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltImage {
    /// Id to which the names refer: that of an index if there are several platforms or attestations.
    pub id: Digest,
    /// Id of the image itself, if there is only one.
    pub image: Option<Digest>,
    /// Manifest or index of the result, if known: that at a registry after a push, otherwise the
    /// one that `save` writes.
    pub manifest: Option<BuiltManifest>,
    /// Names of the image.
    pub names: Vec<Reference>,
    /// Pushed images.
    pub pushed: Vec<PushedImage>,
}

/// Descriptor of a built image or index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuiltManifest {
    /// Media type of the document.
    pub media_type: String,
    /// Digest of the manifest.
    pub digest: Digest,
    /// Size in bytes.
    pub size: u64,
}
