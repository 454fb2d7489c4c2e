//! Errors of pools.

use tote_bundle::NameError;

/// Limit of a pool's sandboxes.
pub const MOST: u32 = 1000;

/// Error of the work with a pool.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// Name of a missing pool.
    #[error("no such pool: {0}")]
    Missing(String),
    /// Invalid name.
    #[error("pool {0:?}: only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed in a name")]
    Name(String, #[source] NameError),
    /// New pool without an image.
    #[error("pool {0} does not exist yet: name the image for its sandboxes")]
    NoImage(String),
    /// Options of an existing pool without the image.
    #[error(
        "cannot change the options of pool {0} without its image: give the image and all options, as for a new pool"
    )]
    OptionsAlone(String),
    /// Size above the limit.
    #[error("cannot make a pool of {0} sandboxes: the most is {most}", most = MOST)]
    Size(u32),
    /// Option that cannot be changed in a finished sandbox.
    #[error("--{0} cannot be changed in a sandbox that exists already: give it to tote pool fill")]
    Shaping(String),
    /// Option that needs a monitor.
    #[error(
        "--{0} cannot be combined with --pool: a sandbox of a pool lives as long as the command that takes it"
    )]
    Kept(String),
    /// A virtual machine that is to wait did not come up.
    #[error("cannot make a virtual machine for a sandbox of the pool: {0}")]
    Machine(String),
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
