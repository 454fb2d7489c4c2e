//! The cache directory: building under a temporary name, publishing by rename, sweeping unused skeletons.

use super::error::HostImageError;
use super::fingerprint::Host;
use super::{HostImage, skeleton};
use rustix::fs::{FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Name of the layer inside a skeleton's directory.
pub(super) const LAYER: &str = "root";

const READY: &[u8] = b"host-";
const UNFINISHED: &str = ".building-";
const SWEPT: &str = ".swept-";

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// True if only the caller can have put files into the directory.
pub(super) fn is_ours(stat: &Stat) -> bool {
    stat.st_uid == rustix::process::geteuid().as_raw() && stat.st_mode & 0o022 == 0
}

/// Builds the skeleton for `host` and renames it to `home`. If another process was faster, its skeleton is kept.
pub(super) fn build(host: &Host, cache_dir: &Path, home: &Path) -> Result<(), HostImageError> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(cache_dir)
        .map_err(|source| HostImageError::CreateCache {
            path: cache_dir.to_owned(),
            source,
        })?;
    sweep_abandoned(cache_dir)?;

    let unfinished = Unfinished::begin(cache_dir)?;
    let layer_path = unfinished.path.join(LAYER);
    let failing = |attempt, source| HostImageError::Build {
        attempt,
        path: layer_path.clone(),
        source,
    };
    let mode = Mode::from_raw_mode(0o755);
    let layer = rustix::fs::mkdir(&layer_path, mode)
        .and_then(|()| rustix::fs::open(&layer_path, DIRECTORY, Mode::empty()))
        .map_err(|errno| failing("make the directory", errno))?;
    rustix::fs::fchmod(&layer, mode).map_err(|errno| failing("set the mode of", errno))?;
    skeleton::fill(host, layer.as_fd(), &layer_path)?;
    // After a power cut the name must not lead to files whose content never reached the disk, because such a
    // skeleton would be used forever.
    rustix::fs::syncfs(&layer).map_err(|errno| failing("write to disk", errno))?;
    match rustix::fs::rename(&unfinished.path, home) {
        Ok(()) | Err(Errno::EXIST | Errno::NOTEMPTY) => Ok(()),
        Err(errno) => Err(HostImageError::Build {
            attempt: "publish",
            path: home.to_owned(),
            source: errno,
        }),
    }
}

/// A temporary directory that only its builder uses. Dropping it removes it, unless it was renamed.
struct Unfinished {
    path: PathBuf,
    _lock: OwnedFd,
}

impl Unfinished {
    fn begin(cache_dir: &Path) -> Result<Self, HostImageError> {
        loop {
            let path = cache_dir.join(own_name(UNFINISHED));
            let failing = |source| HostImageError::Build {
                attempt: "make the directory",
                path: path.clone(),
                source,
            };
            match rustix::fs::mkdir(&path, Mode::RWXU) {
                Ok(()) => {}
                // The name was used by a process of another pid namespace, or by one that ended long ago.
                Err(Errno::EXIST) => continue,
                Err(errno) => return Err(failing(errno)),
            }
            // Before we hold the lock, a sweeper may take the directory for abandoned; then try another name.
            match lock(&path) {
                Ok(Some(lock)) => return Ok(Unfinished { path, _lock: lock }),
                Ok(None) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failing(errno)),
            }
        }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        // If this fails, the next build sweeps the directory.
        drop(std::fs::remove_dir_all(&self.path));
    }
}

/// Returns a name that is unique within this process; a process of another pid namespace may use the same.
fn own_name(prefix: &str) -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);

    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{}-{number}", rustix::process::getpid().as_raw_pid())
}

/// Takes the exclusive lock on the directory `path`; `None` if another process holds a lock on it, or the name
/// leads elsewhere now.
fn lock(path: &Path) -> Result<Option<OwnedFd>, Errno> {
    let dir = rustix::fs::open(path, DIRECTORY, Mode::empty())?;
    match tote_sys::flock(&dir, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => return Ok(None),
        Err(errno) => return Err(errno),
    }
    let (named, held) = (rustix::fs::lstat(path)?, rustix::fs::fstat(&dir)?);
    Ok(((named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)).then_some(dir))
}

/// Removes directories that crashed builders and sweepers left.
///
/// # Errors
///
/// [`HostImageError::Sweep`].
pub fn sweep_abandoned(cache_dir: &Path) -> Result<(), HostImageError> {
    for path in entries(cache_dir)? {
        let name = path.file_name().map_or(&[][..], OsStr::as_bytes);
        if !name.starts_with(UNFINISHED.as_bytes()) && !name.starts_with(SWEPT.as_bytes()) {
            continue;
        }
        if let Some(_lock) = lock_or_gone(&path, &path)? {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Removes every skeleton below `cache_dir` that no [`HostImage`] of any process holds, except `keep`, and
/// directories that crashed builders left. Returns the removed paths.
///
/// # Errors
///
/// [`HostImageError::Sweep`]; skeletons removed before the error stay removed.
pub fn sweep(cache_dir: &Path, keep: &HostImage) -> Result<Vec<PathBuf>, HostImageError> {
    sweep_abandoned(cache_dir)?;
    let mut swept = Vec::new();
    for path in entries(cache_dir)? {
        let name = path.file_name().map_or(&[][..], OsStr::as_bytes);
        if !name.starts_with(READY) || keep.lower.starts_with(&path) {
            continue;
        }
        let Some(_unused) = lock_or_gone(&path.join(LAYER), &path)? else {
            continue;
        };
        // The lock is held until the removal is complete: another sweeper would take the new name for abandoned.
        let Some(_removing) = lock_or_gone(&path, &path)? else {
            continue;
        };
        let Some(trash) = throw_away(&path, cache_dir)? else {
            continue;
        };
        remove(&trash)?;
        swept.push(path);
    }
    Ok(swept)
}

/// Renames `path` to a name that no other sweeper uses: with equal names one of them would remove the directory
/// that the other has just renamed. `None` if the path does not exist any more.
fn throw_away(path: &Path, cache_dir: &Path) -> Result<Option<PathBuf>, HostImageError> {
    loop {
        let trash = cache_dir.join(own_name(SWEPT));
        match rustix::fs::rename(path, &trash) {
            Ok(()) => return Ok(Some(trash)),
            Err(Errno::NOENT) => return Ok(None),
            // A process of another pid namespace uses the name.
            Err(Errno::EXIST | Errno::NOTEMPTY) => {}
            Err(errno) => {
                return Err(HostImageError::Sweep {
                    path: path.to_owned(),
                    source: errno.into(),
                });
            }
        }
    }
}

/// Returns the lock on `dir`, or `None` if it is in use or another sweeper was faster. `path` is named in errors.
fn lock_or_gone(dir: &Path, path: &Path) -> Result<Option<OwnedFd>, HostImageError> {
    match lock(dir) {
        Ok(lock) => Ok(lock),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(HostImageError::Sweep {
            path: path.to_owned(),
            source: errno.into(),
        }),
    }
}

fn entries(cache_dir: &Path) -> Result<Vec<PathBuf>, HostImageError> {
    let failing = |source| HostImageError::Sweep {
        path: cache_dir.to_owned(),
        source,
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(cache_dir).map_err(failing)? {
        paths.push(entry.map_err(failing)?.path());
    }
    Ok(paths)
}

fn remove(path: &Path) -> Result<(), HostImageError> {
    match std::fs::remove_dir_all(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(HostImageError::Sweep {
            path: path.to_owned(),
            source,
        }),
        _ => Ok(()),
    }
}
