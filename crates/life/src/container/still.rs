//! Stopped containers that stay stopped for a while, because another command uses their files.

use super::claim::Claim;
use super::{Entry, LifeError, Status, claim, find};
use crate::{EngineError, Home};
use std::fs::File;
use tote_state::locked::locked_within;
use tote_state::process;

/// Name of the file in a container's directory that the process locks which uses the files.
const TURN: &str = "copying";

/// Stopped container that cannot be started as long as this is held.
#[derive(Debug)]
pub struct Stillness {
    entry: Entry,
    claim: Option<Claim>,
    /// Lock that admits one user of the files at a time, because the claim would be refused to the second one.
    _turn: Option<File>,
}

/// Keeps a stopped container from starting; `None` if it runs.
///
/// # Errors
/// [`EngineError`], such as [`LifeError::Busy`] while another command changes the container.
pub fn keep_still(home: &Home, entry: &Entry) -> Result<Option<Stillness>, EngineError> {
    if runs(entry) {
        return Ok(None);
    }
    let id = &entry.container.id;
    let turn = locked_within(&home.container(id).join(TURN), true, Some(tote_sys::WORK_LOCK))?;
    // The name may refer to another container by now, so the id is used.
    let entry = find(home, id.as_str())?;
    let (entry, claim) = match claim(home, entry) {
        Err(EngineError::Life(LifeError::Busy(busy))) => {
            return if runs(&find(home, id.as_str())?) {
                Ok(None)
            } else {
                Err(LifeError::Busy(busy).into())
            };
        }
        claimed => claimed?,
    };
    if entry.state.status == Status::Removing {
        claim.release();
        return Err(LifeError::Removing(entry.container.display().to_owned()).into());
    }
    Ok(Some(Stillness {
        entry,
        claim: Some(claim),
        _turn: turn,
    }))
}

fn runs(entry: &Entry) -> bool {
    let first = entry.state.process.filter(|_| entry.state.runs());
    first.is_some_and(|first| !process::is_ending(first.pid, first.start_time))
}

impl Stillness {
    /// A stopped container whose claim the caller has.
    #[must_use]
    pub fn of(entry: Entry, claim: Claim) -> Self {
        Self {
            entry,
            claim: Some(claim),
            _turn: None,
        }
    }

    /// The container as it is.
    #[must_use]
    pub fn entry(&self) -> &Entry {
        &self.entry
    }
}

impl Drop for Stillness {
    fn drop(&mut self) {
        if let Some(claim) = self.claim.take() {
            claim.release();
        }
    }
}
