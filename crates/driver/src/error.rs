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
    /// A driver that is root's alone.
    #[error("the {driver} driver needs mounts that only root of the machine may make")]
    NeedsRoot {
        /// The driver.
        driver: Driver,
    },
    /// A directory on another file system.
    #[error("{path} is not on btrfs: use --root with a directory that is")]
    NotBtrfs {
        /// The directory.
        path: PathBuf,
    },
    /// `--disk-size` on a btrfs that counts nothing.
    #[error("--disk-size: btrfs limits by quotas, and they are not enabled on the file system of {path}")]
    NoQuotas {
        /// What was to be limited.
        path: PathBuf,
    },
    /// `--disk-size` on a btrfs that has lost count.
    #[error("--disk-size: the quotas on the file system of {path} are inconsistent, and would not limit it")]
    InconsistentQuotas {
        /// What was to be limited.
        path: PathBuf,
    },
    /// A file that does not become a block device.
    #[error("cannot attach {path} to a loop device")]
    Loop {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// A program that is not there.
    #[error("{name} is not installed: install {package}")]
    NoProgram {
        /// The program.
        name: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// A program that failed.
    #[error("{name}: {said}")]
    Program {
        /// The program.
        name: &'static str,
        /// What it said.
        said: String,
    },
    /// A path in the image that cannot be looked at.
    #[error("cannot look for {path} in the image")]
    Look {
        /// Relative to the root.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Errno,
    },
    /// The container's directory.
    #[error("cannot {attempt} {path}")]
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

impl PrepareError {
    /// Whether the image has a directory that its owner has closed to the caller.
    pub fn is_denied(&self) -> bool {
        matches!(
            self,
            Self::Look {
                source: Errno::ACCESS,
                ..
            }
        )
    }
}
