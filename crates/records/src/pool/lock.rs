//! Locks of a pool: files in its directory, which may be removed before a lock is acquired.

use crate::{EngineError, Home};
use std::fs::File;
use tote_bundle::Name;
use tote_state::locked::locked_within;

/// Held lock; it is released when this value and all copies in forked processes are dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the right to fill the pool or remove it. `None` if the pool is missing.
    pub fn fill(home: &Home, pool: &Name) -> Result<Option<Self>, EngineError> {
        Self::take(home, pool, "lock", true)
    }

    /// Tries to get that right; `None` if another process has it.
    pub fn free(home: &Home, pool: &Name) -> Result<Option<Self>, EngineError> {
        Self::take(home, pool, "lock", false)
    }

    /// Tries to become the one process that waits for that right; `None` if another process waits, or the pool is
    /// missing. The waiting process has not looked at the pool yet, so it will see any lack.
    pub fn queue(home: &Home, pool: &Name) -> Result<Option<Self>, EngineError> {
        Self::take(home, pool, "queue", false)
    }

    fn take(home: &Home, pool: &Name, name: &str, wait: bool) -> Result<Option<Self>, EngineError> {
        match locked_within(
            &home.pool(pool).join(name),
            true,
            wait.then_some(tote_sys::WORK_LOCK),
        ) {
            Err(error) if error.is_missing() => Ok(None),
            found => Ok(found?.map(|file| Self { _file: file })),
        }
    }
}
