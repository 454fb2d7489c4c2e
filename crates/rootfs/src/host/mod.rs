//! The `host` image: the host's own programs as a container's root.
//!
//! `/usr` is bound from the host; everything else comes from a *skeleton*, a small directory that is the only lower
//! layer of an overlay. It is built once per state of the host, which a fingerprint recognises:
//!
//! ```text
//! CACHE/
//! ├── host-0123456789abcdef/   0700: the layer's /tmp is 1777 and must not be reachable for others of the host
//! │   ├── root/                0755: the layer; whoever uses it holds a shared flock on it
//! │   └── private-paths        on first need, see HostImage::private_paths
//! └── .building-PID-N/         a skeleton in the making; its builder holds an exclusive flock on it
//! ```
//!
//! A finished skeleton gets its name by rename and never changes. Whoever removes one takes the exclusive lock on
//! `root` and renames the whole away first, so a lock on `root` together with its name still leading to the same inode
//! proves that it stays.

mod cache;
mod copy;
mod etc;
mod fingerprint;
mod private;
mod skeleton;

#[cfg(test)]
mod tests;

pub use cache::{sweep, sweep_abandoned};
pub use private::private_paths;

use crate::rootfs::{Bind, Rootfs, Upper};
use fingerprint::Host;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Why a host image could not be made ready, listed or removed.
#[derive(Debug, thiserror::Error)]
pub enum HostImageError {
    /// The cache directory itself.
    #[error("cannot make the cache directory {path}")]
    CreateCache {
        /// The cache directory.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// Opening or locking a finished skeleton.
    #[error("cannot open the host image {path}")]
    Open {
        /// The layer's directory.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// Somebody else could have put files into it.
    #[error(
        "the host image below {path} is owned or writable by another user: remove it, or choose another cache directory"
    )]
    Untrusted {
        /// The directory with the foreign owner or the open mode.
        path: PathBuf,
    },
    /// Building a skeleton.
    #[error("cannot build the host image: cannot {attempt} {path}")]
    Build {
        /// What was done to the path, as a verb.
        attempt: &'static str,
        /// The file or directory it was done to.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// Built several times, and every time swept away before it could be locked.
    #[error("the host image {path} disappears each time it is built: another process removes it")]
    Vanishes {
        /// The layer's directory.
        path: PathBuf,
    },
    /// Listing or removing.
    #[error("cannot sweep {path}")]
    Sweep {
        /// The directory being listed or removed.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: std::io::Error,
    },
    /// Walking the host's program directory for files that are not for everybody.
    #[error("cannot list the private files: cannot read {path}")]
    Walk {
        /// The directory that could not be read.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
}

/// A skeleton that is ready, and held: while this value (or a copy of its descriptor in another process) lives,
/// [`sweep`] leaves it alone. Keep it as long as the container's root is mounted.
///
/// The layer belongs to the user who prepared it. A container whose user namespace maps its root to somebody else
/// needs the layer through an idmapped mount, and by [`HostImage::layer`], since its own user cannot walk to `lower`.
#[derive(Debug)]
pub struct HostImage {
    /// The read-only lower layer.
    pub lower: PathBuf,
    /// What to bind on top: `usr`, and on a host without merged `/usr` also `bin`, `lib` and so on.
    pub binds: Vec<Bind>,
    layer: OwnedFd,
}

impl HostImage {
    /// Makes the host image ready below `cache_dir`, which is created where missing. A few microseconds when an
    /// earlier call has built it and the host has not changed; otherwise some tens of milliseconds.
    ///
    /// Any number of processes may call this at once for the same directory.
    ///
    /// # Errors
    ///
    /// [`HostImageError`], whose variants name the attempt and the path.
    pub fn prepare(cache_dir: &Path) -> Result<Self, HostImageError> {
        Self::prepare_from(Path::new("/"), cache_dir)
    }

    fn prepare_from(host_root: &Path, cache_dir: &Path) -> Result<Self, HostImageError> {
        const ATTEMPTS: usize = 8;

        // Mounting happens in another working directory.
        let cache_dir = &std::path::absolute(cache_dir).map_err(|source| HostImageError::CreateCache {
            path: cache_dir.to_owned(),
            source,
        })?;
        let host = Host::look(host_root);
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

    /// The layer's directory as a descriptor, open for reading and close-on-exec. It carries the lock.
    #[must_use]
    pub fn layer(&self) -> BorrowedFd<'_> {
        self.layer.as_fd()
    }

    /// The root that this image makes together with `upper`.
    #[must_use]
    pub fn rootfs(&self, upper: Upper) -> Rootfs {
        Rootfs {
            lowers: vec![self.lower.clone()],
            own_inodes: None,
            upper,
            binds: self.binds.clone(),
        }
    }

    /// [`private_paths`] of every bound directory, walked on the first call and remembered beside the layer: the
    /// answer is as old as the skeleton. Far too slow for every start on the first call.
    ///
    /// # Errors
    ///
    /// [`HostImageError::Walk`], or [`HostImageError::Build`] when the list cannot be written.
    pub fn private_paths(&self) -> Result<Vec<PathBuf>, HostImageError> {
        private::remembered(&self.lower, &self.binds)
    }
}

/// Opens and locks a finished layer; `None` when there is none (any more).
fn hold(lower: &Path) -> Result<Option<OwnedFd>, HostImageError> {
    let failed = |source| HostImageError::Open {
        path: lower.to_owned(),
        source,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let layer = match rustix::fs::open(lower, flags, Mode::empty()) {
        Ok(layer) => layer,
        Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(errno)),
    };
    rustix::io::retry_on_intr(|| rustix::fs::flock(&layer, FlockOperation::LockShared)).map_err(failed)?;
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
