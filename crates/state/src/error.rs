//! Errors about the state root and its files.

use crate::locked::is_full_disk;
use crate::record::{Damaged, RecordError};
use std::io::ErrorKind;
use std::path::PathBuf;
use tote_sys::Errno;

/// Why the state root, or a file in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// The environment names no place for a state root.
    #[error("no state root: neither $HOME nor $XDG_DATA_HOME is an absolute path")]
    NoHome,
    /// The state root cannot be used.
    #[error("cannot {attempt} the state root {path}")]
    Home {
        /// The attempt, as a verb.
        attempt: &'static str,
        /// Path of the attempt.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The state root would be in a directory of another user, who could change everything in it.
    #[error(
        "cannot keep state in {path}: the directory belongs to user {uid}, who could change what is in it"
    )]
    HomeOwner {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The state root would be a directory with other files, which it would close to other users.
    #[error(
        "cannot keep state in {path}: it has files that are not tote's ({name}), which tote would close to other users"
    )]
    HomeInUse {
        /// The directory.
        path: PathBuf,
        /// Name of one of the files.
        name: String,
    },
    /// A file or a directory of the state cannot be used.
    #[error("cannot {attempt} {path}")]
    File {
        /// The attempt, as a verb.
        attempt: &'static str,
        /// Path of the attempt.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// A configuration file is invalid.
    #[error("{path}")]
    Config {
        /// The file.
        path: PathBuf,
        /// The reason why the file is refused.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An unknown word for the kind of sharing between images and the host.
    #[error("invalid --share-host {0:?}: give reflink, hardlink or never")]
    ShareHost(String),
    /// A record exists but cannot be read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// An object whose record exists and cannot be used.
    #[error(transparent)]
    Damaged(Box<Damaged>),
    /// The kernel did not say whether a process still exists.
    #[error("cannot look at the container's process")]
    Process(#[source] Errno),
    /// The kernel gives no random bytes.
    #[error("cannot make an id")]
    Id(#[source] Errno),
}

impl From<Damaged> for StateError {
    fn from(damaged: Damaged) -> Self {
        Self::Damaged(Box::new(damaged))
    }
}

impl StateError {
    /// The error of an attempt, in words such as `make`, on a file or a directory.
    pub fn file<E: Into<std::io::Error>>(
        attempt: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(E) -> Self {
        move |source| Self::File {
            attempt,
            path: path.into(),
            source: source.into(),
        }
    }

    /// True if a file does not fit on the disk or into a quota.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::File { source, .. } if is_full_disk(source))
    }

    /// True if a file, or the directory in which it was to be created, does not exist.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == ErrorKind::NotFound)
    }
}
