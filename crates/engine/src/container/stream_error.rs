//! Why a container's streams cannot be had.

use tote_monitor::{BadTime, DetachKeysError, MonitorError};
use tote_sys::Errno;

/// Why nobody can attach to a container or read its log; docker's words where it has some.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// It does not run.
    #[error("cannot attach to a stopped container, start it first")]
    Stopped,
    /// It is frozen.
    #[error("cannot attach to a paused container, unpause it first")]
    Paused,
    /// It has ended and is to be started again.
    #[error("cannot attach to a restarting container, wait until it is running")]
    Restarting,
    /// One of `run --rm` in the foreground.
    #[error(
        "container {0} was started with --rm in the foreground: its input and output are those of the command that runs it, \
         and no log is kept"
    )]
    Unkept(String),
    /// Nothing is kept of it.
    #[error(
        "configured logging driver does not support reading: container {0} was created with --log-driver none"
    )]
    NoLog(String),
    /// A value of `--since` or `--until`.
    #[error("invalid value {value:?} for \"{option}\"")]
    Time {
        /// Which of them.
        option: &'static str,
        /// As given.
        value: String,
        /// Why.
        #[source]
        source: BadTime,
    },
    /// Keys that are none.
    #[error(transparent)]
    Keys(DetachKeysError),
    /// The keys were typed.
    #[error("cannot read escape sequence")]
    Detached,
    /// The monitor's socket.
    #[error("cannot connect to the container's monitor")]
    Connect {
        /// Why not.
        #[source]
        source: Errno,
    },
    /// The directory of its log.
    #[error("cannot open the container's directory")]
    Directory(#[source] Errno),
    /// The connection or the log.
    #[error(transparent)]
    Watch(#[from] MonitorError),
}
