//! Removing containers.

use super::claim::Claim;
use super::error::LifeError;
use super::find::REMOVING;
use super::launch::{mend_all, revive};
use super::state::{State, Status};
use super::stop::{Target, end_of};
use super::{Container, Entry, Event, events, fault, find, list, name, sweep};
use crate::{EngineError, Home};
use std::time::Duration;
use tote_bundle::{ContainerId, Name};
use tote_sys::best_effort;

/// How long a killed container may take to go; longer takes only a process that the kernel cannot end.
const KILLED: Duration = Duration::from_secs(10);

/// Removes containers, with `force` also those that run: all are killed before the first is waited for. Gives for each
/// what came of it, in their order. With `volumes` those go with them that nobody named.
pub fn remove(home: &Home, wanted: &[String], force: bool, volumes: bool) -> Vec<Result<(), EngineError>> {
    remove_all(home, wanted, force, volumes, false)
}

/// Removes the container that has this name, whether it runs or not: `--replace`. One whose id only begins so is another.
///
/// # Errors
/// [`EngineError`]: it could not be removed.
pub fn remove_named(home: &Home, wanted: &Name) -> Result<(), EngineError> {
    let Some(id) = name::named(home, wanted.as_str()) else {
        return Ok(());
    };
    for removed in remove(home, &[id.to_string()], true, false) {
        match removed {
            // Somebody else was faster.
            Err(error) if error.is_missing_container() => {}
            other => other?,
        }
    }
    Ok(())
}

/// The members of a pod, with the container that keeps its namespaces, which goes only with the pod.
pub(crate) fn remove_members(home: &Home, wanted: &[String], force: bool) -> Vec<Result<(), EngineError>> {
    remove_all(home, wanted, force, true, true)
}

fn remove_all(
    home: &Home,
    wanted: &[String],
    force: bool,
    volumes: bool,
    infra: bool,
) -> Vec<Result<(), EngineError>> {
    // What a killed command left is cleared by its id, also where there was no record yet that could be found.
    let due = mend_all(home);
    let begin = |wanted: &String| begin(home, wanted, force, infra);
    let begun: Vec<_> = wanted.iter().map(begin).collect();
    let end = |begun: Result<Begun, EngineError>| {
        let begun = begun?;
        let unnamed = if volumes {
            crate::volume::unnamed_of(home, &begun.entry.container)
        } else {
            Vec::new()
        };
        finish(home, begun)?;
        crate::volume::remove_unused(home, &unnamed)
    };
    let removed = begun.into_iter().map(end).collect();
    revive(home, &due);
    removed
}

/// docker's `rm --link`: where there are no links, a container's only name is its own.
///
/// # Errors
/// Always: there is no such container, or [`LifeError::DefaultLink`].
pub fn remove_link(home: &Home, wanted: &str) -> Result<(), EngineError> {
    find(home, wanted)?;
    Err(LifeError::DefaultLink.into())
}

/// A container whose removal has begun.
struct Begun {
    entry: Entry,
    /// What was killed.
    target: Option<Target>,
    /// Whether whoever has the claim is waited for.
    force: bool,
}

/// What keeps a pod's namespaces goes with the pod, as long as there is one.
fn check_infra(home: &Home, container: &Container) -> Result<(), crate::pod::PodError> {
    let pod = container.pod.as_ref().filter(|_| container.is_infra());
    let pod = pod.filter(|pod| pod.parse().is_ok_and(|id| crate::pod::is_there(home, &id)));
    match pod {
        Some(pod) => Err(crate::pod::PodError::Infra {
            container: container.id.to_string(),
            pod: pod.clone(),
        }),
        None => Ok(()),
    }
}

