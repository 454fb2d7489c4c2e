//! Why a process cannot be added to a container.

use tote_runtime::RuntimeError;
use tote_sys::Errno;

/// Why `exec` failed; docker's words.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// There is no process to join.
    #[error("container {0} is not running")]
    NotRunning(String),
    /// Whatever is added to it would be suspended as well.
    #[error("container {0} is paused, unpause the container before exec")]
    Paused(String),
    /// A check that nobody has described; podman's words.
    #[error("container {0} has no defined healthcheck")]
    NoHealthcheck(String),
    /// `-it` without a terminal.
    #[error("the input device is not a TTY")]
    NotATerminal,
    /// `--detach-keys`.
    #[error("--detach-keys")]
    Keys(#[source] tote_runtime::DetachKeysError),
    /// `--preserve-fds` of what is not there.
    #[error("--preserve-fds {wanted}: file descriptor {missing} is not open")]
    Descriptor {
        /// How many there should be from 3 on.
        wanted: u32,
        /// The first that is not.
        missing: u32,
    },
    /// `--user`.
    #[error(transparent)]
    User(#[from] tote_bundle::UserError),
    /// The container's passwd(5) or group(5).
    #[error("cannot look up the user in the container")]
    UserFile(#[source] tote_rootfs::ReadError),
    /// The container's root.
    #[error("cannot open the root of container {id}")]
    Root {
        /// Its id.
        id: String,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// The process could not be planned.
    #[error(transparent)]
    Plan(tote_sandbox::PlanError),
    /// The process could not be made.
    #[error(transparent)]
    Start(RuntimeError),
}

impl ExecError {
    /// docker's: 127 for what is not there, 126 for what cannot be run, 1 for a container that is in no state for it.
    #[must_use]
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NotRunning(_) | Self::Paused(_) | Self::NotATerminal => 1,
            Self::NoHealthcheck(_) | Self::Keys(_) | Self::Descriptor { .. } => 125,
            Self::Start(RuntimeError::Step(step)) if step.errno == Errno::NOENT => 127,
            Self::User(_) | Self::UserFile(_) | Self::Root { .. } | Self::Plan(_) | Self::Start(_) => 126,
        }
    }
}
