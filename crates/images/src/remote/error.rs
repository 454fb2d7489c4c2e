//! Errors of pulls, pushes and searches, other than those that a registry reports.

use std::path::PathBuf;

/// Error of a pull, a push or a search, other than those that a registry reports.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Artifact at a registry that is not a container image.
    #[error("{name} is not a container image (media type {media_type:?})")]
    NoContainerImage {
        /// Name of the artifact.
        name: String,
        /// Media type of its configuration or of a layer.
        media_type: String,
    },
    /// Image to push that is not in the store; docker's wording.
    #[error("An image does not exist locally with the tag: {0}")]
    NothingToPush(String),
    /// Unreadable file of `--authfile`; podman's wording.
    #[error("credential file is not accessible: {path}")]
    AuthFile {
        /// Path as given.
        path: PathBuf,
        /// Reason of the failure.
        #[source]
        source: std::io::Error,
    },
    /// Invalid value of `--creds`. The value is not shown, because it may be a secret.
    #[error("--creds: {0}")]
    Creds(&'static str),
    /// Invalid `--limit` of a search; docker's range.
    #[error("limit {0} is outside the range of [1, 100]")]
    SearchLimit(usize),
    /// Invalid `--filter` of a search.
    #[error("invalid filter {0:?}: stars=N, is-official=true|false, is-automated=true|false")]
    SearchFilter(String),
    /// Use of `--filter` with `--list-tags`; podman's wording.
    #[error("filters are not applicable to list tags result")]
    SearchFilterOfTags,
    /// Name for `--list-tags` that has a tag or a digest.
    #[error("--list-tags {0}: it must be a name without a tag")]
    SearchTag(String),
    /// Registry without stored credentials; podman's wording.
    #[error("not logged into {0}")]
    NotLoggedIn(String),
    /// Tag together with `--all-tags`; docker's wording.
    #[error("tag can't be used with --all-tags/-a")]
    TagWithAll,
    /// Invalid value of `--pull`.
    #[error("invalid --pull {0}: give missing, always or never")]
    WhenToPull(String),
    /// Push destination other than a registry.
    #[error(
        "cannot push to {0:?}: images are pushed to registries, and 'tote save' writes archives and layouts"
    )]
    NoRegistry(String),
}

impl RemoteError {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NothingToPush(_) => Some("give it that name with 'tote tag'; see 'tote images'"),
            _ => None,
        }
    }
}
