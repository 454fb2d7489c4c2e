//! Why a container's storage could not be prepared.

use crate::Driver;
use std::path::PathBuf;
use tote_sys::Errno;

/// Why a container's storage could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// A driver that takes one tree was given several layers.
    #[error("the {driver} driver takes an image of one layer, and this one has {layers}: use overlay")]
    Layers {
        /// The driver.
        driver: Driver,
        /// How many layers.
        layers: usize,
    },
    /// A size that this driver cannot keep to.
    #[error("--disk-size: {driver} cannot limit {what}: {remedy}")]
    DiskSize {
        /// The driver.
        driver: Driver,
        /// What was to be limited.
        what: &'static str,
        /// What can.
        remedy: &'static str,
    },
    /// `--writable` with something that cannot be a copy.
    #[error("--writable {path}: {reason}")]
    Writable {
        /// As given.
        path: PathBuf,
        /// Why not.
        reason: &'static str,
    },
    /// A path in the image that cannot be looked at.
    #[error("look for {path} in the image")]
    Look {
        /// Relative to the root.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// The container's directory.
    #[error("{attempt} {path}")]
    State {
        /// What was tried.
        attempt: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}
