//! Why a container's storage could not be prepared.

use crate::Driver;
use std::path::PathBuf;
use tote_sys::Errno;

/// Why a container's storage could not be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// The driver takes a single tree, but the image has several layers.
    #[error("the {driver} driver takes an image of one layer, and this one has {layers}: use overlay")]
    Layers {
        /// The driver.
        driver: Driver,
        /// Number of layers.
        layers: usize,
    },
    /// The driver cannot limit the size.
    #[error("--disk-size: {driver} cannot limit {what}: {remedy}")]
    DiskSize {
        /// The driver.
        driver: Driver,
        /// The object of the limit.
        what: &'static str,
        /// Advice on an alternative.
        remedy: &'static str,
    },
    /// A path of `--writable` cannot be copied.
    #[error("--writable {path}: {reason}")]
    Writable {
        /// The path as given.
        path: PathBuf,
        /// The reason.
        reason: &'static str,
    },
    /// Only root can use the driver.
    #[error("the {driver} driver needs mounts that only root of the machine may make")]
    NeedsRoot {
        /// The driver.
        driver: Driver,
    },
    /// A directory is on another file system.
    #[error("{path} is not on btrfs: use --root with a directory that is")]
    NotBtrfs {
        /// The directory.
        path: PathBuf,
    },
    /// `--disk-size` on a btrfs without quotas.
    #[error("--disk-size: btrfs limits by quotas, and they are not enabled on the file system of {path}")]
    NoQuotas {
        /// Path on the file system.
        path: PathBuf,
    },
    /// `--disk-size` on a btrfs with inconsistent quotas.
    #[error("--disk-size: the quotas on the file system of {path} are inconsistent, and would not limit it")]
    InconsistentQuotas {
        /// Path on the file system.
        path: PathBuf,
    },
    /// A file cannot be attached to a loop device.
    #[error("cannot attach {path} to a loop device")]
    Loop {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Errno,
    },
    /// A program is not installed.
    #[error("{name} is not installed: install {package}")]
    NoProgram {
        /// The program.
        name: &'static str,
        /// The package that has it.
        package: &'static str,
    },
    /// A program failed.
    #[error("{name}: {said}")]
    Program {
        /// The program.
        name: &'static str,
        /// Its output.
        said: String,
    },
    /// A path in the image cannot be examined.
    #[error("cannot look for {path} in the image")]
    Look {
        /// Path relative to the root.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Errno,
    },
    /// An operation in the container's directory failed.
    #[error("cannot {attempt} {path}")]
    State {
        /// The attempt, as a verb.
        attempt: &'static str,
        /// Path of the attempt.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

impl PrepareError {
    /// True if the image has a directory that its owner has closed to the caller.
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
