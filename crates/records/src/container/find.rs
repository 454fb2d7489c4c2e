//! Lookup of containers.

use super::claim::{FirstProcess, VOLUMES};
use super::entry::{Entry, LostRecord, REMOVING};
use super::error::LifeError;
use super::live::is_held;
use super::mount_points::mounts_image;
use super::record::{self, Container};
use super::state::{ProcessId, State, Status};
use crate::changes::ContainerError;
use crate::{EngineError, Home};
use std::collections::BTreeSet;
use std::io::ErrorKind;
use tote_bundle::{ContainerId, Name};
use tote_image::Digest;
use tote_state::StateError;
use tote_state::record::{RecordError, is_there, names_in};

impl LifeError {
    /// Builds the error for a container with an unreadable record.
    pub fn lost(entry: &Entry) -> Self {
        Self::Lost {
            id: entry.container.id.to_string(),
            reason: entry.state.error.clone(),
        }
    }
}

/// Finds a container by id, name, or unique prefix of an id; in docker's order, and as there `/NAME` is only taken as
/// a name.
///
/// # Errors
/// [`ContainerError::NoContainer`] and [`ContainerError::Ambiguous`], in docker's words; [`LifeError::Lost`] for a
/// container with an unreadable record.
pub fn find(home: &Home, wanted: &str) -> Result<Entry, EngineError> {
    let entry = seek(home, wanted)?;
    if entry.lost == Some(LostRecord::Container) {
        return Err(LifeError::lost(&entry).into());
    }
    Ok(entry)
}

/// Finds a container, even one with an unreadable record.
pub fn seek(home: &Home, wanted: &str) -> Result<Entry, EngineError> {
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
    // All containers are looked at only for a text that can begin an id.
    if name.is_some() || !wanted.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(missing());
    }
    let mut ids = ids(home)?.into_iter().filter(|id| id.has_prefix(wanted));
    match (ids.next(), ids.next()) {
        (Some(id), None) => open(home, &id)?.ok_or_else(missing),
        (Some(_), Some(_)) => Err(ContainerError::Ambiguous(wanted.to_owned()).into()),
        (None, _) => Err(missing()),
    }
}

/// True if the container has the name that leads to it: during a renaming, and after a killed one, two names lead to
/// it.
pub fn is_called(entry: &Entry, name: &str) -> bool {
    let own = entry.container.name.as_str();
    own.is_empty() || own == name
}

/// Returns the container of a name.
pub fn named(home: &Home, name: &str) -> Result<Option<ContainerId>, EngineError> {
    if name.parse::<Name>().is_err() {
        return Ok(None);
    }
    super::link::read(&home.names().join(name))
}

/// Lists all containers, the newest first, including those with unreadable records, see [`Entry::lost`].
///
/// # Errors
/// [`EngineError::State`] if the directories cannot be listed.
pub fn list(home: &Home) -> Result<Vec<Entry>, EngineError> {
    let mut entries = Vec::new();
    for id in ids(home)? {
        entries.extend(open(home, &id)?);
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.container.created));
    Ok(entries)
}

/// Lists all containers for a decision on unneeded objects: an unreadable record is an error, because its needs are
/// unknown.
///
/// # Errors
/// Those of [`list`], and [`LifeError::Lost`].
pub fn list_whole(home: &Home) -> Result<Vec<Entry>, EngineError> {
    let entries = list(home)?;
    match entries
        .iter()
        .find(|entry| entry.lost == Some(LostRecord::Container))
    {
        Some(entry) => Err(LifeError::lost(entry).into()),
        None => Ok(entries),
    }
}

/// Lists all containers for a decision on what a start needs: a container whose record is lost for certain never starts again, and
/// is left out.
///
/// # Errors
/// Those of [`list`], and [`LifeError::Lost`] for every other record that cannot be read.
pub fn list_startable(home: &Home) -> Result<Vec<Entry>, EngineError> {
    let mut entries = Vec::new();
    for entry in list(home)? {
        if entry.lost != Some(LostRecord::Container) {
            entries.push(entry);
        } else if !unusable(home, &entry.container.id)
            .iter()
            .all(RecordError::is_lost)
        {
            return Err(LifeError::lost(&entry).into());
        }
    }
    Ok(entries)
}

/// Lists why the records of a container cannot be used.
fn unusable(home: &Home, id: &ContainerId) -> Vec<RecordError> {
    let reads = [
        Container::read(home, id).map(drop),
        State::read(home, id).map(drop),
    ];
    let errors = reads.into_iter().filter_map(Result::err);
    let why = errors.filter_map(|error| match error {
        EngineError::State(StateError::Record(why)) => Some(why),
        _ => None,
    });
    why.collect()
}

