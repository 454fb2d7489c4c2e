//! Errors of `exec`.

use tote_runtime::RuntimeError;
use tote_sys::Errno;

/// Error of `exec`; docker's words.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// Container without a process to join.
    #[error("container {0} is not running")]
    NotRunning(String),
    /// Paused container, in which the new process would be suspended as well.
    #[error("container {0} is paused, unpause the container before exec")]
    Paused(String),
    /// Container without a health check; podman's words.
    #[error("container {0} has no defined healthcheck")]
    NoHealthcheck(String),
    /// Use of `-it` without a terminal.
    #[error("the input device is not a TTY")]
    NotATerminal,
    /// Invalid value of `--detach-keys`.
    #[error("--detach-keys")]
    Keys(#[source] tote_runtime::DetachKeysError),
    /// Missing descriptor for `--preserve-fds`.
    #[error("--preserve-fds {wanted}: file descriptor {missing} is not open")]
    Descriptor {
        /// Requested number of descriptors from 3 on.
        wanted: u32,
        /// First missing descriptor.
        missing: u32,
    },
    /// Invalid value of `--user`.
    #[error(transparent)]
    User(#[from] tote_bundle::UserError),
    /// Unreadable passwd(5) or group(5) of the container.
    #[error("cannot look up the user in the container")]
    UserFile(#[source] tote_rootfs::ReadError),
    /// Failed open of the container's root.
    #[error("cannot open the root of container {id}")]
    Root {
        /// Id of the container.
        id: String,
        /// Reason of the failure.
        #[source]
        source: Errno,
    },
    /// Failed plan of the process.
    #[error(transparent)]
    Plan(tote_sandbox::PlanError),
    /// Failed start of the process.
    #[error(transparent)]
    Start(RuntimeError),
}

impl ExecError {
    /// Returns docker's exit code: 127 for a missing program, 126 for one that cannot be executed, 1 for a container
    /// in the wrong state.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::NotRunning(_) | Self::Paused(_) | Self::NotATerminal => 1,
            Self::NoHealthcheck(_) | Self::Keys(_) | Self::Descriptor { .. } => 125,
            Self::Start(RuntimeError::Step(step)) if step.errno == Errno::NOENT => 127,
            Self::User(_) | Self::UserFile(_) | Self::Root { .. } | Self::Plan(_) | Self::Start(_) => 126,
        }
    }
}
