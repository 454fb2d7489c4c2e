//! Removal of pods.

use super::find::{self, Done, PodEntry, ids};
use super::lock::{Guard, REMOVING};
use super::record::FILE;
use super::{Pod, PodError, PodStatus};
use crate::container::{self, Entry, Status, StopOptions, fault, name};
use crate::{EngineError, Home};
use tote_bundle::{ContainerId, StopTimeout};
use tote_state::StateError;
use tote_state::events::append;
use tote_state::locked::is_full_disk;
use tote_state::record::Damaged;
use tote_state::record::is_there;
use tote_sys::best_effort;

/// Removes a pod with all its containers; with `force` also running ones, which are asked to end first if there is a
/// `timeout`. Each step can be repeated: a later command that finds the mark completes the removal.
pub fn remove(
    home: &Home,
    wanted: &str,
    force: bool,
    timeout: Option<StopTimeout>,
) -> Result<ContainerId, Vec<EngineError>> {
    sweep(home);
    let pod = match find::record(home, wanted) {
        Ok(pod) => pod,
        Err(EngineError::State(StateError::Damaged(damaged))) => {
            return remove_damaged(home, wanted, force, *damaged);
        }
        Err(error) => return Err(vec![error]),
    };
    if force && timeout.is_some() {
        let options = StopOptions {
            signal: None,
            timeout,
        };
        super::stop(home, pod.id.as_str(), options)?;
    }
    remove_pod(home, &pod, force)?;
    Ok(pod.id)
}

/// Removes a pod whose record cannot be used. A record of a newer tote needs `force`.
fn remove_damaged(
    home: &Home,
    wanted: &str,
    force: bool,
    damaged: Damaged,
) -> Result<ContainerId, Vec<EngineError>> {
    damaged
        .removable(force)
        .map_err(|damaged| one(StateError::from(damaged).into()))?;
    let id = find::seek(home, wanted).map_err(one)?;
    let guard = Guard::exclusive(home, &id).map_err(one)?;
    if guard.is_some() {
        clear(home, &id, force)?;
    }
    Ok(id)
}

fn one(error: EngineError) -> Vec<EngineError> {
    vec![error]
}

/// Removes the pod of this name, even with running members: `--replace`. The name is not taken as
/// the prefix of an id. A pod of a newer tote stays.
pub fn remove_named(home: &Home, name: &str) -> Result<(), Vec<EngineError>> {
    let Some(id) = find::named(home, name).map_err(one)? else {
        return Ok(());
    };
    if let Err(EngineError::State(StateError::Damaged(damaged))) = Pod::read(home, &id) {
        damaged
            .removable(false)
            .map_err(|damaged| one(StateError::from(damaged).into()))?;
    }
    remove(home, id.as_str(), true, None).map(drop)
}

fn remove_pod(home: &Home, pod: &Pod, force: bool) -> Done {
    let guard = Guard::exclusive(home, &pod.id).map_err(|error| vec![error])?;
    let Some(_guard) = guard else {
        return Err(vec![PodError::Missing(pod.name.clone()).into()]);
    };
    if !force && let Some(error) = in_the_way(home, pod).map_err(|error| vec![error])? {
        return Err(vec![error.into()]);
    }
    clear(home, &pod.id, force)?;
    append(home, &[pod.event("remove")]);
    Ok(())
}

/// Lists the members for a removal. A container whose record cannot be read is in no pod's way: it stays.
///
/// # Errors
/// Those of [`container::list`]; the record of a container that the machine cannot read at the moment.
fn members(home: &Home, id: &ContainerId) -> Result<Vec<Entry>, EngineError> {
    container::check_readable(home)?;
    find::members(home, id)
}

/// Returns an error for the first running member.
fn in_the_way(home: &Home, pod: &Pod) -> Result<Option<PodError>, EngineError> {
    let members = members(home, &pod.id)?;
    let runs = |entry: &&Entry| {
        let lives = matches!(entry.state.status, Status::Running | Status::Restarting);
        lives && !entry.container.is_infra()
    };
    Ok(members.iter().find(runs).map(|member| PodError::Running {
        pod: pod.id.to_string(),
        container: member.container.id.to_string(),
        state: if member.state.paused { "paused" } else { "running" },
    }))
}

