//! Volumes that get the image's files.

use rustix::fd::OwnedFd;
use std::sync::Arc;

/// Bind mount whose source, an empty directory, gets a copy of what the root has at its destination.
#[derive(Clone, Debug)]
pub struct Fill {
    /// Destination of the mount.
    pub destination: String,
    /// User and group of all copies, in ids of the container; `None` keeps the owners.
    pub owner: Option<(u32, u32)>,
    /// Lock of flock(2) under which the source was found empty; the new process gives it back.
    pub lock: Option<Arc<OwnedFd>>,
}
