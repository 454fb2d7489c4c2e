//! Removing pods.

use super::find::{self, ids, members};
use super::life::Done;
use super::lock::{Guard, REMOVING};
use super::{Pod, PodError, PodStatus};
use crate::container::{self, Entry, Status, StopOptions, fault, name};
use crate::{EngineError, Home};
use tote_bundle::{ContainerId, StopTimeout};
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
    let pod = find::record(home, wanted).map_err(|error| vec![error])?;
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

/// Removes the pod that has this name, whatever runs in it: `--replace`. One whose id only begins so is another.
pub fn remove_named(home: &Home, name: &str) -> Result<(), Vec<EngineError>> {
    match name::named(home, name).filter(|id| find::is_there(home, id)) {
        Some(id) => remove(home, id.as_str(), true, None).map(drop),
        None => Ok(()),
    }
}

fn remove_pod(home: &Home, pod: &Pod, force: bool) -> Done {
    let guard = Guard::exclusive(home, &pod.id).map_err(|error| vec![error])?;
    let Some(_guard) = guard else {
        return Err(vec![PodError::Missing(pod.name.clone()).into()]);
    };
    if !force && let Some(error) = in_the_way(home, pod) {
        return Err(vec![error.into()]);
    }
    clear(home, &pod.id, force)?;
    container::append(home, &[pod.event("remove")]);
    Ok(())
}

/// The first member that runs.
fn in_the_way(home: &Home, pod: &Pod) -> Option<PodError> {
    let members = members(home, &pod.id);
    let runs = |entry: &&Entry| {
        let lives = matches!(entry.state.status, Status::Running | Status::Restarting);
        lives && !entry.container.is_infra()
    };
    let member = members.iter().find(runs)?;
    Some(PodError::Running {
        pod: pod.id.to_string(),
        container: member.container.id.to_string(),
        state: if member.state.paused { "paused" } else { "running" },
    })
}

/// Removes everything that the id names. Who calls it has the lock.
fn clear(home: &Home, id: &ContainerId, force: bool) -> Done {
    let dir = home.pod(id);
    let fail = |attempt, path: std::path::PathBuf| {
        move |source| {
            vec![EngineError::State {
                attempt,
                path,
                source,
            }]
        }
    };
    let mark = dir.join(REMOVING);
    crate::closed::write(&mark, "").map_err(fail("make", mark))?;
    fault::point("pod-marked");
    let is_infra = |entry: &Entry| entry.container.is_infra();
    let (infra, others): (Vec<Entry>, Vec<Entry>) = members(home, id).into_iter().partition(is_infra);
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
    super::group::remove(home, id);
    // The record goes before the rest: without it there is no pod, only a leftover.
    let pod = Pod::read(home, id);
    for name in ["pod.json", "pod.new"] {
        best_effort(std::fs::remove_file(dir.join(name)));
    }
    fault::point("pod-unrecorded");
    match pod {
        Some(pod) => name::release(home, &pod.name, id),
        None => name::release_any(home, id),
    }
    fault::point("pod-nameless");
    best_effort(std::fs::remove_file(dir.join(REMOVING)));
    match std::fs::remove_dir(&dir) {
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
    for id in ids(home) {
        let is_whole = || home.pod(&id).join("pod.json").exists() && !home.pod(&id).join(REMOVING).exists();
        if is_whole() {
            continue;
        }
        if let Some(_guard) = Guard::abandoned(home, &id)
            && !is_whole()
        {
            drop(clear(home, &id, true));
        }
    }
}

/// Removes all pods whose containers have all ended; podman's rule. Gives their ids, and the errors of those that stayed.
pub fn prune(home: &Home) -> (Vec<ContainerId>, Vec<EngineError>) {
    sweep(home);
    let (mut removed, mut errors) = (Vec::new(), Vec::new());
    for entry in find::list(home) {
        if matches!(entry.status, PodStatus::Stopped | PodStatus::Exited) {
            match remove_pod(home, &entry.pod, false) {
                Ok(()) => removed.push(entry.pod.id),
                Err(why) => errors.extend(why),
            }
        }
    }
    (removed, errors)
}
