//! The files of `live/`: who works on a container, or watches it.

use super::find::Entry;
use crate::exec::Inside;
use crate::locked::{is_missing, locked};
use crate::{EngineError, Home};
use rustix::fd::AsFd as _;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::path::PathBuf;
use tote_bundle::ContainerId;
use tote_sys::best_effort;

/// The sole right to change a container: its file in `live/`, locked. The lock goes with the last descriptor, those of
/// forked processes included, so a monitor keeps what its maker took.
///
/// Dropping it leaves the file behind unlocked, which is a call for [`super::sweep`]; who is done in good order calls
/// [`Claim::release`].
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    file: File,
}

impl Claim {
    /// Takes the claim of a container; `None` while somebody else has it.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn take(home: &Home, id: &ContainerId) -> Result<Option<Self>, EngineError> {
        Self::get(home, id, true, false)
    }

    /// Waits until nobody else has the claim, and takes it. Whoever waits for a monitor has ended its container first.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn wait(home: &Home, id: &ContainerId) -> Result<Self, EngineError> {
        match Self::get(home, id, true, true)? {
            Some(claim) => Ok(claim),
            None => Err(EngineError::NoContainer(id.to_string())),
        }
    }

    /// Takes a claim that is there and that nobody holds.
    pub(super) fn abandoned(home: &Home, id: &ContainerId) -> Option<Self> {
        Self::get(home, id, false, false).ok().flatten()
    }

    fn get(home: &Home, id: &ContainerId, make: bool, wait: bool) -> Result<Option<Self>, EngineError> {
        let path = home.live().join(id.as_str());
        match locked(&path, make, wait) {
            Err(error) if is_missing(&error) && !make => Ok(None),
            found => Ok(found?.map(|file| Self { path, file })),
        }
    }

    /// Whether somebody has the claim of a container; asks without taking it.
    #[must_use]
    pub fn is_held(home: &Home, id: &ContainerId) -> bool {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(home.live().join(id.as_str()));
        // Where it cannot be asked for, somebody is taken to be there: nothing is mended by mistake.
        file.is_ok_and(|file| tote_sys::is_locked(file.as_fd()).unwrap_or(true))
    }

    /// Writes down a container that has no directory, with what a process needs that joins it. Who reads it meanwhile
    /// finds half of it, and asks again.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub(crate) fn note(&self, entry: &Entry, inside: &Inside) -> Result<(), EngineError> {
        #[derive(Serialize)]
        struct Noted<'a> {
            #[serde(flatten)]
            entry: &'a Entry,
            inside: &'a Inside,
        }
        let fail = |source| EngineError::State {
            attempt: "write",
            path: self.path.clone(),
            source,
        };
        let text = serde_json::to_vec(&Noted { entry, inside }).map_err(|error| fail(error.into()))?;
        let mut file = &self.file;
        file.rewind().map_err(fail)?;
        file.write_all(&text).map_err(fail)?;
        file.set_len(text.len() as u64).map_err(fail)
    }

    /// What was noted.
    pub(super) fn noted(&self) -> Option<Entry> {
        let mut text = Vec::new();
        let mut file = &self.file;
        file.rewind().ok()?;
        file.read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Gives the claim back: the last thing done for a container.
    pub fn release(self) {
        // If it cannot be removed, the next command finds it unlocked and tries again.
        best_effort(std::fs::remove_file(&self.path));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = ContainerId::from_bytes([7; 32]);
        assert!(!Claim::is_held(&home, &id));
        assert!(
            Claim::abandoned(&home, &id).is_none(),
            "nothing is made by looking"
        );
        let claim = Claim::take(&home, &id).unwrap().unwrap();
        assert!(Claim::is_held(&home, &id));
        assert!(Claim::take(&home, &id).unwrap().is_none());
        drop(claim);
        assert!(!Claim::is_held(&home, &id));
        let claim = Claim::abandoned(&home, &id).unwrap();
        claim.release();
        assert!(!home.live().join(id.as_str()).exists());
        Claim::wait(&home, &id).unwrap().release();
    }
}
