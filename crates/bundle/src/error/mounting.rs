//! Errors of options that describe what is mounted.

use crate::disk::DiskError;
use crate::mount::{MountOptionError, TmpfsError, VolumeError, VolumesFromError};

/// Why a description of a mount is refused.
#[expect(missing_docs, reason = "each variant is the error of the value's own module")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MountingError {
    #[error(transparent)]
    Volume(#[from] VolumeError),
    #[error(transparent)]
    Mount(#[from] MountOptionError),
    #[error(transparent)]
    Tmpfs(#[from] TmpfsError),
    #[error(transparent)]
    Disk(#[from] DiskError),
    #[error(transparent)]
    Secret(#[from] crate::secret::SecretError),
    #[error(transparent)]
    VolumesFrom(#[from] VolumesFromError),
}
