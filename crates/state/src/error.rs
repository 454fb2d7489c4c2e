//! Why the state root, or a file in it, cannot be used.

use crate::locked::is_full_disk;
use crate::record::RecordError;
use std::io::ErrorKind;
use std::path::PathBuf;
use tote_sys::Errno;

/// Why the state root, or a file in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// No state root: the environment names no place for one.
    #[error("no state root: neither $HOME nor $XDG_DATA_HOME is an absolute path")]
    NoHome,
    /// The state root cannot be used.
    #[error("cannot {attempt} the state root {path}")]
    Home {
        /// What was tried.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The state root would be in a directory of another user, who could change whatever is in it.
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
        /// One of the files.
        name: String,
    },
    /// A file or a directory of the state.
    #[error("cannot {attempt} {path}")]
    File {
        /// What was tried.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A file of configuration.
    #[error("{path}")]
    Config {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// An unknown word for what images share with the host.
    #[error("invalid --share-host {0:?}: give reflink, hardlink or never")]
    ShareHost(String),
    /// A record that is there and says nothing.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The kernel does not say whether a process is still there.
    #[error("cannot look at the container's process")]
    Process(#[source] Errno),
    /// The kernel gives no random bytes.
    #[error("cannot make an id")]
    Id(#[source] Errno),
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

    /// Whether there is no room for a file, on the disk or within a quota.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, Self::File { source, .. } if is_full_disk(source))
    }

    /// Whether a file is not there, or the directory that it was to be made in.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::File { source, .. } if source.kind() == ErrorKind::NotFound)
    }
}
