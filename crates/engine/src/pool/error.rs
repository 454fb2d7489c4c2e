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
    #[error("pool {0} does not exist yet: name the image for its sandboxes")]
    NoImage(String),
    /// Options of an existing pool without the image.
    #[error(
        "cannot change the options of pool {0} without its image: give the image and all options, as for a new pool"
    )]
    OptionsAlone(String),
    /// More than can be meant.
    #[error("cannot make a pool of {0} sandboxes: the most is {most}", most = MOST)]
    Size(u32),
    /// Something that a sandbox cannot be given any more.
    #[error("--{0} cannot be changed in a sandbox that exists already: give it to tote pool fill")]
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
