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
    #[error("container {0} was started with --rm and keeps its writes in memory only")]
    InMemory(String),
    /// A container in a virtual machine with `--tmpfs-size` has its writes in that one's memory.
    #[error("container {0} keeps its writes in the memory of its virtual machine only")]
    InGuest(String),
    /// A virtual machine that stands still answers nothing.
    #[error("cannot read the changes of container {0}: its virtual machine is paused")]
    PausedGuest(String),
    /// A pod's machine itself has no image.
    #[error("cannot read the changes of container {0}: it is the virtual machine of a pod, without an image")]
    Infra(String),
    /// The guest of a virtual machine does not tell the changes.
    #[error("cannot read the changes of container {id}: {reason}")]
    Guest {
        /// The container.
        id: String,
        /// Why not.
        reason: String,
    },
    /// The file system that a container has in a file.
    #[error("cannot {attempt} {path}")]
    Disk {
        /// The attempt, a verb phrase.
        attempt: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A command that was killed did not write down what its container was.
    #[error("cannot read the record of container {id}")]
    Unknown {
        /// The container.
        id: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Its image is made of the machine's own files.
    #[error("container {0} runs the host image: its files are this machine's own")]
    OfHost(String),
    /// A directory of the container's.
    #[error("cannot open {path}")]
    Open {
        /// The directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The container's tree or its image's.
    #[error("cannot read the changes of container {id}")]
    Walk {
        /// The container.
        id: String,
        /// Why not.
        #[source]
        source: tote_archive::WalkError,
    },
    /// The archive of it.
    #[error("cannot pack the changes of container {id}")]
    Write {
        /// The container.
        id: String,
        /// Why not.
        #[source]
        source: tote_archive::WriteError,
    },
    /// A file's content on its way.
    #[error("cannot pack {path}")]
    Content {
        /// The file.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The pipe between the one who packs and the store.
    #[error("cannot make a pipe")]
    Pipe(#[source] std::io::Error),
    /// The thread that packs, or that reads a log, could not be started.
    #[error("failed to start a thread")]
    Thread(#[source] std::io::Error),
    /// A mount for other programs.
    #[error(transparent)]
    Mount(#[from] crate::MountFault),
}

impl ContainerError {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::InMemory(_) => Some("start it without --rm"),
            Self::InGuest(_) => Some("start it without --tmpfs-size"),
            Self::PausedGuest(_) => {
                Some("tote unpause lets it answer, and commit holds the writes by itself")
            }
            Self::OfHost(_) => Some("start it from an image of the store, or from a directory (rootfs:DIR)"),
            Self::Mount(fault) => fault.hint(),
            _ => None,
        }
    }
}
