//! Errors of `cp`, in docker's words if it has some.

mod place;
mod transfer;

pub use place::PlaceError;
use tote_archive::{ExtractError, ReadError, WriteError};
use tote_sys::Errno;
pub use transfer::TransferFault;

/// Error of a copy.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// Copy without a container.
    #[error("must specify at least one container source")]
    NoContainer,
    /// Empty argument.
    #[error("{0} can not be empty")]
    Empty(&'static str),
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
    /// Archive from the other side that cannot be read.
    #[error("cannot read the archive of the virtual machine")]
    Received(#[source] ReadError),
    /// Failed copy in a virtual machine, whose words these are.
    #[error("{0}")]
    Guest(String),
    /// Failed read or write of the archive on this machine.
    #[error("cannot pass the archive on")]
    Passed(#[source] std::io::Error),
    /// Request that cannot be written.
    #[error("cannot ask the virtual machine for a copy")]
    Asked(#[source] serde_json::Error),
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
    /// A path that is not there, or is of the wrong kind.
    #[error(transparent)]
    Place(#[from] PlaceError),
    /// Failed transfer.
    #[error(transparent)]
    Transfer(#[from] TransferFault),
}
tote_records::part!(CopyError, PlaceError, TransferFault);
tote_records::parts! {
    CopyError {
        tote_archive::PathError => Transfer,
        WriteError => Transfer,
    }
}

impl tote_records::PartError for CopyError {
    fn exit_code(&self) -> u8 {
        1
    }

    fn hint(&self) -> Option<String> {
        let text = match self {
            Self::NoContainer => {
                "write CONTAINER:PATH; what begins with a slash or a dot is a path of this machine"
            }
            Self::Outside(_) => "create it with --writable DIR, or with another --driver",
            Self::Transfer(TransferFault::Extract {
                source: ExtractError::Read(ReadError::Limit(_)),
                ..
            }) => "it asks for more than any sensible archive does",
            _ => return None,
        };
        Some(text.to_owned())
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