/// Checks that the machine can read the records now, whatever is in them.
///
/// # Errors
/// [`LifeError::Lost`] for a container whose record may be readable a moment later.
pub fn check_readable(home: &Home) -> Result<(), EngineError> {
    for entry in list(home)? {
        let lost = entry.lost == Some(LostRecord::Container);
        if lost
            && unusable(home, &entry.container.id)
                .iter()
                .any(RecordError::is_passing)
        {
            return Err(LifeError::lost(&entry).into());
        }
    }
    Ok(())
}

/// True if a newer tote has written a record of the container.
#[must_use]
pub fn is_newer(home: &Home, id: &ContainerId) -> bool {
    unusable(home, id).iter().any(RecordError::is_newer)
}

/// Lists the containers and pools whose needs are unknown, because their records cannot be read: an error for each, which has the
/// remedy.
///
/// # Errors
/// Those of [`list`].
pub fn unread(home: &Home) -> Result<Vec<EngineError>, EngineError> {
    let entries = list(home)?.into_iter();
    let dead = entries.filter(|entry| entry.lost == Some(LostRecord::Container));
    let mut errors: Vec<EngineError> = dead.map(|entry| LifeError::lost(&entry).into()).collect();
    let pools = crate::pool::records(home)?.damaged.into_iter();
    errors.extend(pools.map(|pool| EngineError::from(StateError::from(pool))));
    Ok(errors)
}

/// Lists the names of all containers; empty after an error.
#[must_use]
pub fn names(home: &Home) -> Vec<String> {
    let entries = list(home).unwrap_or_default();
    entries
        .iter()
        .map(|entry| entry.container.display().to_owned())
        .collect()
}

/// Lists the ids with a directory or a claim.
pub fn ids(home: &Home) -> Result<BTreeSet<ContainerId>, EngineError> {
    let mut ids = BTreeSet::new();
    for dir in [home.containers(), home.live()] {
        ids.extend(names_in(&dir)?.iter().filter_map(|name| name.parse().ok()));
    }
    Ok(ids)
}

/// Opens the container of an id; `None` if it does not exist yet or any longer. A container with unreadable records
/// is dead.
///
/// # Errors
/// [`EngineError::State`] if its existence cannot be determined.
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

/// Makes the entry of a container with an unreadable record.
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
        error: tote_sys::chain(error),
        ..State::default()
    }
}

/// Looks for a container without a record in a directory of its own.
fn unrecorded(home: &Home, id: &ContainerId) -> Result<Option<Entry>, EngineError> {
    match noted(home, id) {
        Ok(Noted::Nothing) => {}
        Ok(Noted::Work) => return Ok(None),
        Ok(Noted::Container(entry)) => return Ok(Some(*entry)),
        Err(error) => return Ok(Some(lost(id, &error))),
    }
    // No process works on the container, so its record will not come: a power cut has removed it.
    let path = home.container(id).join(record::FILE);
    if !is_there(&home.container(id))? || is_there(&path)? {
        return Ok(None);
    }
    Ok(Some(lost(id, &RecordError::Missing { path }.into())))
}

/// Content of a container's file in `live/`.
enum Noted {
    /// Missing file.
    Nothing,
    /// Claim of a process that makes or removes the container, dead or alive.
    Work,
    /// Record of a container without a directory.
    Container(Box<Entry>),
}

fn noted(home: &Home, id: &ContainerId) -> Result<Noted, EngineError> {
    let path = home.live().join(id.as_str());
    let mut last = None;
    // The file is written in place, so a read may see half of it, but not repeatedly.
    for _ in 0..64 {
        let text = match tote_state::short::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Noted::Nothing),
            read => read.map_err(|source| RecordError::Unreadable {
                path: path.clone(),
                source,
            })?,
        };
        if text.trim_ascii().is_empty() || text.starts_with(VOLUMES) {
            return Ok(Noted::Work);
        }
        let is_coming = text.first() == Some(&FirstProcess::Coming.byte());
        match tote_state::record::parse::<Entry>(&path, &text) {
            Ok(entry) => {
                // An entry without a process only serves a sweep after the death of its maker.
                let begun = match &entry.state.process {
                    Some(process) if is_coming => has_begun(process)?,
                    process => process.is_some(),
                };
                return Ok(if begun && is_held(home, id) {
                    Noted::Container(Box::new(entry))
                } else {
                    Noted::Work
                });
            }
            // It is being written.
            Err(_) if is_coming => return Ok(Noted::Work),
            Err(error) => last = Some(error),
        }
        std::thread::yield_now();
    }
    match last {
        Some(error) if is_held(home, id) => Err(error.into()),
        // The writer was killed: the next sweep clears the parts that the id names.
        _ => Ok(Noted::Work),
    }
}

