//! Why nothing is copied, in docker's words where it has some.

use tote_archive::{ExtractError, ReadError, TransferError, WalkError, WriteError};
use tote_sys::Errno;

/// Why `cp` failed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Neither word names a container.
    #[error("must specify at least one container source")]
    NoContainer,
    /// An empty word.
    #[error("{0} can not be empty")]
    Empty(&'static str),
    /// Something in a container that is not there.
    #[error("Could not find the file {path} in container {container}")]
    NotThere {
        /// As given.
        path: String,
        /// As given.
        container: String,
    },
    /// Something of this machine's that is not there.
    #[error("lstat {0}: no such file or directory")]
    NotHere(String),
    /// The directory above what is to be made.
    #[error("invalid output path: directory {0:?} does not exist")]
    NoParent(String),
    /// A path that cannot be used.
    #[error("cannot {attempt} {path}")]
    Path {
        /// What was tried.
        attempt: &'static str,
        /// With its container, where it is in one.
        path: String,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// A socket.
    #[error("cannot copy {0}: it is a socket")]
    Socket(String),
    /// A directory where a file is.
    #[error("cannot copy directory: {0} is a file")]
    DirectoryOnFile(String),
    /// A file as a directory that is not there.
    #[error("no such directory: {0}")]
    NoDirectory(String),
    /// A file as a directory that is a file.
    #[error("not a directory: {0}")]
    NotDirectory(String),
    /// A device, FIFO or socket.
    #[error("destination {0:?} must be a directory or a regular file")]
    Special(String),
    /// An archive to something else than a directory.
    #[error("destination {0:?} must be a directory")]
    StreamToFile(String),
    /// `--read-only`
    #[error("container rootfs is marked read-only")]
    ReadOnlyRoot,
    /// A volume or another mount.
    #[error("mounted volume is marked read-only")]
    ReadOnlyMount,
    /// The driver split has no copy of it.
    #[error(
        "cannot write {0}: it is part of the image, which is read-only for this container (--driver split)"
    )]
    Outside(String),
    /// A directory of the same name, or the other way round; docker's words.
    #[error("cannot overwrite directory {0:?} with non-directory")]
    FileOnDirectory(String),
    /// The root of a container.
    #[error("cannot open the root of container {id}")]
    Root {
        /// Its id.
        id: String,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// Its user namespace.
    #[error("cannot enter the user namespace of container {id}")]
    Ids {
        /// Its id.
        id: String,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// It ended before its root was open.
    #[error("container {0} ended")]
    Ended(String),
    /// A name that no entry can have.
    #[error(transparent)]
    Name(#[from] tote_archive::PathError),
    /// On the way.
    #[error("cannot copy to {to}")]
    Transfer {
        /// Where to.
        to: String,
        /// Why not.
        #[source]
        source: TransferError,
    },
    /// One file on the way.
    #[error("cannot copy to {to}: {why}")]
    Single {
        /// Where to.
        to: String,
        /// Why not.
        why: String,
    },
    /// What comes from standard input.
    #[error("cannot read the archive")]
    Input(#[source] std::io::Error),
    /// The same.
    #[error("cannot extract the archive to {to}")]
    Extract {
        /// Where to.
        to: String,
        /// Why not.
        #[source]
        source: ExtractError,
    },
    /// What goes to standard output.
    #[error("cannot read {from}")]
    Walk {
        /// Where from.
        from: String,
        /// Why not.
        #[source]
        source: WalkError,
    },
    /// The same.
    #[error("cannot write the archive")]
    Write(#[from] WriteError),
    /// The same.
    #[error("cannot write the archive")]
    Output(#[source] std::io::Error),
}

impl CopyError {
    /// What to do about it.
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

/// The last cause of an error, which says the most.
pub(super) fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(cause) = last.source() {
        last = cause;
    }
    last.to_string()
}
