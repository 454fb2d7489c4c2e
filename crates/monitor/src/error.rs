use tote_sys::Errno;

/// Why a container cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    /// The socket could not be made.
    #[error("make the container's socket")]
    Socket(#[source] Errno),
    /// The log could not be opened.
    #[error("open the container's log {name:?}")]
    Log {
        /// Its name in the container's directory.
        name: String,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// A descriptor or memory for the loop.
    #[error("prepare to watch the container: {attempt}")]
    Prepare {
        /// What was tried.
        attempt: &'static str,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// A client could not write the container's output.
    #[error("write the container's output")]
    Output(#[source] Errno),
    /// Watching it failed.
    #[error("watch the container's process")]
    Watch(#[source] Errno),
}
