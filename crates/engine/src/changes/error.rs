//! Why what a container changed cannot be had.

use std::path::PathBuf;

/// Why a container's changes cannot be read or packed.
#[derive(Debug, thiserror::Error)]
pub enum ContainerError {
    /// docker's wording.
    #[error("No such container: {0}")]
    NoContainer(String),
    /// docker's wording.
    #[error("multiple IDs found with provided prefix: {0}")]
    Ambiguous(String),
    /// A container with `--rm` has its writes in memory that only its processes see.
    #[error("container {0} keeps what it writes in memory only, because it was started with --rm")]
    InMemory(String),
    /// The file system that a container has in a file.
    #[error("{attempt} {path}")]
    Disk {
        /// What was tried.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A command that was killed did not write down what its container was.
    #[error("read what is known of container {id}")]
    Unknown {
        /// The container.
        id: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Its image is made of the machine's own files.
    #[error("container {0} is one of the host image, whose files are this machine's own")]
    OfHost(String),
    /// A directory of the container's.
    #[error("open {path}")]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The container's tree or its image's.
    #[error("read what container {id} changed")]
    Walk {
        /// The container.
        id: String,
        /// Why not.
        #[source]
        source: tote_archive::WalkError,
    },
    /// The archive of it.
    #[error("pack what container {id} changed")]
    Write {
        /// The container.
        id: String,
        /// Why not.
        #[source]
        source: tote_archive::WriteError,
    },
    /// A file's content on its way.
    #[error("pack {path}")]
    Content {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The pipe between the one who packs and the store.
    #[error("make a pipe")]
    Pipe(#[source] std::io::Error),
    /// The thread of the one who packs, or who reads a log.
    #[error("failed to start a thread")]
    Thread(#[source] std::io::Error),
}
