//! Why an archive cannot be read.

use crate::limits::LimitError;
use crate::path::PathError;
use crate::pax::PaxError;
use crate::sparse::SparseError;
use std::io;

/// Why the next entry or its content cannot be read. Nothing can be read from the archive after such an error.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The input fails, or the decompressor refuses it.
    #[error("cannot read the archive at byte {position}")]
    Input {
        /// Position in the uncompressed archive.
        position: u64,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The receiver of the framing fails.
    #[error("cannot note the archive's framing at byte {position}")]
    Framing {
        /// Position in the uncompressed archive.
        position: u64,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The stream ends within a header or a file.
    #[error("the archive is truncated: it ends at byte {position} within {within}")]
    Truncated {
        /// Position of the end.
        position: u64,
        /// A path, or a kind of header.
        within: String,
    },
    /// A block is not a valid header.
    #[error("the archive has no valid header at byte {position}: {reason}")]
    Header {
        /// Position where the block begins.
        position: u64,
        /// The reason why the header is refused.
        reason: &'static str,
    },
    /// A numeric field does not hold a number, or one that makes no sense there, such as a negative size.
    #[error("the header at byte {position} has an invalid {field}")]
    Number {
        /// Position where the header begins.
        position: u64,
        /// Name of the field.
        field: &'static str,
    },
    /// An extended header is malformed.
    #[error("the extended header before byte {position} is invalid")]
    Pax {
        /// Position where the extended header ends.
        position: u64,
        /// The cause.
        #[source]
        source: PaxError,
    },
    /// The map of a sparse file is invalid.
    #[error("{path:?} is not stored as its header says")]
    Sparse {
        /// The file.
        path: String,
        /// The cause.
        #[source]
        source: SparseError,
    },
    /// A name that cannot be a path in a tree.
    #[error("the entry before byte {position} has an invalid name")]
    Path {
        /// Position where the entry's header ends.
        position: u64,
        /// The cause.
        #[source]
        source: PathError,
    },
    /// A link without a target, or a hard link to a name outside of the tree.
    #[error("{path:?} links to an invalid name")]
    Link {
        /// The link.
        path: String,
        /// The cause.
        #[source]
        source: LinkError,
    },
    /// An unsupported kind of member: a part of a multi-volume archive, or a vendor's extension.
    #[error("{path:?} is of an unsupported type {typeflag:?}")]
    Type {
        /// The member.
        path: String,
        /// The header's type flag.
        typeflag: char,
    },
    /// The archive exceeds the limits.
    #[error("the archive is over a limit")]
    Limit(#[source] LimitError),
}

/// Why a link's target is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The target is empty.
    #[error("the target is empty")]
    Empty,
    /// The target of a hard link is not a path in the tree.
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
