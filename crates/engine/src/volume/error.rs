//! Why something cannot be done with volumes.

/// What went wrong with volumes, in docker's words.
#[derive(Debug, thiserror::Error)]
pub enum VolumeFault {
    /// There is none of that name.
    #[error("get {0}: no such volume")]
    Missing(String),
    /// A name that no volume can have.
    // docker's words.
    #[error(
        "create {0}: {0:?} includes invalid characters for a local volume name: only [a-zA-Z0-9][a-zA-Z0-9_.-] are allowed"
    )]
    Name(String),
    /// Another driver.
    // docker's words.
    #[error("create {name}: unknown volume driver {driver:?}: only local is supported")]
    Driver {
        /// The volume.
        name: String,
        /// The driver.
        driver: String,
    },
    /// An option of the driver.
    // docker's words.
    #[error("create {name}: invalid option {option:?}: {why}")]
    Option {
        /// The volume.
        name: String,
        /// As given.
        option: String,
        /// Why not, and what can be given.
        why: &'static str,
    },
    /// A container has it.
    // docker's words.
    #[error("remove {name}: volume is in use - [{}]", .containers.join(", "))]
    InUse {
        /// The volume.
        name: String,
        /// Ids of containers.
        containers: Vec<String>,
    },
    /// Somebody makes it, or a container that has it.
    // docker's words.
    #[error("remove {0}: volume is in use - another command is making it, or a container that uses it")]
    Held(String),
    /// Nobody knows whose it is.
    #[error("cannot remove the volume {name}; 'tote volume rm -f {name}' removes it with all its files")]
    Lost {
        /// The volume.
        name: String,
        /// Why not.
        #[source]
        source: tote_state::record::RecordError,
    },
    /// A filter that is none.
    #[error(
        "invalid filter {0:?}: dangling=true|false, driver=NAME, label=KEY[=VALUE], label!=KEY[=VALUE], name=PATTERN"
    )]
    Filter(String),
}