/// Removes all parts of the pod of an id. The caller has the lock.
fn clear(home: &Home, id: &ContainerId, force: bool) -> Done {
    let dir = home.pod(id);
    let fail =
        |attempt, path: std::path::PathBuf| move |source| vec![EngineError::file(attempt, path)(source)];
    let whole = |error| vec![error];
    // The members are read before the mark is made, so that an impossible removal is not begun.
    let members = members(home, id).map_err(whole)?;
    let mark = dir.join(REMOVING);
    match tote_state::closed::write(&mark, "") {
        // A full disk has no room for the mark. A kill on the way then leaves a pod with fewer members.
        Err(error) if is_full_disk(&error) => {}
        marked => marked.map_err(fail("make", mark))?,
    }
    fault::point("pod-marked");
    let is_infra = |entry: &Entry| entry.container.is_infra();
    let (infra, others): (Vec<Entry>, Vec<Entry>) = members.into_iter().partition(is_infra);
    for (members, force) in [(others, force), (infra, true)] {
        let wanted: Vec<String> = members
            .iter()
            .map(|member| member.container.id.to_string())
            .collect();
        let removed = container::remove_members(home, &wanted, force);
        let errors: Vec<EngineError> = removed
            .into_iter()
            .filter_map(Result::err)
            .filter(|error| !error.is_missing_container())
            .collect();
        if !errors.is_empty() {
            return Err(errors);
        }
        fault::point("pod-emptied");
    }
    super::group::remove(home, id).map_err(whole)?;
    // The record goes before the rest: without it the directory is only a leftover. If it cannot be
    // read, the name is unknown.
    // absence: the record is unreadable, and the pod is to go all the same
    let pod = Pod::read(home, id).ok().flatten();
    for name in [FILE, "pod.new"] {
        best_effort(tote_state::record::remove(&dir.join(name)));
    }
    fault::point("pod-unrecorded");
    let is_nameless = match pod {
        Some(pod) => name::release(home, &pod.name, id),
        None => name::release_any(home, id),
    };
    if !is_nameless {
        // The directory stays without a record, so that the next command with pods completes the removal.
        let source = std::io::Error::other("its name cannot be read or given back");
        return Err(fail("remove", dir)(source));
    }
    fault::point("pod-nameless");
    best_effort(tote_sys::remove_file(&dir.join(REMOVING)));
    tote_sys::remove_tree(&dir).map_err(fail("remove", dir))
}

/// Removes an incomplete pod. The caller has the lock; the next sweep finds the parts that cannot be removed now.
pub(crate) fn discard(home: &Home, id: &ContainerId) {
    drop(clear(home, id, true));
}

/// Clears the remains of killed commands: incomplete pods, and incomplete removals.
pub fn sweep(home: &Home) {
    for id in ids(home).unwrap_or_default() {
        let dir = home.pod(&id);
        // Entries that cannot be examined are left alone.
        let is_left = || {
            // absence: only what is known to have begun goes on
            matches!(
                (is_there(&dir.join(FILE)), is_there(&dir.join(REMOVING))),
                (Ok(false), Ok(_)) | (Ok(_), Ok(true))
            )
        };
        if !is_left() {
            continue;
        }
        if let Some(_guard) = Guard::abandoned(home, &id)
            && is_left()
        {
            drop(clear(home, &id, true));
        }
    }
}

/// True for a pod whose record is lost for certain, and whose containers have all ended.
fn is_lost(entry: &PodEntry) -> bool {
    let has_ended = |member: &Entry| {
        let status = member.state.status;
        status == Status::Exited || (status == Status::Created && member.container.is_infra())
    };
    entry.damaged.as_ref().is_some_and(|damaged| damaged.lost) && entry.members.iter().all(has_ended)
}

/// Removes all pods whose containers have all ended; podman's rule. Returns their ids, and the
/// errors of pods that stayed.
pub fn prune(home: &Home) -> (Vec<ContainerId>, Vec<EngineError>) {
    sweep(home);
    let (mut removed, mut errors) = (Vec::new(), Vec::new());
    let entries = match find::list(home) {
        Ok(entries) => entries,
        Err(error) => return (removed, vec![error]),
    };
    for entry in entries {
        if matches!(entry.status, PodStatus::Stopped | PodStatus::Exited) || is_lost(&entry) {
            match remove_pod(home, &entry.pod, false) {
                Ok(()) => removed.push(entry.pod.id),
                Err(why) => errors.extend(why),
            }
        }
    }
    (removed, errors)
}
