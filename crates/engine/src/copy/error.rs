//! Errors of `cp`, in docker's words if it has some.

use tote_archive::{ExtractError, ReadError, TransferError, WalkError, WriteError};
use tote_sys::Errno;

/// Error of a copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Copy without a container.
    #[error("must specify at least one container source")]
    NoContainer,
    /// Empty argument.
    #[error("{0} can not be empty")]
    Empty(&'static str),
    /// Missing file of a container.
    #[error("Could not find the file {path} in container {container}")]
    NotThere {
        /// Path as given.
        path: String,
        /// Container as given.
        container: String,
    },
    /// Missing file of this machine.
    #[error("lstat {0}: no such file or directory")]
    NotHere(String),
    /// Missing parent directory of the destination.
    #[error("invalid output path: directory {0:?} does not exist")]
    NoParent(String),
    /// Unusable path.
    #[error("cannot {attempt} {path}")]
    Path {
        /// Attempted action.
        attempt: &'static str,
        /// Path, with its container if it is in one.
        path: String,
        /// Reason of the failure.
        #[source]
        source: Errno,
    },
    /// Socket as a source.
    #[error("cannot copy {0}: it is a socket")]
    Socket(String),
    /// Directory to the place of a file.
    #[error("cannot copy directory: {0} is a file")]
    DirectoryOnFile(String),
    /// File to a missing directory.
    #[error("no such directory: {0}")]
    NoDirectory(String),
    /// File to a directory that is a file.
    #[error("not a directory: {0}")]
    NotDirectory(String),
    /// Device, FIFO or socket as the destination.
    #[error("destination {0:?} must be a directory or a regular file")]
    Special(String),
    /// Archive to a destination other than a directory.
    #[error("destination {0:?} must be a directory")]
    StreamToFile(String),
    /// Write to a container with `--read-only`.
    #[error("container rootfs is marked read-only")]
    ReadOnlyRoot,
    /// Write to a read-only volume or mount.
    #[error("mounted volume is marked read-only")]
    ReadOnlyMount,
    /// Write to a file of which the driver split has no copy.
    #[error(
        "cannot write {0}: it is part of the image, which is read-only for this container (--driver split)"
    )]
    Outside(String),
    /// File to the place of a directory of the same name, or the reverse; docker's words.
    #[error("cannot overwrite directory {0:?} with non-directory")]
    FileOnDirectory(String),
    /// Failed open of a container's root.
    #[error("cannot open the root of container {id}")]
    Root {
        /// Id of the container.
        id: String,
        /// Reason of the failure.
        #[source]
        source: Errno,
    },
    /// Failed entry into a container's user namespace.
    #[error("cannot enter the user namespace of container {id}")]
    Ids {
        /// Id of the container.
        id: String,
        /// Reason of the failure.
        #[source]
        source: Errno,
    },
    /// Container that ended before its root was open.
    #[error("container {0} ended")]
    Ended(String),
    /// Invalid name of an entry.
    #[error(transparent)]
    Name(#[from] tote_archive::PathError),
    /// Failed transfer.
    #[error("cannot copy to {to}")]
    Transfer {
        /// Destination.
        to: String,
        /// Reason of the failure.
        #[source]
        source: TransferError,
    },
    /// Failed transfer of a single file.
    #[error("cannot copy to {to}: {why}")]
    Single {
        /// Destination.
        to: String,
        /// Reason of the failure.
        why: String,
    },
    /// Failed read of standard input.
    #[error("cannot read the archive")]
    Input(#[source] std::io::Error),
    /// Failed extraction of the archive on standard input.
    #[error("cannot extract the archive to {to}")]
    Extract {
        /// Destination.
        to: String,
        /// Reason of the failure.
        #[source]
        source: ExtractError,
    },
    /// Failed read of a tree for standard output.
    #[error("cannot read {from}")]
    Walk {
        /// Source.
        from: String,
        /// Reason of the failure.
        #[source]
        source: WalkError,
    },
    /// Failed write of the archive on standard output.
    #[error("cannot write the archive")]
    Write(#[from] WriteError),
    /// Failed write to standard output.
    #[error("cannot write the archive")]
    Output(#[source] std::io::Error),
}

impl CopyError {
    /// Suggests a remedy.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoContainer => {
                "write CONTAINER:PATH; what begins with a slash or a dot is a path of this machine"
            }
            Self::Outside(_) => "create it with --writable DIR, or with another --driver",
            Self::Extract {
                source: ExtractError::Read(ReadError::Limit(_)),
                ..
            } => "it asks for more than any sensible archive does",
            _ => return None,
        })
    }
}

/// Returns the text of the last cause of an error, which is the most specific.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
