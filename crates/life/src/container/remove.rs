//! Removal of containers.

use super::claim::{Claim, RemovalPatience};
use super::entry::REMOVING;
use super::erase::{clear_cgroup, erase};
use super::error::LifeError;
use super::find::seek;
use super::launch::{mend_all, revive};
use super::live::is_held;
use super::removing::{FORCED, mark, takes_volumes};
use super::state::{State, Status};
use super::target::{Target, end_of};
use super::{Container, Entry, fault, find, list, name, sweep};
use crate::{EngineError, Home};
use std::fs::File;
use std::path::PathBuf;
use tote_bundle::{ContainerId, Name};
use tote_state::locked::locked;
use tote_state::record::is_there;
use tote_sys::best_effort;

/// Removes containers, with `force` also running ones: all are killed before the first is waited for. Returns the
/// result of each, in their order. With `volumes` their anonymous volumes are removed as well.
pub fn remove(home: &Home, wanted: &[String], force: bool, volumes: bool) -> Vec<Result<(), EngineError>> {
    remove_all(home, wanted, force, volumes, false)
}

/// Removes the container of this name, running or not: `--replace`. The name is not taken as the prefix of an id.
///
/// # Errors
/// [`EngineError`] if it could not be removed.
pub fn remove_named(home: &Home, wanted: &Name) -> Result<(), EngineError> {
    let Some(id) = name::named(home, wanted.as_str())? else {
        return Ok(());
    };
    if super::is_newer(home, &id) {
        return Err(newer(&seek(home, id.as_str())?));
    }
    for removed in remove(home, &[id.to_string()], true, false) {
        match removed {
            // Another command was faster.
            Err(error) if error.is_missing_container() => {}
            other => other?,
        }
    }
    Ok(())
}

/// Removes the members of a pod, including the infra container, which is removed only with the pod.
pub fn remove_members(home: &Home, wanted: &[String], force: bool) -> Vec<Result<(), EngineError>> {
    remove_all(home, wanted, force, true, true)
}

fn remove_all(
    home: &Home,
    wanted: &[String],
    force: bool,
    volumes: bool,
    infra: bool,
) -> Vec<Result<(), EngineError>> {
    // Remains of a killed command are cleared by id, even without a record.
    let due = mend_all(home);
    let how = How {
        force,
        patience: match force {
            true => RemovalPatience::Long,
            false => RemovalPatience::Moment,
        },
        volumes,
        infra,
    };
    let begun: Vec<_> = wanted
        .iter()
        .map(|wanted| begin(home, wanted, how, None))
        .collect();
    let end = |begun: Result<Begun, EngineError>| finish(home, begun?);
    let removed = begun.into_iter().map(end).collect();
    revive(home, &due);
    removed
}

/// Answers docker's `rm --link`: without support for links, a container's only name is its own.
///
/// # Errors
/// Always: the container is missing, or [`LifeError::DefaultLink`].
pub fn remove_link(home: &Home, wanted: &str) -> Result<(), EngineError> {
    find(home, wanted)?;
    Err(LifeError::DefaultLink.into())
}

/// Options of a removal.
#[derive(Clone, Copy, Default)]
struct How {
    /// True to remove running containers.
    force: bool,
    /// Limit of the wait for another command that has the claim.
    patience: RemovalPatience,
    /// True to remove anonymous volumes.
    volumes: bool,
    /// True to remove an infra container.
    infra: bool,
}

/// Container whose removal has begun.
struct Begun {
    entry: Entry,
    /// Killed process, if there was one.
    target: Option<Target>,
    how: How,
    /// Lock of the forced removal, while others may have the claim.
    forced: Option<ForcedRemoval>,
}

/// Forced removal in progress: a file in `live/`, locked. A killed command leaves it unlocked, and the sweep that
/// finds it continues the removal, because the container may still run, and only its monitor has the claim then.
struct ForcedRemoval {
    path: PathBuf,
    _file: File,
}

impl ForcedRemoval {
    /// Takes the lock; `None` while another command removes the container, and on a full disk,
    /// where the mark must suffice.
    fn take(home: &Home, id: &ContainerId, make: bool) -> Option<Self> {
        let path = home.live().join(format!("{id}{FORCED}"));
        let file = locked(&path, make, false).ok().flatten()?;
        Some(Self { path, _file: file })
    }
}

