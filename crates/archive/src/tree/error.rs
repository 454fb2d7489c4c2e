//! Why an extraction fails.

use super::node::Failed;
use crate::entry::Entry;
use crate::error::ReadError;
use crate::path::EntryPath;
use rustix::io::Errno;

/// Why an archive does not become a directory. What was extracted before stays.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The archive cannot be read, or asks for too much.
    #[error("cannot read the archive")]
    Read(#[source] ReadError),
    /// The directory to extract to cannot be used.
    #[error("cannot open the directory to extract to")]
    Root(#[source] Errno),
    /// An entry cannot be made.
    #[error("cannot make the {what} {path}")]
    Make {
        /// What it is.
        what: &'static str,
        /// Where.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// A hard link's target is not there, or cannot be linked to.
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
    /// The content of the file that is copied cannot be read.
    #[error("cannot read {path}")]
    Original {
        /// The file.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// An owner, a mode or a time cannot be set.
    #[error("cannot set the {what} of {path}")]
    Metadata {
        /// Which.
        what: &'static str,
        /// Of what.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// An extended attribute cannot be set.
    #[error("cannot set the attribute {name:?} of {path}")]
    Attribute {
        /// Its name.
        name: String,
        /// Of what.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// What is in the way, or what a whiteout removes, cannot be removed.
    #[error("cannot remove {path}")]
    Remove {
        /// What.
        path: EntryPath,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// A directory would replace something else, or be replaced by it, and [`Overwrite::SameKind`](crate::Overwrite::SameKind) was asked for.
    #[error("cannot overwrite {old} {path} with {new}")]
    Overwrite {
        /// Where.
        path: EntryPath,
        /// What is there.
        old: &'static str,
        /// What was to come.
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
