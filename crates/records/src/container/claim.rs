//! Files of `live/`: claims of processes that change or watch a container.

use super::entry::Entry;
use super::error::LifeError;
use super::state::{State, Status};
use crate::exec::Inside;
use crate::{EngineError, Home};
use rustix::fs::FlockOperation;
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tote_bundle::ContainerId;
use tote_state::locked::locked;
use tote_sys::{Errno, best_effort};

/// Limit of the wait for a claim. A process that holds one for longer will not release it soon.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Time that a command waits for the claim of a stopped container, before it reports that another command has it.
const MOMENT: Duration = Duration::from_secs(2);

/// Text in a file of `live/`: the container's anonymous volumes are removed with it. The names of volumes may follow,
/// a line each: volumes that were another container's first are recorded as this one's only in the container's
/// record.
pub const VOLUMES: &[u8] = b"volumes";

/// How far the first process of a container is, as the first byte of the container's record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstProcess {
    /// Process that may still have the host's root and its maker's rights, so that no command may join it unless it
    /// [has begun](tote_state::process::has_begun).
    Coming,
    /// Process that has become its program. Records of earlier versions have no such byte, and count as these.
    Begun,
}

impl FirstProcess {
    /// Returns the first byte of the record, which the parser of the rest takes for white space.
    #[must_use]
    pub const fn byte(self) -> u8 {
        match self {
            Self::Coming => b' ',
            Self::Begun => b'\n',
        }
    }
}

/// Exclusive right to change a container: its file in `live/`, locked. The lock ends with the last descriptor,
/// including those of forked processes, so a monitor keeps the claim of its maker.
///
/// A dropped claim leaves its file behind unlocked, which asks for a sweep (`sweep.rs` in `life`); a process that completes its
/// work calls [`Claim::release`].
#[derive(Debug)]
pub struct Claim {
    path: PathBuf,
    file: File,
}

