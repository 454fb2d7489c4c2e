//! Finding containers by what people call them.

use super::claim::Claim;
use super::entry::{Entry, LostRecord, REMOVING};
use super::error::LifeError;
use super::record::{self, Container};
use super::state::{State, Status};
use crate::changes::ContainerError;
use crate::{EngineError, Home};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use tote_bundle::{ContainerId, Name};
use tote_image::Digest;
use tote_state::record::{RecordError, is_there, names_in};

impl LifeError {
    /// The error about a container whose record cannot be read.
    pub(crate) fn lost(entry: &Entry) -> Self {
        Self::Lost {
            id: entry.container.id.to_string(),
            reason: entry.state.error.clone(),
        }
    }
}

/// The container of that id, name, or unique beginning of an id; docker's order, and as there `/NAME` is a name and
/// nothing else.
///
/// # Errors
/// [`ContainerError::NoContainer`] and [`ContainerError::Ambiguous`], in docker's words; [`LifeError::Lost`] of one whose
/// record cannot be read.
pub fn find(home: &Home, wanted: &str) -> Result<Entry, EngineError> {
    let entry = seek(home, wanted)?;
    if entry.lost == Some(LostRecord::Container) {
        return Err(LifeError::lost(&entry).into());
    }
    Ok(entry)
}

/// The same, whether its record can be read or not.
pub(super) fn seek(home: &Home, wanted: &str) -> Result<Entry, EngineError> {
    let missing = || EngineError::from(ContainerError::NoContainer(wanted.to_owned()));
    if let Ok(id) = wanted.parse::<ContainerId>() {
        return open(home, &id)?.ok_or_else(missing);
    }
    let name = wanted.strip_prefix('/');
    let called = name.unwrap_or(wanted);
    if let Some(id) = named(home, called)?
        && let Some(entry) = open(home, &id)?
        && is_called(&entry, called)
    {
        return Ok(entry);
    }
    if name.is_some() {
        return Err(missing());
    }
    let mut ids = ids(home)?.into_iter().filter(|id| id.has_prefix(wanted));
    match (ids.next(), ids.next()) {
        (Some(id), None) => open(home, &id)?.ok_or_else(missing),
        (Some(_), Some(_)) => Err(ContainerError::Ambiguous(wanted.to_owned()).into()),
        (None, _) => Err(missing()),
    }
}

/// Whether a container that a name leads to has it: while it is being renamed two names lead to it, and for longer where
/// that command was killed.
pub(super) fn is_called(entry: &Entry, name: &str) -> bool {
    let own = entry.container.name.as_str();
    own.is_empty() || own == name
}

/// Whose name it is.
pub(crate) fn named(home: &Home, name: &str) -> Result<Option<ContainerId>, EngineError> {
    if name.parse::<Name>().is_err() {
        return Ok(None);
    }
    super::link::read(&home.names().join(name))
}

/// All containers, the newest first; those whose records cannot be read are among them, see [`Entry::lost`].
///
/// # Errors
/// [`EngineError::State`]: it cannot be said what there is.
pub fn list(home: &Home) -> Result<Vec<Entry>, EngineError> {
    let mut entries = Vec::new();
    for id in ids(home)? {
        entries.extend(open(home, &id)?);
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.container.created));
    Ok(entries)
}

/// All containers for who decides by them what nobody needs: what one has whose record cannot be read, nobody knows.
///
/// # Errors
/// As [`list`], and [`LifeError::Lost`].
pub(crate) fn list_whole(home: &Home) -> Result<Vec<Entry>, EngineError> {
    let entries = list(home)?;
    match entries
        .iter()
        .find(|entry| entry.lost == Some(LostRecord::Container))
    {
        Some(entry) => Err(LifeError::lost(entry).into()),
        None => Ok(entries),
    }
}

/// The names of all containers, as far as they can be had.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    let entries = list(home).unwrap_or_default();
    entries
        .iter()
        .map(|entry| entry.container.display().to_owned())
        .collect()
}

/// The ids of all that has a directory or is worked on.
pub(super) fn ids(home: &Home) -> Result<BTreeSet<ContainerId>, EngineError> {
    let mut ids = BTreeSet::new();
    for dir in [home.containers(), home.live()] {
        ids.extend(names_in(&dir)?.iter().filter_map(|name| name.parse().ok()));
    }
    Ok(ids)
}

/// The container of an id; `None` when there is none, not yet or no longer. One whose records cannot be read is dead.
///
/// # Errors
/// [`EngineError::State`]: it cannot be said whether there is one.
pub fn open(home: &Home, id: &ContainerId) -> Result<Option<Entry>, EngineError> {
    let container = match Container::read(home, id) {
        Ok(Some(container)) => container,
        Ok(None) => return unrecorded(home, id),
        Err(error) => return Ok(Some(lost(id, &error))),
    };
    let marked = || is_there(&home.container(id).join(REMOVING));
    let (state, lost) = match State::truth(home, id).and_then(|state| Ok((state, marked()?))) {
        Ok((mut state, marked)) => {
            if marked {
                state.status = Status::Removing;
            }
            (state, None)
        }
        Err(error) => (dead(&error), Some(LostRecord::State)),
    };
    Ok(Some(Entry {
        container,
        state,
        kept: true,
        lost,
    }))
}

