//! Errors of a container's streams.

use tote_calendar::BadTime;
use tote_monitor::{DetachKeysError, MonitorError};
use tote_sys::Errno;

/// Error of an attachment or of a log; in docker's words if it has some.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// Container that does not run.
    #[error("cannot attach to a stopped container, start it first")]
    Stopped,
    /// Paused container.
    #[error("cannot attach to a paused container, unpause it first")]
    Paused,
    /// Container that waits for its restart.
    #[error("cannot attach to a restarting container, wait until it is running")]
    Restarting,
    /// Container of `run --rm` in the foreground.
    #[error(
        "container {0} was started with --rm in the foreground: its input and output are those of the command that runs it, \
         and no log is kept"
    )]
    Unkept(String),
    /// Container without a log.
    #[error(
        "configured logging driver does not support reading: container {0} was created with --log-driver none"
    )]
    NoLog(String),
    /// Invalid value of `--since` or `--until`.
    #[error("invalid value {value:?} for \"{option}\"")]
    Time {
        /// Name of the option.
        option: &'static str,
        /// Value as given.
        value: String,
        /// Reason of the refusal.
        #[source]
        source: BadTime,
    },
    /// Invalid detach keys.
    #[error(transparent)]
    Keys(DetachKeysError),
    /// Failed connection to the monitor's socket.
    #[error("cannot connect to the container's monitor")]
    Connect {
        /// Reason of the failure.
        #[source]
        source: Errno,
    },
    /// Failed open of the log's directory.
    #[error("cannot open the container's directory")]
    Directory(#[source] Errno),
    /// Failure of the connection or the log.
    #[error(transparent)]
    Watch(#[from] MonitorError),
}