impl Claim {
    /// Takes the claim of a container; `None` while another process has it.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn take(home: &Home, id: &ContainerId) -> Result<Option<Self>, EngineError> {
        Self::get(home, id, true)
    }

    /// Waits until the claim is free, and takes it. A caller that waits for a monitor must have
    /// ended its container first.
    ///
    /// # Errors
    /// [`EngineError::State`], and [`LifeError::Held`] if another process holds the claim for
    /// longer than ten seconds.
    pub fn wait(home: &Home, id: &ContainerId) -> Result<Self, EngineError> {
        Self::wait_for(id, || Self::take(home, id))
    }

    /// Takes the claim of a stopped container; `None` if another process keeps it, or has started the container. A
    /// sweep holds the claim briefly if a monitor has left remains, and a command that has waited for the container's
    /// end may come just then.
    ///
    /// # Errors
    /// [`EngineError::State`], and [`tote_state::StateError::Record`] if the container's state cannot be read.
    pub fn take_soon(home: &Home, id: &ContainerId) -> Result<Option<Self>, EngineError> {
        Self::within(MOMENT, || Self::take(home, id), || rests(home, id))
    }

    fn wait_for(
        id: &ContainerId,
        take: impl FnMut() -> Result<Option<Self>, EngineError>,
    ) -> Result<Self, EngineError> {
        let taken = Self::within(PATIENCE, take, || Ok(true))?;
        let held = || LifeError::Held {
            id: id.to_string(),
            after: PATIENCE,
        };
        Ok(taken.ok_or_else(held)?)
    }

    /// Tries repeatedly, until `patience` is over or `goes_on` returns false.
    fn within(
        patience: Duration,
        mut take: impl FnMut() -> Result<Option<Self>, EngineError>,
        goes_on: impl Fn() -> Result<bool, EngineError>,
    ) -> Result<Option<Self>, EngineError> {
        let until = Instant::now() + patience;
        let mut pause = Duration::from_micros(50);
        loop {
            if let Some(claim) = take()? {
                return Ok(Some(claim));
            }
            if Instant::now() >= until || !goes_on()? {
                return Ok(None);
            }
            #[expect(
                clippy::disallowed_methods,
                reason = "the kernel has no call that waits for a lock and no longer than so long"
            )]
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }

    /// Takes the claim of a container for its removal. If the disk has no room for the file, no process can have that
    /// claim, and a lock on the container's directory replaces it: a removal, which frees room, must not need any.
    ///
    /// # Errors
    /// Those of [`Claim::wait`] and [`Claim::take_soon`].
    pub fn to_remove(
        home: &Home,
        id: &ContainerId,
        patience: RemovalPatience,
    ) -> Result<Option<Self>, EngineError> {
        let take = || match Self::take(home, id) {
            Err(error) if error.is_full() => Self::of_directory(home, id),
            taken => taken,
        };
        match patience {
            RemovalPatience::None => take(),
            RemovalPatience::Moment => Self::within(MOMENT, take, || rests(home, id)),
            RemovalPatience::Long => Self::wait_for(id, take).map(Some),
        }
    }

    /// Makes the file of a claim before it is taken, so that a sweep finds the mark of a command that is killed
    /// before it has the claim. Without room for the file, the next removal finds the mark.
    pub fn announce(home: &Home, id: &ContainerId) {
        let mut options = OpenOptions::new();
        let options = options.append(true).create(true).mode(0o600);
        best_effort(options.open(home.live().join(id.as_str())));
    }

    fn of_directory(home: &Home, id: &ContainerId) -> Result<Option<Self>, EngineError> {
        let fail = |source| EngineError::file("lock", home.container(id))(source);
        let file = File::open(home.container(id)).map_err(fail)?;
        match tote_sys::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(None),
            locked => {
                locked.map_err(|errno| fail(errno.into()))?;
                let path = home.live().join(id.as_str());
                Ok(Some(Self { path, file }))
            }
        }
    }

    /// Takes an existing claim that no process holds.
    pub fn abandoned(home: &Home, id: &ContainerId) -> Option<Self> {
        Self::get(home, id, false).ok().flatten()
    }

    fn get(home: &Home, id: &ContainerId, make: bool) -> Result<Option<Self>, EngineError> {
        let path = home.live().join(id.as_str());
        match locked(&path, make, false) {
            Err(error) if error.is_missing() && !make => Ok(None),
            found => Ok(found?.map(|file| Self { path, file })),
        }
    }

    /// Records that the container's anonymous volumes are removed with it, for a process that finds the claim free
    /// and no container record: they are in the making or in removal. The maker of the volumes has the claim.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn promise_volumes(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
        let path = home.live().join(id.as_str());
        let written = match OpenOptions::new().write(true).open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            opened => opened.and_then(|mut file| file.write_all(VOLUMES)),
        };
        written.map_err(EngineError::file("write", path))
    }

    /// Records that for a container in removal, with the names of its volumes; `None` records that its volumes stay.
    pub fn note_volumes(&self, going: Option<&Vec<String>>) {
        let mut file = &self.file;
        let text = going.map_or_else(Vec::new, |names| {
            let lines = names.iter().map(|name| format!("\n{name}"));
            [VOLUMES, lines.collect::<String>().as_bytes()].concat()
        });
        // If the disk has no room for the text, the volumes stay after a kill of this process.
        let written = file.rewind().and_then(|()| file.write_all(&text));
        let length = written.map_or(0, |()| text.len() as u64);
        best_effort(file.set_len(length));
    }

    /// Returns the names that [`Claim::note_volumes`] recorded, if the anonymous volumes are to be removed.
    pub fn promised_volumes(&self) -> Option<Vec<String>> {
        let mut text = Vec::new();
        let mut file = &self.file;
        file.rewind().ok()?;
        file.read_to_end(&mut text).ok()?;
        let text = String::from_utf8(text).ok()?;
        let mut lines = text.lines();
        let promised = lines.next()?.as_bytes() == VOLUMES;
        promised.then(|| lines.map(ToOwned::to_owned).collect())
    }

    /// Records a container without a directory, with the facts for processes that join it. A concurrent reader may
    /// see half of it, and reads again.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn note(&self, entry: &Entry, inside: &Inside, first: FirstProcess) -> Result<(), EngineError> {
        #[derive(Serialize)]
        struct Noted<'a> {
            #[serde(flatten)]
            entry: &'a Entry,
            inside: &'a Inside,
        }
        let fail = |source| EngineError::file("write", &self.path)(source);
        let mut text = vec![first.byte()];
        serde_json::to_writer(&mut text, &Noted { entry, inside }).map_err(|error| fail(error.into()))?;
        let mut file = &self.file;
        file.rewind().map_err(fail)?;
        file.write_all(&text).map_err(fail)?;
        file.set_len(text.len() as u64).map_err(fail)
    }

    /// Marks the record of a container whose first process has begun, which spares other commands a look at the process.
    pub fn mark_begun(&self) {
        best_effort(self.file.write_at(&[FirstProcess::Begun.byte()], 0));
    }

    /// Parses the recorded container.
    pub fn noted(&self) -> Option<Entry> {
        let mut text = Vec::new();
        let mut file = &self.file;
        file.rewind().ok()?;
        file.read_to_end(&mut text).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Releases the claim, as the last action for a container.
    pub fn release(self) {
        // If the file cannot be removed, the next command finds it unlocked and tries again.
        best_effort(std::fs::remove_file(&self.path));
    }
}

