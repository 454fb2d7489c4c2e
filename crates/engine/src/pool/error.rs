//! What can go wrong with pools.

use tote_bundle::NameError;

/// The most sandboxes of a pool.
pub(super) const MOST: u32 = 1000;

/// Why something cannot be done with a pool.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// There is none of that name.
    #[error("no such pool: {0}")]
    Missing(String),
    /// A name that is none.
    #[error("pool {0:?}: only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed in a name")]
    Name(String, #[source] NameError),
    /// A new pool without an image.
    #[error("pool {0} does not exist yet: give the image that its sandboxes are made of")]
    NoImage(String),
    /// Options of an existing pool without the image.
    #[error("options of pool {0} are given without its image: give all of them together, as for a new pool")]
    OptionsAlone(String),
    /// More than can be meant.
    #[error("a pool of {0} sandboxes: give at most {most}", most = MOST)]
    Size(u32),
    /// Something that a sandbox cannot be given any more.
    #[error("--{0} belongs to the sandbox, which is made already: give it to tote pool fill")]
    Shaping(String),
    /// Something that only a container with a monitor has.
    #[error(
        "--{0} cannot be combined with --pool: a sandbox of a pool lives as long as the command that takes it"
    )]
    Kept(String),
}

impl PoolError {
    pub(crate) fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Missing(_) => "tote pool ls lists them, tote pool fill makes one",
            Self::NoImage(name) => return Some(format!("tote pool fill {name} -n 4 IMAGE")),
            _ => return None,
        };
        Some(text.to_owned())
    }
}