impl Drop for ForcedRemoval {
    /// The command has seen the end of the removal and reported it, so the file is not needed.
    fn drop(&mut self) {
        best_effort(std::fs::remove_file(&self.path));
    }
}

/// Continues the forced removal of a container whose command was killed, as far as it was marked.
pub(crate) fn go_on(home: &Home, id: &ContainerId) {
    let Some(forced) = ForcedRemoval::take(home, id, false) else {
        return;
    };
    // absence: only a removal that is known to have begun goes on
    if matches!(is_there(&home.container(id).join(REMOVING)), Ok(true))
        && let Ok(volumes) = takes_volumes(home, id)
    {
        let how = How {
            force: true,
            patience: RemovalPatience::Long,
            volumes,
            infra: true,
        };
        let begun = begin(home, id.as_str(), how, Some(forced));
        best_effort(begun.and_then(|begun| finish(home, begun)));
    }
}

/// Refuses to remove an infra container while its pod exists.
fn check_infra(home: &Home, container: &Container) -> Result<(), EngineError> {
    let pod = container.pod.as_ref().filter(|_| container.is_infra());
    let Some((pod, id)) = pod.and_then(|pod| Some((pod, pod.parse().ok()?))) else {
        return Ok(());
    };
    if crate::pod::is_there(home, &id)? {
        return Err(crate::pod::PodError::Infra {
            container: container.id.to_string(),
            pod: pod.clone(),
        }
        .into());
    }
    Ok(())
}

/// Begins a removal: all steps that do not wait.
fn begin(
    home: &Home,
    wanted: &str,
    how: How,
    mut forced: Option<ForcedRemoval>,
) -> Result<Begun, EngineError> {
    let mut entry = seek(home, wanted)?;
    if entry.lost.is_some() {
        return begin_lost(home, entry, how);
    }
    let id = entry.container.id.clone();
    if !how.infra {
        check_infra(home, &entry.container)?;
    }
    if entry.kept {
        // The mark comes first, then the look: a monitor that is just starting the container does the reverse, so one
        // of the two sees the other.
        if how.force {
            forced = forced.or_else(|| ForcedRemoval::take(home, &id, true));
            Claim::announce(home, &id);
            mark(home, &id, how.volumes)?;
            fault::point("force-marked");
        }
        match State::truth(home, &id) {
            Ok(state) => entry.state = state,
            Err(error) => return Err(unmark(home, &id, how, error)),
        }
    }
    let mut target = None;
    if matches!(entry.state.status, Status::Running | Status::Restarting) || !entry.kept {
        if !how.force {
            return Err(LifeError::Running(entry.container.display().to_owned()).into());
        }
        target = Target::of(&entry).map_err(|error| unmark(home, &id, how, error))?;
    }
    if let Some(target) = &target {
        target.kill();
    }
    fault::point("killed");
    Ok(Begun {
        entry,
        target,
        how,
        forced,
    })
}

/// Removes the mark of a container that could not be examined, which goes on unchanged.
fn unmark(home: &Home, id: &ContainerId, how: How, error: EngineError) -> EngineError {
    if how.force {
        best_effort(std::fs::remove_file(home.container(id).join(REMOVING)));
    }
    error
}

/// Error for a container that a newer tote has made.
fn newer(entry: &Entry) -> EngineError {
    let id = entry.container.id.to_string();
    let reason = entry.state.error.clone();
    LifeError::NewerRecord { id, reason }.into()
}

/// Error for a container that a newer tote has made; `None` for every other.
#[must_use]
pub fn newer_record(home: &Home, wanted: &str) -> Option<EngineError> {
    let entry = seek(home, wanted).ok()?;
    (entry.lost.is_some() && super::is_newer(home, &entry.container.id)).then(|| newer(&entry))
}

