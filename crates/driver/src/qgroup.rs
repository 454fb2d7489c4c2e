//! `--disk-size` under `btrfs`: a limit of the file system's quotas on what a subvolume shares with no other.
//!
//! Of each subvolume the quotas know something, its qgroup. It can be removed only once the kernel has given back all of
//! the subvolume's space, some time after that is gone; newer kernels do it by themselves. So that a removal needs not
//! wait for it, it is noted: an empty file, named by the subvolume's id, which each later removal looks for.

use crate::{Limit, PrepareError};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{Mode, OFlags};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use tote_sys::{Errno, Quotas, best_effort};

/// The directory of what is noted.
const GONE: &str = ".subvolumes-gone";

/// Looks whether a limit could be kept to on the file system of a directory.
pub(crate) fn require(dir: BorrowedFd<'_>, path: &Path) -> Result<(), PrepareError> {
    match tote_sys::quotas(dir) {
        Ok(Quotas::On) => Ok(()),
        Ok(Quotas::Off) => Err(PrepareError::NoQuotas {
            path: path.to_owned(),
        }),
        Ok(Quotas::Inconsistent) => Err(PrepareError::InconsistentQuotas {
            path: path.to_owned(),
        }),
        Err(errno) => Err(failed("look for quotas at", path, errno)),
    }
}

/// Limits a subvolume of which `dir` is the top; not for the first time perhaps.
pub(crate) fn limit(dir: BorrowedFd<'_>, limit: &Limit) -> Result<(), PrepareError> {
    match tote_sys::limit_subvolume(dir, Some(limit.size)) {
        Err(Errno::NOTCONN) => Err(PrepareError::NoQuotas {
            path: limit.path.clone(),
        }),
        other => other.map_err(|errno| failed("limit the size of", &limit.path, errno)),
    }
}

fn failed(attempt: &'static str, path: &Path, errno: Errno) -> PrepareError {
    let path = path.to_owned();
    match errno {
        Errno::NOTTY => PrepareError::NotBtrfs { path },
        errno => PrepareError::State {
            attempt,
            path,
            source: errno.into(),
        },
    }
}

/// What is noted of subvolumes that go, in a directory on their file system.
#[derive(Debug)]
pub(crate) struct Gone(PathBuf);

impl Gone {
    pub(crate) fn noted_in(dir: &Path) -> Self {
        Self(dir.join(GONE))
    }

    /// Notes a subvolume that is about to be removed, where the file system has quotas; gives whether that is so. Its
    /// limit goes at once: should the kernel use the id again, nobody else has it.
    pub(crate) fn note(&self, subvolume: BorrowedFd<'_>) -> bool {
        // ENOTCONN without quotas, ENOENT where these do not know it, EPERM for who may not ask: nothing to remove later.
        if tote_sys::limit_subvolume(subvolume, None).is_err() {
            return false;
        }
        let Ok(id) = tote_sys::subvolume_id(subvolume) else {
            return false;
        };
        // Another removal may take the empty directory away in between. What is not noted takes a few bytes for ever.
        for _ in 0..4 {
            best_effort(std::fs::DirBuilder::new().mode(0o700).create(&self.0));
            match std::fs::File::create_new(self.0.join(id.to_string())) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
        true
    }

    /// Removes the qgroups of all subvolumes that were noted here and are wholly gone.
    pub(crate) fn settle(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let Ok(dir) = rustix::fs::open(&self.0, flags, Mode::empty()) else {
            return;
        };
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if id.is_some_and(|id| is_settled(dir.as_fd(), id)) {
                best_effort(std::fs::remove_file(entry.path()));
            }
        }
        // Where something stays, so does the directory.
        best_effort(std::fs::remove_dir(&self.0));
    }
}

/// A subvolume that is there was not yet removed, or has an id that was another's before: its qgroup stays.
fn is_settled(dir: BorrowedFd<'_>, id: u64) -> bool {
    matches!(tote_sys::has_subvolume(dir, id), Ok(false))
        && matches!(
            tote_sys::forget_subvolume(dir, id),
            Ok(()) | Err(Errno::NOENT | Errno::NOTCONN)
        )
}
