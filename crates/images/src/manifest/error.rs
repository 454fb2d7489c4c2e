//! Why something cannot be done with a list of images.

/// Why something cannot be done with a list.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// The name is taken.
    #[error("cannot make list {0}: there is one already, and --amend is not given")]
    Exists(String),
    /// The name stands for an image, or for nothing.
    #[error("cannot use {0} as a list of images: it is an image for one platform")]
    NoList(String),
    /// Something that is not in it.
    #[error("cannot find {member} in list {list}")]
    NoMember {
        /// As given.
        member: String,
        /// As given.
        list: String,
    },
    /// An option that is none.
    #[error("--annotation {0}: it should be KEY=VALUE")]
    Annotation(String),
}
