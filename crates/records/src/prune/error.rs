//! Errors of prunings.

/// Error of a pruning, in docker's words.
#[derive(Debug, thiserror::Error)]
pub enum PruneFault {
    /// Two options that exclude each other.
    // docker's words.
    #[error("the \"until\" filter is not supported with \"--volumes\"")]
    Volumes,
    /// Invalid filter.
    // docker's words.
    #[error(
        "invalid filter {0:?}: until=TIMESTAMP, label=KEY[=VALUE], label!=KEY[=VALUE]; for images also dangling=true|false"
    )]
    Filter(String),
}
