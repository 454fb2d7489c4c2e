//! Locks of a pool: files in its directory, which may be gone by the time that a lock is had.

use crate::{EngineError, Home};
use std::fs::File;
use tote_bundle::Name;
use tote_state::locked::locked;

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

    /// The same right, if nobody has it.
    pub(super) fn free(home: &Home, pool: &Name) -> Result<Option<Self>, EngineError> {
        Self::take(home, pool, "lock", false)
    }

    /// The place of the one who waits for that; `None` where somebody has it, or there is no such pool. Who has it has
    /// not looked yet, so whatever is missing now will be seen.
    pub(super) fn queue(home: &Home, pool: &Name) -> Result<Option<Self>, EngineError> {
        Self::take(home, pool, "queue", false)
    }

    fn take(home: &Home, pool: &Name, name: &str, wait: bool) -> Result<Option<Self>, EngineError> {
        match locked(&home.pool(pool).join(name), true, wait) {
            Err(error) if error.is_missing() => Ok(None),
            found => Ok(found?.map(|file| Self { _file: file })),
        }
    }
}
