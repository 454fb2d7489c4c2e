//! The files of `live/`: which containers some command is working on, and what a killed one left.

use crate::{EngineError, Home};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tote_bundle::{ContainerId, Name};
use tote_sys::best_effort;

/// How the name of a file begins that is not yet locked.
const NAMELESS: &str = ".";

/// What is known of a container while a command works on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Live {
    /// Its name, where it was given one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The image as it was asked for.
    pub image: String,
    /// The image's id, where it is one of the store.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// The command line.
    pub command: Vec<String>,
    /// The process id of its first process, once it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// When that process started, as `/proc/PID/stat` counts: a process id alone may be somebody else's by now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<u64>,
    /// Where its cgroup is, as the cgroup crate writes it down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// The signal that asks it to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stop_signal: Option<String>,
    /// Whether nothing stays of it.
    pub rm: bool,
    /// The storage driver, where it is not the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The paths of the image that it had copies of to write to, under the split driver.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writable: Vec<String>,
}

/// The file of one container, locked.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    file: File,
}

impl Record {
    /// Makes the file of a new container, locked from the moment in which it is there: it gets its name only then. A
    /// sweep that comes in between removes the nameless file, and another is made.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn create(home: &Home, id: &ContainerId) -> Result<Self, EngineError> {
        let path = home.live().join(id.as_str());
        let fail = |source| EngineError::State {
            attempt: "make",
            path: path.clone(),
            source,
        };
        let nameless = home.live().join(format!("{NAMELESS}{id}"));
        loop {
            let mut options = OpenOptions::new();
            let file = options
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&nameless)
                .map_err(fail)?;
            rustix::fs::flock(&file, FlockOperation::LockExclusive).map_err(|errno| fail(errno.into()))?;
            match std::fs::rename(&nameless, &path) {
                Ok(()) => return Ok(Self { path, file }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(source) => return Err(fail(source)),
            }
        }
    }

    /// Takes over the file of a container whose command is gone; `None` while that lives.
    fn abandoned(path: PathBuf) -> Option<(Self, Live)> {
        let mut file = OpenOptions::new().read(true).write(true).open(&path).ok()?;
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        let mut text = String::new();
        file.read_to_string(&mut text).ok()?;
        // A command that was killed before it wrote anything has left an empty file: nothing but the id is known.
        let live = serde_json::from_str(&text).unwrap_or_default();
        Some((Self { path, file }, live))
    }

    /// Writes down what is known. Only whoever gets the lock reads it, so a torn write is never seen by the living.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn write(&mut self, live: &Live) -> Result<(), EngineError> {
        let fail = |source| EngineError::State {
            attempt: "write",
            path: self.path.clone(),
            source,
        };
        let text = serde_json::to_vec(live).map_err(|error| fail(error.into()))?;
        let mut file = &self.file;
        file.rewind().map_err(fail)?;
        file.write_all(&text).map_err(fail)?;
        file.set_len(text.len() as u64).map_err(fail)
    }

    /// Forgets the container: the last thing done for it.
    pub fn remove(self) {
        // If it cannot be removed, the next command finds it unlocked and tries again.
        best_effort(std::fs::remove_file(&self.path));
    }
}

/// Names of the running containers, and ids of those that have none.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    let entries = std::fs::read_dir(home.live()).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let id: ContainerId = entry.file_name().to_str()?.parse().ok()?;
            let live: Live = serde_json::from_str(&std::fs::read_to_string(entry.path()).ok()?).ok()?;
            Some(live.name.unwrap_or_else(|| id.short().to_owned()))
        })
        .collect()
}

/// The running container of that name, id or unique beginning of an id.
///
/// # Errors
/// [`EngineError::NoContainer`].
pub(crate) fn find(home: &Home, wanted: &str) -> Result<Live, EngineError> {
    let named = std::fs::read_link(home.names().join(wanted))
        .ok()
        .filter(|_| wanted.parse::<Name>().is_ok());
    let prefix = named.as_deref().and_then(Path::to_str).unwrap_or(wanted);
    let entries = std::fs::read_dir(home.live()).into_iter().flatten().flatten();
    let mut matches = entries.filter(|entry| {
        let id = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<ContainerId>().ok());
        id.is_some_and(|id| id.has_prefix(prefix))
    });
    let missing = || EngineError::NoContainer(wanted.to_owned());
    match (matches.next(), matches.next()) {
        (Some(entry), None) => {
            let text = std::fs::read_to_string(entry.path()).map_err(|_| missing())?;
            serde_json::from_str(&text).map_err(|_| missing())
        }
        _ => Err(missing()),
    }
}

/// Clears what killed commands left. Gives the ids that it cleared.
pub fn sweep(home: &Home) -> Vec<ContainerId> {
    let mut cleared = Vec::new();
    let Ok(entries) = std::fs::read_dir(home.live()) else {
        return cleared;
    };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().starts_with(NAMELESS) {
            discard_nameless(&entry.path());
            continue;
        }
        let Some(id) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse::<ContainerId>().ok())
        else {
            continue;
        };
        if let Some((record, live)) = Record::abandoned(entry.path()) {
            clear(home, &id, &live);
            record.remove();
            cleared.push(id);
        }
    }
    cleared
}

/// Removes the file of a command that was killed before it had made anything. One that is just being made is locked a
/// moment later, and then its maker finds it gone.
fn discard_nameless(path: &Path) {
    let Ok(file) = File::open(path) else { return };
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        best_effort(std::fs::remove_file(path));
    }
}

/// Removes everything that the id names.
fn clear(home: &Home, id: &ContainerId, live: &Live) {
    // Each step stands alone: what cannot be removed now is found by its id again.
    crate::cgroup::clear(id, live.cgroup.as_deref());
    if let (Some(pid), Some(start_time)) = (live.pid, live.start_time) {
        crate::process::kill(pid, start_time);
    }
    if live.rm {
        best_effort(crate::tree::remove(home, id));
        if let Some(name) = live.name.as_deref().and_then(|name| name.parse::<Name>().ok()) {
            crate::name::release(home, &name, id);
        }
    }
}
