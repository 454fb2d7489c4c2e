//! Errors of the host image.

use rustix::io::Errno;
use std::path::PathBuf;

/// Why a host image cannot be prepared or removed.
#[derive(Debug, thiserror::Error)]
pub enum HostImageError {
    /// The cache directory cannot be created.
    #[error("cannot make the cache directory {path}")]
    CreateCache {
        /// The cache directory.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// A finished skeleton cannot be opened or locked.
    #[error("cannot open the host image {path}")]
    Open {
        /// The layer's directory.
        path: PathBuf,
        /// The kernel's answer, or the process that keeps the lock.
        #[source]
        source: std::io::Error,
    },
    /// Another user could have put files into the skeleton.
    #[error(
        "the host image below {path} is owned or writable by another user: remove it, or choose another cache directory"
    )]
    Untrusted {
        /// The directory with the foreign owner or the open mode.
        path: PathBuf,
    },
    /// Building a skeleton failed.
    #[error("cannot build the host image: cannot {attempt} {path}")]
    Build {
        /// The attempt on the path, as a verb.
        attempt: &'static str,
        /// The file or directory of the attempt.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// The skeleton was built several times, and each time swept away before it could be locked.
    #[error("the host image {path} disappears each time it is built: another process removes it")]
    Vanishes {
        /// The layer's directory.
        path: PathBuf,
    },
    /// Listing or removing failed.
    #[error("cannot sweep {path}")]
    Sweep {
        /// The directory being listed or removed.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
}