/// A container that is there, and of which nothing is known.
fn lost(id: &ContainerId, error: &EngineError) -> Entry {
    Entry {
        container: Container::unknown(id),
        state: dead(error),
        kept: true,
        lost: Some(LostRecord::Container),
    }
}

fn dead(error: &EngineError) -> State {
    State {
        status: Status::Dead,
        error: super::failure::line(error),
        ..State::default()
    }
}

/// A container without a record in a directory of its own.
fn unrecorded(home: &Home, id: &ContainerId) -> Result<Option<Entry>, EngineError> {
    match noted(home, id) {
        Ok(Noted::Nothing) => {}
        Ok(Noted::Work) => return Ok(None),
        Ok(Noted::Container(entry)) => return Ok(Some(*entry)),
        Err(error) => return Ok(Some(lost(id, &error))),
    }
    // Nobody works on it, so nobody is about to write its record: a power cut has taken that.
    let path = home.container(id).join(record::FILE);
    if !is_there(&home.container(id))? || is_there(&path)? {
        return Ok(None);
    }
    Ok(Some(lost(id, &RecordError::Missing { path }.into())))
}

/// What is in `live/` of a container that has no directory.
enum Noted {
    /// There is no such file.
    Nothing,
    /// Somebody makes it or removes it, or was killed while he did.
    Work,
    /// It is all there is of a container.
    Container(Box<Entry>),
}

fn noted(home: &Home, id: &ContainerId) -> Result<Noted, EngineError> {
    let path = home.live().join(id.as_str());
    let mut last = None;
    // Written in place: half of it may be read, but not again and again.
    for _ in 0..64 {
        let text = match tote_state::short::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Noted::Nothing),
            read => read.map_err(|source| RecordError::Unreadable {
                path: path.clone(),
                source,
            })?,
        };
        if text.is_empty() || text.starts_with(super::claim::VOLUMES) {
            return Ok(Noted::Work);
        }
        match tote_state::record::parse::<Entry>(&path, &text) {
            Ok(entry) => {
                // What is noted before it has a process is for whoever finds its maker dead.
                let lives = entry.state.process.is_some() && Claim::is_held(home, id);
                return Ok(if lives {
                    Noted::Container(Box::new(entry))
                } else {
                    Noted::Work
                });
            }
            Err(error) => last = Some(error),
        }
        std::thread::yield_now();
    }
    match last {
        Some(error) if Claim::is_held(home, id) => Err(error.into()),
        // Its writer was killed: the next sweep clears what the id names.
        _ => Ok(Noted::Work),
    }
}

/// A container that has an image.
pub(crate) struct ImageUser {
    /// `container` and its name, or its short id; or a pool.
    pub(crate) name: String,
    /// Whether it runs, or is about to.
    pub(crate) runs: bool,
}

/// The containers that have an image, and the pools: those that run first.
///
/// # Errors
/// As [`list_whole`]: a container whose record cannot be read may have it.
pub(crate) fn image_users(home: &Home, given: &Digest) -> Result<Vec<ImageUser>, EngineError> {
    let image = given.to_string();
    let mut users: Vec<ImageUser> = list_whole(home)?
        .into_iter()
        .filter(|entry| entry.container.image_id.as_ref() == Some(&image))
        .map(|entry| ImageUser {
            name: format!("container {}", entry.container.display()),
            // Nobody knows whether one runs whose state is lost.
            runs: entry.state.runs() || !entry.kept || entry.lost.is_some(),
        })
        .collect();
    let pools = crate::pool::image_users(home, given)?.into_iter();
    users.extend(pools.map(|pool| ImageUser {
        name: format!("pool {pool}"),
        runs: true,
    }));
    users.sort_by_key(|user| !user.runs);
    Ok(users)
}

/// Whether an image is shown as one that containers have; as long as nobody can say so, it is.
pub(crate) fn may_have_users(home: &Home, image: &Digest) -> bool {
    image_users(home, image).map_or(true, |users| !users.is_empty())
}

/// Whether there is anything of that id.
pub(super) fn exists(home: &Home, id: &ContainerId) -> Result<bool, EngineError> {
    Ok(is_there(&home.live().join(id.as_str()))? || is_there(&home.container(id))?)
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
            lost: None,
        };
        entry.container.id = id(0x22);
        entry.container.name = "passing".to_owned();
        let claim = Claim::take(&home, &id(0x22)).unwrap().unwrap();
        let open = |id: &ContainerId| open(&home, id).unwrap();
        assert!(open(&id(0x22)).is_none(), "nothing is known of it yet");
        claim.note(&entry, &crate::exec::Inside::default()).unwrap();
        assert_eq!(open(&id(0x22)), Some(entry));
        drop(claim);
        assert!(open(&id(0x22)).is_none());
    }
}