/// Everything that needs no waiting.
fn begin(home: &Home, wanted: &str, force: bool, infra: bool) -> Result<Begun, EngineError> {
    let mut entry = find(home, wanted)?;
    let id = entry.container.id.clone();
    if !infra {
        check_infra(home, &entry.container)?;
    }
    let lives = |state: &State| matches!(state.status, Status::Running | Status::Restarting);
    if entry.kept {
        // First the mark, then the look: a monitor that is just starting it does the same the other way round, so that
        // one of the two sees the other.
        if force {
            mark(home, &id)?;
        }
        entry.state = State::truth(home, &id);
    }
    let target = if lives(&entry.state) || !entry.kept {
        if !force {
            return Err(LifeError::Running(entry.container.display().to_owned()).into());
        }
        Target::of(&entry)
    } else {
        None
    };
    if let Some(target) = &target {
        target.kill();
    }
    fault::point("killed");
    Ok(Begun { entry, target, force })
}

/// Whoever finds the mark and the claim free goes on with the removal. What has gone by itself needs none.
fn mark(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    let path = home.container(id).join(REMOVING);
    match crate::closed::write(&path, "") {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => Err(EngineError::State {
            attempt: "make",
            path,
            source,
        }),
        _ => Ok(()),
    }
}

fn finish(home: &Home, begun: Begun) -> Result<(), EngineError> {
    let Begun { entry, target, force } = begun;
    let id = &entry.container.id;
    if let Some(target) = target {
        end_of(&[target], KILLED);
    }
    let claim = if force {
        Claim::wait(home, id)?
    } else {
        Claim::take(home, id)?.ok_or_else(|| LifeError::Busy(entry.container.display().to_owned()))?
    };
    // It may have gone by itself meanwhile.
    let Some(container) = Container::read(home, id) else {
        if !sweep::mend(home, id, &claim) {
            return Ok(());
        }
        claim.release();
        return Ok(());
    };
    let state = State::read(home, id).unwrap_or_default();
    erase(home, &container, &state, claim)
}

/// Removes a container that does not run. Each step can be done again; the claim goes last, so that whoever dies on the
/// way leaves it unheld, and with the mark beside it.
pub(crate) fn erase(
    home: &Home,
    container: &Container,
    state: &State,
    claim: Claim,
) -> Result<(), EngineError> {
    let id = &container.id;
    mark(home, id)?;
    fault::point("marked");
    if state.cgroup.is_some() || state.process.is_some() {
        crate::cgroup::clear(id, state.cgroup.as_deref());
        if let Some(process) = state.process {
            crate::process::kill(process.pid, process.start_time);
        }
    }
    name::release(home, &container.name, id);
    fault::point("nameless");
    let adopted = crate::volume::adopted(home, id);
    crate::tree::remove(home, id)?;
    fault::point("emptied");
    events::append(home, &[Event::of(container, "destroy")]);
    claim.release();
    crate::volume::remove_unused(home, &adopted)
}

/// Removes all containers that do not run and fit. Gives their ids, and the errors of those that stayed.
pub(crate) fn prune(home: &Home, fits: &dyn Fn(&Container) -> bool) -> (Vec<ContainerId>, Vec<EngineError>) {
    let (mut removed, mut errors) = (Vec::new(), Vec::new());
    for entry in list(home) {
        let ended = matches!(
            entry.state.status,
            Status::Created | Status::Exited | Status::Dead | Status::Removing
        );
        if !ended || !entry.kept || entry.container.is_infra() || !fits(&entry.container) {
            continue;
        }
        let id = entry.container.id.clone();
        let begun = Begun {
            entry,
            target: None,
            force: false,
        };
        match finish(home, begun) {
            Ok(()) => removed.push(id),
            // One that another command works on is not to be pruned.
            Err(EngineError::Life(LifeError::Busy(_))) => {}
            Err(error) => errors.push(error),
        }
    }
    (removed, errors)
}

/// Removes what was made for a container that is not to stay.
pub(crate) fn forget(home: &Home, id: &ContainerId) {
    if let (Some(container), Ok(claim)) = (Container::read(home, id), Claim::wait(home, id)) {
        best_effort(erase(home, &container, &State::default(), claim));
    }
}