/// Limit of a removal's wait for a claim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RemovalPatience {
    /// No wait: a container with a busy claim is left alone.
    #[default]
    None,
    /// Wait of [`Claim::take_soon`].
    Moment,
    /// Wait of [`Claim::wait`]: the holder of the claim is about to end.
    Long,
}

/// True if the container was not started meanwhile.
fn rests(home: &Home, id: &ContainerId) -> Result<bool, EngineError> {
    let status = State::read(home, id)?.status;
    Ok(!matches!(status, Status::Running | Status::Restarting))
}

#[cfg(test)]
mod tests {
    use super::super::live::is_held;
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = ContainerId::from_bytes([7; 32]);
        assert!(!is_held(&home, &id));
        assert!(
            Claim::abandoned(&home, &id).is_none(),
            "nothing is made by looking"
        );
        let claim = Claim::take(&home, &id).unwrap().unwrap();
        assert!(is_held(&home, &id));
        assert!(Claim::take(&home, &id).unwrap().is_none());
        drop(claim);
        assert!(!is_held(&home, &id));
        let claim = Claim::abandoned(&home, &id).unwrap();
        claim.release();
        assert!(!home.live().join(id.as_str()).try_exists().unwrap());
        Claim::wait(&home, &id).unwrap().release();
    }

    /// The claim is held as by a sweep that clears the remains of a monitor after the container's end.
    #[test]
    fn one_that_somebody_has_for_a_moment_is_waited_for_unless_the_container_runs() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let id = ContainerId::from_bytes([7; 32]);
        std::fs::create_dir(home.container(&id)).unwrap();
        let mut held = Claim::take(&home, &id).unwrap();
        let mut tries = 0;
        let mut take = || {
            tries += 1;
            let taken = Claim::take(&home, &id);
            held = held.take().filter(|_| tries < 3);
            taken
        };
        let claim = Claim::within(MOMENT, &mut take, || rests(&home, &id)).unwrap();
        assert!(claim.is_some());
        assert_eq!(tries, 4);
        let state = State {
            status: Status::Running,
            ..State::default()
        };
        state.write(&home, &id).unwrap();
        let begun = Instant::now();
        assert!(Claim::take_soon(&home, &id).unwrap().is_none());
        assert!(begun.elapsed() < MOMENT, "it runs");
    }
}
