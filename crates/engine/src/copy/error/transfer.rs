//! Errors of the transfer itself.

use tote_archive::{ExtractError, TransferError, WalkError, WriteError};

/// Reason why a copy broke off.
#[derive(Debug, thiserror::Error)]
pub enum TransferFault {
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
