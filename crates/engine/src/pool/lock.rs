//! Locks of a pool: files in its directory, which may be gone by the time that a lock is had.

use crate::{EngineError, Home};
use rustix::fd::AsFd as _;
use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use tote_bundle::Name;

/// A lock that is held, until it is dropped or its last copy in forked processes goes.
#[derive(Debug)]
pub(super) struct Lock {
    _file: File,
}

impl Lock {
    /// The right to fill the pool or remove it; waits for it. `None` where there is no such pool.
    pub(super) fn fill(home: &Home, pool: &Name) -> Result<Option<Self>, EngineError> {
        Self::take(home, pool, "lock", true)
    }

    /// The place of the one who waits for that; `None` where somebody has it, or there is no such pool. Who has it has
    /// not looked yet, so whatever is missing now will be seen.
    pub(super) fn queue(home: &Home, pool: &Name) -> Result<Option<Self>, EngineError> {
        Self::take(home, pool, "queue", false)
    }

    fn take(home: &Home, pool: &Name, name: &str, wait: bool) -> Result<Option<Self>, EngineError> {
        let path = home.pool(pool).join(name);
        let fail = |attempt| {
            let path = path.clone();
            move |source| EngineError::State {
                attempt,
                path,
                source,
            }
        };
        loop {
            let opened = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path);
            let file = match opened {
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                other => other.map_err(fail("open"))?,
            };
            match tote_sys::lock_file(file.as_fd(), wait) {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(errno) => return Err(fail("lock")(errno.into())),
            }
            let own = file.metadata().map_err(fail("look at"))?;
            // The pool may have been removed meanwhile, and another made.
            if std::fs::symlink_metadata(&path).is_ok_and(|there| there.ino() == own.ino()) {
                return Ok(Some(Self { _file: file }));
            }
        }
    }
}
