//! Errors of containers in the wrong state.

use crate::states::Status;

/// Reason why a container cannot be used, in the words of runc.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// No id was given.
    #[error("container id cannot be empty")]
    NoId,
    /// An id that cannot name a directory.
    #[error("invalid container ID format: {0:?}")]
    Id(String),
    /// No container has this id.
    #[error("container does not exist")]
    NotFound,
    /// A container with this id exists.
    #[error("container with given ID already exists")]
    Exists,
    /// The container has ended.
    #[error("container not running")]
    NotRunning,
    /// The container could not be resumed in its state.
    #[error("container not paused")]
    NotPaused,
    /// The container could not be paused in its state.
    #[error("container not running or created: {0}")]
    NotPausable(Status),
    /// The container could not be started in its state.
    #[error("{0}")]
    NotStartable(&'static str),
    /// The container could not be removed in its state.
    #[error("cannot delete container {id} that is not stopped: {status}")]
    NotStopped {
        /// Id of the container.
        id: String,
        /// State of the container.
        status: Status,
    },
    /// No process could be run in the container in its state.
    #[error("{0}")]
    NotExecutable(&'static str),
}
