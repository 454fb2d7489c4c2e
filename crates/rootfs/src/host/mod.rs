//! The `host` image: the host's own programs as a container's root.
//!
//! `/usr` is bound from the host; everything else comes from a *skeleton*, a small directory that is the only lower
//! layer of an overlay. It is built once per state of the host, which a fingerprint recognises:
//!
//! ```text
//! CACHE/
//! ├── host-0123456789abcdef/   0700: the layer's /tmp is 1777 and must not be reachable for others of the host
//! │   └── root/                0755: the layer; its users hold a shared flock on it
//! └── .building-PID-N/         a skeleton in the making; its builder holds an exclusive flock on it
//! ```
//!
//! A finished skeleton gets its name by rename and never changes. A process that removes one takes the exclusive
//! lock on `root` and renames the whole directory first. So a process that holds a lock on `root`, and sees its
//! name still lead to the same inode, knows that the skeleton stays.

mod cache;
mod copy;
mod error;
mod etc;
mod fingerprint;
mod skeleton;

#[cfg(test)]
mod tests;

pub use cache::{sweep, sweep_abandoned};
pub use error::HostImageError;

use crate::rootfs::{Bind, Rootfs, Upper};
use fingerprint::Host;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use tote_sys::{LockKind, MOMENT_LOCK, lock_within};

/// A finished skeleton, held by a lock: while this value (or a copy of its descriptor in another process) lives,
/// [`sweep`] leaves it alone. Keep it as long as the container's root is mounted.
///
/// The layer belongs to the user who prepared it. A container whose user namespace maps its root to another user
/// needs the layer through an idmapped mount, and by [`HostImage::layer`], since its own user cannot walk to
/// `lower`.
#[derive(Debug)]
pub struct HostImage {
    /// The read-only lower layer.
    pub lower: PathBuf,
    /// Bind mounts on top: `usr`, and on a host without merged `/usr` also `bin`, `lib` and so on.
    pub binds: Vec<Bind>,
    layer: OwnedFd,
}

impl HostImage {
    /// Prepares the host image below `cache_dir`, which is created if it is missing. Takes a few microseconds if an
    /// earlier call has built it and the host has not changed; otherwise some tens of milliseconds.
    ///
    /// Several processes may call this at once for the same directory.
    ///
    /// # Errors
    ///
    /// [`HostImageError`], whose variants name the attempt and the path.
    pub fn prepare(cache_dir: &Path) -> Result<Self, HostImageError> {
        Self::prepare_from(Path::new("/"), cache_dir)
    }

    fn prepare_from(host_root: &Path, cache_dir: &Path) -> Result<Self, HostImageError> {
        const ATTEMPTS: usize = 8;

        // The mount happens in another working directory, so the path must be absolute.
        let cache_dir = &std::path::absolute(cache_dir).map_err(|source| HostImageError::CreateCache {
            path: cache_dir.to_owned(),
            source,
        })?;
        let host = Host::look(host_root)?;
        let home = cache_dir.join(format!("host-{:016x}", host.fingerprint));
        let lower = home.join(cache::LAYER);
        for _ in 0..ATTEMPTS {
            if let Some(layer) = hold(&lower)? {
                return Ok(HostImage {
                    lower,
                    binds: host.binds(),
                    layer,
                });
            }
            cache::build(&host, cache_dir, &home)?;
        }
        Err(HostImageError::Vanishes { path: lower })
    }

    /// Returns the layer's directory as a descriptor, open for reading and close-on-exec. It carries the lock.
    #[must_use]
    pub fn layer(&self) -> BorrowedFd<'_> {
        self.layer.as_fd()
    }

    /// Describes the root of this image together with `upper`.
    #[must_use]
    pub fn rootfs(&self, upper: Upper) -> Rootfs {
        Rootfs {
            lowers: vec![self.lower.clone()],
            own_inodes: None,
            upper,
            binds: self.binds.clone(),
        }
    }
}

/// Opens and locks a finished layer; `None` if it does not exist (any more).
fn hold(lower: &Path) -> Result<Option<OwnedFd>, HostImageError> {
    let failed_wait = |source| HostImageError::Open {
        path: lower.to_owned(),
        source,
    };
    let failed = |errno: Errno| failed_wait(errno.into());
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let layer = match rustix::fs::open(lower, flags, Mode::empty()) {
        Ok(layer) => layer,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    lock_within(layer.as_fd(), LockKind::Shared, MOMENT_LOCK, lower).map_err(failed_wait)?;
    let held = rustix::fs::fstat(&layer).map_err(failed)?;
    if !cache::is_ours(&held) {
        return Err(HostImageError::Untrusted {
            path: lower.to_owned(),
        });
    }
    match rustix::fs::lstat(lower) {
        Ok(named) if (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino) => Ok(Some(layer)),
        Ok(_) | Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed(errno)),
    }
}
