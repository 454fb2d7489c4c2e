//! A storage as a driver has prepared it.

use std::fmt;
use std::fs::File;
use std::path::PathBuf;
use tote_rootfs::Storage;
use tote_sys::LoopDevice;

/// Result of the preparation.
#[derive(Debug)]
pub struct Prepared {
    /// Description of the mounts.
    pub storage: Storage,
    /// Further objects that belong to the storage.
    pub beside: Beside,
}

/// Objects that belong to a storage beside its mounts.
#[derive(Debug, Default)]
pub struct Beside {
    /// Loop devices that must be held until all mounts are made.
    pub held: Vec<LoopDevice>,
    /// Lock on the place where the container's tree is mounted already, which must be held as long.
    pub place: Option<File>,
    /// Limit that was set, if it is not that of a mount.
    pub limit: Option<Limit>,
}

/// A limit on a directory tree; displayed as the operation that sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Path of the top of the tree.
    pub path: PathBuf,
    /// Limit in bytes on the content that the tree does not share with others.
    pub size: u64,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "limit {} to {} bytes of its own",
            self.path.display(),
            self.size
        )
    }
}

impl Prepared {
    pub(crate) fn of(storage: Storage) -> Self {
        Self {
            storage,
            beside: Beside::default(),
        }
    }
}
