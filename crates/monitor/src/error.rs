use tote_sys::Errno;

/// Reason why a container cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The socket could not be made.
    #[error("cannot make the container's socket")]
    Socket(#[source] Errno),
    /// The log could not be opened.
    #[error("cannot open the container's log {name:?}")]
    Log {
        /// Name in the container's directory.
        name: String,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// A descriptor or memory for the loop could not be had.
    #[error("cannot prepare to watch the container: cannot {attempt}")]
    Prepare {
        /// Attempted action.
        attempt: &'static str,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// A client could not write the container's output.
    #[error("cannot write the container's output")]
    Output(#[source] Errno),
    /// Watching the container failed.
    #[error("cannot watch the container's process")]
    Watch(#[source] Errno),
}
