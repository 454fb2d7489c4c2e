//! The words for the state of a container.

use std::fmt;

/// The specification's states, and `paused`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// A command is creating the container.
    Creating,
    /// The container waits for its start.
    Created,
    /// Its program runs.
    Running,
    /// Its program is suspended.
    Paused,
    /// The program, or the command that created the container, has ended.
    Stopped,
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Creating => "creating",
            Self::Created => "created",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopped => "stopped",
        })
    }
}
