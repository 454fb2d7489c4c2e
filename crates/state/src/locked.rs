//! Lock files that the holder of the lock may remove.

use crate::StateError;
use rustix::fd::AsFd as _;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

/// Locks the file at the path, and makes sure that the path still leads to it once the lock is held. A missing file
/// is created if `make` is true. If another process holds the lock: waits if `wait` is true, else returns `None`.
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
        // The former holder may have removed the file meanwhile, and another process may have created a new one.
        let own = file.metadata().map_err(fail("look at"))?;
        match std::fs::symlink_metadata(path) {
            Ok(there) if there.ino() == own.ino() => return Ok(Some(file)),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(fail("look at")(error)),
            _ => {}
        }
    }
}

/// True if the kernel's error means that the disk or a quota is full.
#[must_use]
pub fn is_full_disk(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
