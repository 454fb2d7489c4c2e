//! Errors of the options `U` and `O` of a mount.

use std::path::PathBuf;

/// Error of a mount whose files cannot be treated as asked.
#[derive(Debug, thiserror::Error)]
pub enum TreatmentFault {
    /// Directory that belongs to the machine.
    #[error(
        "cannot change the owner of {path}, as U asks: this directory is not a container's: mount one below it, or 'chown -R {uid}:{gid} {path}' \
         yourself"
    )]
    Machines {
        /// Path of the directory.
        path: String,
        /// User of the container, as the machine knows it.
        uid: u32,
        /// Group of the container, as the machine knows it.
        gid: u32,
    },
    /// User or group that has no number on the machine.
    #[error(
        "cannot change the owner of {path}, as U asks: the container has no user {uid} with group {gid} on this machine"
    )]
    NoId {
        /// Path of the source.
        path: String,
        /// User in the container.
        uid: u32,
        /// Group in the container.
        gid: u32,
    },
    /// File whose owner cannot be changed.
    #[error("cannot change the owner of {}, as U asks", .path.display())]
    Chown {
        /// Path of the file.
        path: PathBuf,
        /// Reason of the failure.
        source: std::io::Error,
    },
    /// Source that cannot be below an overlay.
    #[error("cannot overlay {path}, as O asks: {why}")]
    Overlay {
        /// Path of the source.
        path: String,
        /// Reason, and advice.
        why: &'static str,
    },
    /// Directory of an overlay that cannot be looked at or made.
    #[error("cannot make an overlay of {}, as O asks", .path.display())]
    Layer {
        /// Path of the directory.
        path: PathBuf,
        /// Reason of the failure.
        source: std::io::Error,
    },
}
