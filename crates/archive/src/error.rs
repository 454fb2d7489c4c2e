//! Why an archive cannot be read.

use crate::limits::LimitError;
use crate::path::PathError;
use crate::pax::PaxError;
use crate::sparse::SparseError;
use std::io;

/// Why the next entry, or content, cannot be had. Nothing can be read from the archive after it.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The stream below fails: a read, or a decompressor's complaint.
    #[error("cannot read the archive at byte {position}")]
    Input {
        /// Where in the uncompressed archive.
        position: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Whoever takes the framing fails.
    #[error("cannot note the archive's framing at byte {position}")]
    Framing {
        /// Where in the uncompressed archive.
        position: u64,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The stream ends within a header or a file.
    #[error("the archive is truncated: it ends at byte {position} within {within}")]
    Truncated {
        /// Where it ends.
        position: u64,
        /// A path or a kind of header.
        within: String,
    },
    /// What should be a header is none.
    #[error("the archive has no valid header at byte {position}: {reason}")]
    Header {
        /// Where it begins.
        position: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A numeric field holds no number, or one that makes no sense there, as a negative size.
    #[error("the header at byte {position} has an invalid {field}")]
    Number {
        /// Where the header begins.
        position: u64,
        /// Which field.
        field: &'static str,
    },
    /// An extended header is malformed.
    #[error("the extended header before byte {position} is invalid")]
    Pax {
        /// Where it ends.
        position: u64,
        /// Why.
        #[source]
        source: PaxError,
    },
    /// A sparse file has no valid map.
    #[error("{path:?} is not stored as its header says")]
    Sparse {
        /// The file.
        path: String,
        /// Why.
        #[source]
        source: SparseError,
    },
    /// A name that cannot be a path in a tree.
    #[error("the entry before byte {position} has an invalid name")]
    Path {
        /// Where its header ends.
        position: u64,
        /// Why.
        #[source]
        source: PathError,
    },
    /// A link that says nothing, or a hard link to something outside of the tree.
    #[error("{path:?} links to an invalid name")]
    Link {
        /// The link.
        path: String,
        /// Why.
        #[source]
        source: LinkError,
    },
    /// A member of a kind that is no file: parts of multi-volume archives and other vendors' inventions.
    #[error("{path:?} is of an unsupported type {typeflag:?}")]
    Type {
        /// The member.
        path: String,
        /// The header's type flag.
        typeflag: char,
    },
    /// More than the limits allow.
    #[error("the archive is over a limit")]
    Limit(#[source] LimitError),
}

/// Why a link's target is not one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// No target at all.
    #[error("the target is empty")]
    Empty,
    /// A hard link outside of the tree.
    #[error(transparent)]
    Path(#[from] PathError),
}

impl From<ReadError> for io::Error {
    fn from(error: ReadError) -> Self {
        let kind = match &error {
            ReadError::Input { source, .. } | ReadError::Framing { source, .. } => source.kind(),
            ReadError::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            _ => io::ErrorKind::InvalidData,
        };
        Self::new(kind, error)
    }
}
