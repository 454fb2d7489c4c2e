//! `--disk-size` with `btrfs`: a quota limit on the content that a subvolume does not share with others.
//!
//! The quotas keep a qgroup for each subvolume. It can be removed only after the kernel has freed all of the
//! subvolume's space, some time after the subvolume was deleted; newer kernels do so themselves. A removal does not
//! wait for that, but records the subvolume: an empty file, named by the subvolume's id, which each later removal
//! checks.

use crate::PrepareError;
use crate::prepared::Limit;
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{Mode, OFlags};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use tote_sys::{Errno, Quotas, best_effort};

/// Name of the directory of these records.
const GONE: &str = ".subvolumes-gone";

/// Checks that a limit can be enforced on the file system of a directory.
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

/// Limits a subvolume, whose top is `dir`; it may have a limit already.
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

/// Records of deleted subvolumes, in a directory on their file system.
#[derive(Debug)]
pub(crate) struct Gone(PathBuf);

impl Gone {
    pub(crate) fn noted_in(dir: &Path) -> Self {
        Self(dir.join(GONE))
    }

    /// Records a subvolume that is about to be removed; returns false if the file system has no quotas. Its limit
    /// is removed at once, because the kernel might use the id again.
    pub(crate) fn note(&self, subvolume: BorrowedFd<'_>) -> bool {
        // ENOTCONN without quotas, ENOENT if they do not know the subvolume, EPERM if the caller has no right: no
        // record needed.
        if tote_sys::limit_subvolume(subvolume, None).is_err() {
            return false;
        }
        let Ok(id) = tote_sys::subvolume_id(subvolume) else {
            return false;
        };
        // Another removal may remove the empty directory in between. A missing record only wastes a few bytes for
        // good.
        for _ in 0..4 {
            best_effort(std::fs::DirBuilder::new().mode(0o700).create(&self.0));
            match std::fs::File::create_new(self.0.join(id.to_string())) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
        true
    }

    /// Removes the qgroups of all recorded subvolumes that are completely deleted.
    pub(crate) fn settle(&self) {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // absence: the next removal settles the rest
        let Ok(dir) = rustix::fs::open(&self.0, flags, Mode::empty()) else {
            return;
        };
        // absence: the next removal settles the rest
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if id.is_some_and(|id| is_settled(dir.as_fd(), id)) {
                best_effort(std::fs::remove_file(entry.path()));
            }
        }
        // This fails while records remain, and then the directory stays.
        best_effort(std::fs::remove_dir(&self.0));
    }
}

/// True if a qgroup is removed. The qgroup stays if the subvolume still exists, or its id belongs to a new one.
fn is_settled(dir: BorrowedFd<'_>, id: u64) -> bool {
    matches!(tote_sys::has_subvolume(dir, id), Ok(false))
        && matches!(
            tote_sys::forget_subvolume(dir, id),
            Ok(()) | Err(Errno::NOENT | Errno::NOTCONN)
        )
}
