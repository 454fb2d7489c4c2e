//! Errors of the two places of a copy.

/// Reason why something cannot be copied from or to a place; the words are docker's.
#[derive(Debug, thiserror::Error)]
pub enum PlaceError {
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
    /// File to the place of a directory of the same name, or the reverse; docker's words.
    #[error("cannot overwrite directory {0:?} with non-directory")]
    FileOnDirectory(String),
}
