//! Errors of caches that builds share.

use crate::EngineError;

/// Reason why a build cache cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum CacheFault {
    /// Failed export of a cache.
    #[error("cannot write the build cache to {to}")]
    CacheExport {
        /// Destination.
        to: String,
        /// Reason of the failure.
        #[source]
        source: Box<EngineError>,
    },
    /// Image that is not a cache.
    #[error("it is neither a build cache nor an image that was built with --cache-to type=inline")]
    NoCache,
    /// Cache with invalid records.
    #[error("cannot read the records of the build cache")]
    CacheDocument(#[source] serde_json::Error),
    /// Cache with too many instructions.
    #[error("the records of the build cache have {0} bytes, more than {most}", most = tote_image::MAX_CONFIG_BYTES)]
    CacheSize(usize),
    /// Cache with too many layers.
    #[error("the build cache has {0} layers, more than {most}", most = tote_image::MAX_LAYERS)]
    CacheLayers(usize),
    /// Cache that is too large for an annotation.
    #[error(
        "the records of the build cache have {0} bytes, too many for an image's manifest: use type=registry"
    )]
    CacheInline(usize),
}
