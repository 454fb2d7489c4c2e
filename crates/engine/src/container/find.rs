//! Finding containers by what people call them.

use super::claim::Claim;
use super::record::Container;
use super::state::{State, Status};
use crate::changes::ContainerError;
use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use tote_bundle::{ContainerId, Name};
use tote_image::Digest;

/// A container: what was asked for, and what it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What was asked for.
    pub container: Container,
    /// What it is; the truth at the moment of looking.
    pub state: State,
    /// Whether it has a directory. One of `run --rm` in the foreground has none: it cannot be started again.
    #[serde(skip)]
    pub kept: bool,
}

/// The container of that id, name, or unique beginning of an id; docker's order, and as there `/NAME` is a name and
/// nothing else.
///
/// # Errors
/// [`ContainerError::NoContainer`] and [`ContainerError::Ambiguous`], in docker's words.
pub fn find(home: &Home, wanted: &str) -> Result<Entry, EngineError> {
    let missing = || EngineError::from(ContainerError::NoContainer(wanted.to_owned()));
    if let Ok(id) = wanted.parse::<ContainerId>() {
        return open(home, &id).ok_or_else(missing);
    }
    if let Some(name) = wanted.strip_prefix('/') {
        return named(home, name)
            .and_then(|id| open(home, &id))
            .ok_or_else(missing);
    }
    if let Some(entry) = named(home, wanted).and_then(|id| open(home, &id)) {
        return Ok(entry);
    }
    let mut ids = ids(home).into_iter().filter(|id| id.has_prefix(wanted));
    match (ids.next(), ids.next()) {
        (Some(id), None) => open(home, &id).ok_or_else(missing),
        (Some(_), Some(_)) => Err(ContainerError::Ambiguous(wanted.to_owned()).into()),
        (None, _) => Err(missing()),
    }
}

/// Whose name it is.
pub(crate) fn named(home: &Home, name: &str) -> Option<ContainerId> {
    name.parse::<Name>().ok()?;
    super::name::read(&home.names().join(name))
}

/// All containers, the newest first.
#[must_use]
pub fn list(home: &Home) -> Vec<Entry> {
    let mut entries: Vec<Entry> = ids(home).iter().filter_map(|id| open(home, id)).collect();
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.container.created));
    entries
}

/// The names of all containers.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    let entries = list(home);
    entries
        .iter()
        .map(|entry| entry.container.display().to_owned())
        .collect()
}

/// The ids of all that has a directory or is worked on.
pub(super) fn ids(home: &Home) -> BTreeSet<ContainerId> {
    [home.containers(), home.live()]
        .iter()
        .flat_map(|dir| std::fs::read_dir(dir).into_iter().flatten().flatten())
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The container of an id; `None` when there is none, not yet or no longer.
#[must_use]
pub fn open(home: &Home, id: &ContainerId) -> Option<Entry> {
    if let Some(container) = Container::read(home, id) {
        let mut state = State::truth(home, id);
        if home.container(id).join(REMOVING).exists() {
            state.status = Status::Removing;
        }
        return Some(Entry {
            container,
            state,
            kept: true,
        });
    }
    noted(home, id)
}

/// Marks a container whose removal has begun.
pub(crate) const REMOVING: &str = "removing";

/// One that is only in `live/`.
fn noted(home: &Home, id: &ContainerId) -> Option<Entry> {
    let path = home.live().join(id.as_str());
    // Written in place: half of it may be read, but not again and again.
    for _ in 0..64 {
        let text = crate::short::read(&path).ok()?;
        if text.is_empty() {
            return None;
        }
        if let Ok(entry) = serde_json::from_slice::<Entry>(&text) {
            // What is noted before it has a process is for whoever finds its maker dead.
            let lives = entry.state.process.is_some() && Claim::is_held(home, id);
            return lives.then_some(entry);
        }
        std::thread::yield_now();
    }
    None
}

/// A container that has an image.
pub(crate) struct ImageUser {
    /// `container` and its name, or its short id; or a pool.
    pub(crate) name: String,
    /// Whether it runs, or is about to.
    pub(crate) runs: bool,
}

/// The containers that have an image, and the pools: those that run first.
pub(crate) fn image_users(home: &Home, given: &Digest) -> Vec<ImageUser> {
    let image = given.to_string();
    let mut users: Vec<ImageUser> = list(home)
        .into_iter()
        .filter(|entry| entry.container.image_id.as_ref() == Some(&image))
        .map(|entry| ImageUser {
            name: format!("container {}", entry.container.display()),
            runs: entry.state.runs() || !entry.kept,
        })
        .collect();
    let pools = crate::pool::image_users(home, given).into_iter();
    users.extend(pools.map(|pool| ImageUser {
        name: format!("pool {pool}"),
        runs: true,
    }));
    users.sort_by_key(|user| !user.runs);
    users
}

/// Whether there is anything of that id.
pub(super) fn exists(home: &Home, id: &ContainerId) -> bool {
    let there = |path: &Path| path.symlink_metadata().is_ok();
    there(&home.live().join(id.as_str())) || there(&home.container(id))
}

#[cfg(test)]
mod tests {
    use super::super::ProcessId;
    use super::super::tests::{container, id};
    use super::*;

    #[test]
    fn by_id_name_and_beginning() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let (first, second) = (container(&home, 0x11, "web"), container(&home, 0x12, "abba"));
        for (wanted, id) in [
            (first.id.as_str(), &first.id),
            (first.id.short(), &first.id),
            ("web", &first.id),
            ("abba", &second.id),
            ("/abba", &second.id),
            ("12", &second.id),
        ] {
            assert_eq!(&find(&home, wanted).unwrap().container.id, id, "{wanted}");
        }
        for (wanted, words) in [
            ("1", "multiple IDs found with provided prefix: 1"),
            ("", "No such container: "),
            ("../web", "No such container: ../web"),
            ("no", "No such container: no"),
            ("/12", "No such container: /12"),
            ("//web", "No such container: //web"),
            (id(0x13).as_str(), "No such container: 1313"),
        ] {
            let error = find(&home, wanted).unwrap_err().to_string();
            assert!(error.starts_with(words), "{wanted}: {error}");
        }
        assert_eq!(names(&home).len(), 2);
    }

    #[test]
    fn what_is_worked_on_is_there_as_long_as_somebody_works() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let mut entry = Entry {
            container: container(&home, 0x21, "kept"),
            state: State {
                process: ProcessId::of(std::process::id()),
                ..State::default()
            },
            kept: false,
        };
        entry.container.id = id(0x22);
        entry.container.name = "passing".to_owned();
        let claim = Claim::take(&home, &id(0x22)).unwrap().unwrap();
        assert!(open(&home, &id(0x22)).is_none(), "nothing is known of it yet");
        claim.note(&entry, &crate::exec::Inside::default()).unwrap();
        assert_eq!(open(&home, &id(0x22)), Some(entry));
        drop(claim);
        assert!(open(&home, &id(0x22)).is_none());
    }
}
