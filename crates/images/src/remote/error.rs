//! Why images cannot be fetched from a registry, sent to one or looked for there, but for what the registry says itself.

use std::path::PathBuf;

/// Why images cannot be fetched, sent or looked for, but for what the registry says itself.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// Something at a registry that no container can be made of.
    #[error("{name} is not a container image (media type {media_type:?})")]
    NoContainerImage {
        /// Its name.
        name: String,
        /// What it has in a configuration's or a layer's place.
        media_type: String,
    },
    /// An image to be pushed that is not here; docker's wording.
    #[error("An image does not exist locally with the tag: {0}")]
    NothingToPush(String),
    /// `--authfile` with what cannot be read; podman's wording.
    #[error("credential file is not accessible: {path}")]
    AuthFile {
        /// As given.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// `--creds` with what is no name and password. What it is may be a secret.
    #[error("--creds: {0}")]
    Creds(&'static str),
    /// `--limit` of a search; docker's range.
    #[error("limit {0} is outside the range of [1, 100]")]
    SearchLimit(usize),
    /// `--filter` of a search.
    #[error("invalid filter {0:?}: stars=N, is-official=true|false, is-automated=true|false")]
    SearchFilter(String),
    /// The same with `--list-tags`; podman's wording.
    #[error("filters are not applicable to list tags result")]
    SearchFilterOfTags,
    /// What is to have tags has one, or a digest.
    #[error("--list-tags {0}: it must be a name without a tag")]
    SearchTag(String),
    /// Nobody is known at a registry; podman's wording.
    #[error("not logged into {0}")]
    NotLoggedIn(String),
    /// A tag beside the option that means all of them; docker's wording.
    #[error("tag can't be used with --all-tags/-a")]
    TagWithAll,
    /// `--pull` of something else.
    #[error("invalid --pull {0}: give missing, always or never")]
    WhenToPull(String),
    /// A place to push to that is no registry.
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
