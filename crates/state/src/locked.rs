//! Files that are locked, and may be removed by whoever has the lock.

use crate::StateError;
use rustix::fd::AsFd as _;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Locks the file that has the path once the lock is had, made where it is missing if `make` says so. `None` while
/// somebody else has it, unless that is waited for.
///
/// # Errors
/// [`StateError::File`]; see [`StateError::is_missing`].
pub fn locked(path: &Path, make: bool, wait: bool) -> Result<Option<File>, StateError> {
    let fail = |attempt| {
        move |source| StateError::File {
            attempt,
            path: path.to_owned(),
            source,
        }
    };
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(make).mode(0o600);
        let file = options.open(path).map_err(fail("open"))?;
        match tote_sys::lock_file(file.as_fd(), wait) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(errno) => return Err(fail("lock")(errno.into())),
        }
        // Whoever had it may have removed it meanwhile, and somebody may have made it anew.
        let own = file.metadata().map_err(fail("look at"))?;
        match std::fs::symlink_metadata(path) {
            Ok(there) if there.ino() == own.ino() => return Ok(Some(file)),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(fail("look at")(error)),
            _ => {}
        }
    }
}

/// Whether the kernel says that there is no room, on the disk or within a quota, for what was to be made.
#[must_use]
pub fn is_full_disk(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
