//! Removing pods.

use super::find::{self, ids, members_whole};
use super::life::Done;
use super::lock::{Guard, REMOVING};
use super::record::FILE;
use super::{Pod, PodError, PodStatus};
use crate::container::{self, Entry, Status, StopOptions, fault, name};
use crate::{EngineError, Home};
use tote_bundle::{ContainerId, StopTimeout};
use tote_state::events::append;
use tote_state::locked::is_full_disk;
use tote_state::record::{RecordError, is_there};
use tote_sys::best_effort;

/// Removes a pod with all its containers; with `force` also those that run, which are asked to end before where there is a
/// `timeout`. Each step can be done again: whoever finds the mark goes on.
pub fn remove(
    home: &Home,
    wanted: &str,
    force: bool,
    timeout: Option<StopTimeout>,
) -> Result<ContainerId, Vec<EngineError>> {
    sweep(home);
    let pod = match find::record(home, wanted) {
        Ok(pod) => pod,
        Err(EngineError::Record(error)) => return remove_lost(home, wanted, force, error),
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

/// The same for a pod whose record cannot be read: whoever gives its whole id wants it gone. A newer tote's goes by force
/// only.
fn remove_lost(
    home: &Home,
    wanted: &str,
    force: bool,
    why: RecordError,
) -> Result<ContainerId, Vec<EngineError>> {
    let is_newer = matches!(why, RecordError::Newer { .. });
    let id = match wanted.parse::<ContainerId>() {
        Ok(id) if force || !is_newer => id,
        _ => return Err(vec![why.into()]),
    };
    let guard = Guard::exclusive(home, &id).map_err(|error| vec![error])?;
    if guard.is_some() {
        clear(home, &id, force)?;
    }
    Ok(id)
}

/// Removes the pod that has this name, whatever runs in it: `--replace`. One whose id only begins so is another.
pub fn remove_named(home: &Home, name: &str) -> Result<(), Vec<EngineError>> {
    match find::named(home, name).map_err(|error| vec![error])? {
        Some(id) => remove(home, id.as_str(), true, None).map(drop),
        None => Ok(()),
    }
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

/// The first member that runs.
fn in_the_way(home: &Home, pod: &Pod) -> Result<Option<PodError>, EngineError> {
    let members = members_whole(home, &pod.id)?;
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

/// Removes everything that the id names. Who calls it has the lock.
fn clear(home: &Home, id: &ContainerId, force: bool) -> Done {
    let dir = home.pod(id);
    let fail =
        |attempt, path: std::path::PathBuf| move |source| vec![EngineError::file(attempt, path)(source)];
    let whole = |error| vec![error];
    // Before the mark: what cannot be done is not begun.
    let members = members_whole(home, id).map_err(whole)?;
    let mark = dir.join(REMOVING);
    match tote_state::closed::write(&mark, "") {
        // A full disk has no room for it. Whoever is killed on the way leaves a pod with fewer members then.
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
    // The record goes before the rest: without it there is no pod, only a leftover.
    // Where it cannot be read, nobody knows the name.
    let pod = Pod::read(home, id).ok().flatten();
    for name in [FILE, "pod.new"] {
        best_effort(std::fs::remove_file(dir.join(name)));
    }
    fault::point("pod-unrecorded");
    let is_nameless = match pod {
        Some(pod) => name::release(home, &pod.name, id),
        None => name::release_any(home, id),
    };
    if !is_nameless {
        // The directory stays without a record, so that the next command with pods goes on.
        let source = std::io::Error::other("its name cannot be read or given back");
        return Err(fail("remove", dir)(source));
    }
    fault::point("pod-nameless");
    best_effort(std::fs::remove_file(dir.join(REMOVING)));
    match std::fs::remove_dir_all(&dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(fail("remove", dir)(error)),
        _ => Ok(()),
    }
}

/// Forgets a pod that was not wholly made. Who calls it has the lock; what cannot be removed now the next one finds.
pub(super) fn discard(home: &Home, id: &ContainerId) {
    drop(clear(home, id, true));
}

/// Brings into order what killed commands left: pods that were not wholly made, and removals that were not ended.
pub(crate) fn sweep(home: &Home) {
    for id in ids(home).unwrap_or_default() {
        let dir = home.pod(&id);
        // What cannot be looked at is left alone.
        let is_left = || {
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

/// Removes all pods whose containers have all ended; podman's rule. Gives their ids, and the errors of those that stayed.
pub fn prune(home: &Home) -> (Vec<ContainerId>, Vec<EngineError>) {
    sweep(home);
    let (mut removed, mut errors) = (Vec::new(), Vec::new());
    let entries = match find::list(home) {
        Ok(entries) => entries,
        Err(error) => return (removed, vec![error]),
    };
    for entry in entries {
        if matches!(entry.status, PodStatus::Stopped | PodStatus::Exited) {
            match remove_pod(home, &entry.pod, false) {
                Ok(()) => removed.push(entry.pod.id),
                Err(why) => errors.extend(why),
            }
        }
    }
    (removed, errors)
}
