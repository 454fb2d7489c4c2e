//! Why an extraction fails.

use super::node::Failed;
use crate::entry::Entry;
use crate::error::ReadError;
use crate::path::EntryPath;
use rustix::io::Errno;

/// Why an archive cannot be extracted. Entries made before the error stay.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The archive cannot be read, or exceeds its limits.
    #[error("cannot read the archive")]
    Read(#[source] ReadError),
    /// The directory to extract to cannot be used.
    #[error("cannot open the directory to extract to")]
    Root(#[source] Errno),
    /// An entry cannot be created.
    #[error("cannot make the {what} {path}")]
    Make {
        /// Kind of the entry.
        what: &'static str,
        /// Path of the entry.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// A hard link's target does not exist, or cannot be linked to.
    #[error("cannot link {path} to {target}")]
    Link {
        /// The new name.
        path: EntryPath,
        /// The old one.
        target: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// A file's content cannot be written.
    #[error("cannot write {path}")]
    Write {
        /// The file.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// The content of the original file cannot be read.
    #[error("cannot read {path}")]
    Original {
        /// The file.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// Owner, mode or times cannot be set.
    #[error("cannot set the {what} of {path}")]
    Metadata {
        /// Name of the property.
        what: &'static str,
        /// Path of the entry.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// An extended attribute cannot be set.
    #[error("cannot set the attribute {name:?} of {path}")]
    Attribute {
        /// Name of the attribute.
        name: String,
        /// Path of the entry.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// An entry in the way, or one that a whiteout removes, cannot be removed.
    #[error("cannot remove {path}")]
    Remove {
        /// Path of the entry.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// A directory would replace another kind of entry, or be replaced by one, and
    /// [`Overwrite::SameKind`](crate::Overwrite::SameKind) was asked for.
    #[error("cannot overwrite {old} {path} with {new}")]
    Overwrite {
        /// Path of the entry.
        path: EntryPath,
        /// Kind of the existing entry.
        old: &'static str,
        /// Kind of the entry that would replace it.
        new: &'static str,
    },
}

pub(crate) fn made(what: &'static str, entry: &Entry, source: Errno) -> ExtractError {
    ExtractError::Make {
        what,
        path: entry.path.clone(),
        source,
    }
}

pub(crate) fn metadata(entry: &Entry, failed: Failed) -> ExtractError {
    let path = entry.path.clone();
    match failed {
        Failed::Owner(source) => ExtractError::Metadata {
            what: "owner",
            path,
            source,
        },
        Failed::Mode(source) => ExtractError::Metadata {
            what: "mode",
            path,
            source,
        },
        Failed::Times(source) => ExtractError::Metadata {
            what: "mtime",
            path,
            source,
        },
        Failed::Attribute(name, source) => ExtractError::Attribute { name, path, source },
    }
}