/// True if the first process of a container has the rights of its program. A process that could be joined before could be traced
/// from inside, and it has the rights of its maker until just before execve(2).
fn has_begun(process: &ProcessId) -> Result<bool, EngineError> {
    tote_state::process::has_begun(process.pid, process.start_time, tote_sandbox::INIT_NAME)
        .map_err(EngineError::file("read", format!("/proc/{}/stat", process.pid)))
}

/// Container or pool that uses an image.
#[derive(Debug)]
pub struct ImageUser {
    /// Word `container` with its name or its short id; or the word for a pool.
    pub name: String,
    /// True if it runs, or is about to.
    pub runs: bool,
    /// True if it is mounted for other programs.
    pub mounted: bool,
    /// True if its record cannot be read, and it may have any image.
    pub damaged: bool,
}

/// Lists the containers and pools that use an image, or may use it because their records cannot be read: running ones first.
///
/// # Errors
/// Those of [`list`].
pub fn image_users(home: &Home, given: &Digest) -> Result<Vec<ImageUser>, EngineError> {
    let image = given.to_string();
    let is_dead = |entry: &Entry| entry.lost == Some(LostRecord::Container);
    let mut users: Vec<ImageUser> = list(home)?
        .into_iter()
        .filter(|entry| {
            let container = &entry.container;
            is_dead(entry) || container.image_id.as_ref() == Some(&image) || mounts_image(container, &image)
        })
        .map(|entry| ImageUser {
            name: match is_dead(&entry) {
                true => format!("container {}, which is dead", entry.container.id),
                false => format!("container {}", entry.container.display()),
            },
            runs: match entry.lost {
                Some(LostRecord::Container) => is_held(home, &entry.container.id),
                // A container with a lost state may be running.
                Some(LostRecord::State) => true,
                None => entry.state.runs() || !entry.kept,
            },
            mounted: crate::mounted::is_mounted_somewhere(home, &entry.container.id),
            damaged: is_dead(&entry),
        })
        .collect();
    let damaged = crate::pool::records(home)?.damaged.into_iter();
    users.extend(damaged.map(|pool| ImageUser {
        name: format!("pool {}, whose record cannot be used", pool.name),
        runs: false,
        mounted: false,
        damaged: true,
    }));
    let pools = crate::pool::image_users(home, given)?.into_iter();
    users.extend(pools.map(|pool| ImageUser {
        name: format!("pool {pool}"),
        runs: true,
        mounted: false,
        damaged: false,
    }));
    users.sort_by_key(|user| (!user.runs, !user.mounted));
    Ok(users)
}

/// True if an image is shown as used by containers; after an error it is.
pub fn may_have_users(home: &Home, image: &Digest) -> bool {
    image_users(home, image).map_or(true, |users| !users.is_empty())
}

/// Asks whether a claim or a directory of that id exists.
pub fn exists(home: &Home, id: &ContainerId) -> Result<bool, EngineError> {
    Ok(is_there(&home.live().join(id.as_str()))? || is_there(&home.container(id))?)
}

#[cfg(test)]
mod tests {
    use super::super::ProcessId;
    use super::super::claim::Claim;
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
        // A thread has executed no program itself, as a process that was only cloned.
        let ((tells, told), (end, ends)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
        let thread = std::thread::spawn(move || {
            tells.send(rustix::thread::gettid()).unwrap();
            ends.recv().unwrap();
        });
        let cloned = told.recv().unwrap().as_raw_pid().unsigned_abs();
        let mut entry = Entry {
            container: container(&home, 0x21, "kept"),
            state: State {
                process: ProcessId::of(cloned),
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
        claim.mark_begun();
        assert!(open(&id(0x22)).is_none(), "it has no record");
        let note = |entry: &Entry, first| claim.note(entry, &crate::exec::Inside::default(), first).unwrap();
        note(&entry, FirstProcess::Coming);
        assert!(
            open(&id(0x22)).is_none(),
            "its process may have its maker's rights"
        );
        assert_eq!(claim.noted().as_ref(), Some(&entry), "for a sweep");
        claim.mark_begun();
        assert_eq!(open(&id(0x22)).as_ref(), Some(&entry));
        entry.state.process = ProcessId::of(std::process::id());
        note(&entry, FirstProcess::Coming);
        assert_eq!(open(&id(0x22)), Some(entry), "its process has executed a program");
        end.send(()).unwrap();
        thread.join().unwrap();
        drop(claim);
        assert!(open(&id(0x22)).is_none());
    }
}