/// Begins the removal of a container with an unreadable record. A record of a newer tote needs `force`.
fn begin_lost(home: &Home, entry: Entry, how: How) -> Result<Begun, EngineError> {
    let id = entry.container.id.clone();
    if !how.force && super::is_newer(home, &id) {
        return Err(newer(&entry));
    }
    let mut target = None;
    if is_held(home, &id) {
        if !how.force {
            return Err(LifeError::Running(entry.container.display().to_owned()).into());
        }
        target = Target::of_monitor(home, &id);
    }
    if let Some(target) = &target {
        target.kill();
    }
    Ok(Begun {
        entry,
        target,
        how,
        forced: None,
    })
}

fn finish(home: &Home, begun: Begun) -> Result<(), EngineError> {
    let Begun {
        entry,
        target,
        how,
        forced: _forced,
    } = begun;
    let id = &entry.container.id;
    if let Some(target) = target {
        end_of(&target, "remove")?;
    }
    let claim = match Claim::to_remove(home, id, how.patience) {
        // The monitor is busy with the removal, which takes long for many files.
        Err(EngineError::Life(LifeError::Held { .. })) if !is_there(&home.container(id))? => return Ok(()),
        claim => claim?,
    };
    let Some(claim) = claim else {
        return Err(kept_from(home, &entry));
    };
    if entry.lost.is_some() {
        return erase_lost(home, &entry, claim, how.volumes);
    }
    // The container may have been removed meanwhile.
    let Some(container) = Container::read(home, id)? else {
        if how.volumes && claim.promised_volumes().is_none() {
            claim.note_volumes(Some(&Vec::new()));
        }
        if sweep::mend(home, id, &claim) {
            claim.release();
        }
        return Ok(());
    };
    let state = State::read(home, id)?;
    erase(home, &container, &state, claim, how.volumes)
}

/// Explains why another command keeps its claim of a container in removal.
fn kept_from(home: &Home, entry: &Entry) -> EngineError {
    let name = entry.container.display().to_owned();
    let state = State::read(home, &entry.container.id);
    let runs = |state: State| matches!(state.status, Status::Running | Status::Restarting);
    match state.is_ok_and(runs) {
        true => LifeError::Running(name).into(),
        false => LifeError::Busy(name).into(),
    }
}

/// Removes a container with an unreadable record; the other record helps to find its parts.
fn erase_lost(home: &Home, entry: &Entry, claim: Claim, volumes: bool) -> Result<(), EngineError> {
    let id = &entry.container.id;
    // absence: the record is unreadable, and the container is to go all the same
    let state = State::read(home, id).unwrap_or_default();
    clear_cgroup(id, &state)?;
    // Its monitor was killed, because the records say nothing of its process.
    crate::network::forget(home, id)?;
    // The container's name is unknown. A name that stays leads nowhere, so another container can take it.
    name::release_any(home, id);
    erase(home, &entry.container, &state, claim, volumes)
}

/// Removes all stopped containers that fit. Returns their ids, and the errors of those that stayed.
pub fn prune(home: &Home, fits: &dyn Fn(&Container) -> bool) -> (Vec<ContainerId>, Vec<EngineError>) {
    let (mut removed, mut errors) = (Vec::new(), Vec::new());
    let entries = match list(home) {
        Ok(entries) => entries,
        Err(error) => return (removed, vec![error]),
    };
    for entry in entries {
        if entry.lost.is_some() {
            // The container and its labels are unknown.
            errors.push(LifeError::lost(&entry).into());
            continue;
        }
        let ended = matches!(
            entry.state.status,
            Status::Created | Status::Exited | Status::Removing
        );
        if !ended || !entry.kept || entry.container.is_infra() || !fits(&entry.container) {
            continue;
        }
        let id = entry.container.id.clone();
        let begun = Begun {
            entry,
            target: None,
            how: How::default(),
            forced: None,
        };
        match finish(home, begun) {
            Ok(()) => removed.push(id),
            // A container that another command works on is not pruned.
            Err(EngineError::Life(LifeError::Busy(_) | LifeError::Running(_))) => {}
            Err(error) => errors.push(error),
        }
    }
    (removed, errors)
}

/// Removes a container that should not stay.
pub fn forget(home: &Home, id: &ContainerId) {
    if let (Ok(Some(container)), Ok(claim)) = (Container::read(home, id), Claim::wait(home, id)) {
        best_effort(erase(home, &container, &State::default(), claim, false));
    }
}
