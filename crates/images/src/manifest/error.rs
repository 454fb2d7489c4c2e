//! Errors of the work with lists of images.

/// Error of the work with a list of images.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// Name of an existing list.
    #[error("cannot make list {0}: there is one already, and --amend is not given")]
    Exists(String),
    /// Name of a single image, or of nothing.
    #[error("cannot use {0} as a list of images: it is an image for one platform")]
    NoList(String),
    /// Member that the list does not have.
    #[error("cannot find {member} in list {list}")]
    NoMember {
        /// Name of the member, as given.
        member: String,
        /// Name of the list, as given.
        list: String,
    },
    /// Invalid value of `--annotation`.
    #[error("--annotation {0}: it should be KEY=VALUE")]
    Annotation(String),
}
