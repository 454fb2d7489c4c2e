//! The end of a container's parts.

use super::claim::Claim;
use super::removing::mark;
use super::state::{State, Status};
use super::{Container, fault, name};
use crate::{EngineError, Home};
use tote_bundle::ContainerId;
use tote_state::events::append;

/// Number of attempts to remove a cgroup, a second each.
const ATTEMPTS: u32 = 10;

/// Removes a stopped container, with `volumes` also its anonymous volumes. Each step can be repeated; the claim is
/// removed last, so that a killed process leaves it free, with the mark beside it.
pub fn erase(
    home: &Home,
    container: &Container,
    state: &State,
    claim: Claim,
    volumes: bool,
) -> Result<(), EngineError> {
    let id = &container.id;
    mark(home, id, volumes)?;
    fault::point("marked");
    let mut cleared = true;
    if state.status != Status::Created || state.cgroup.is_some() {
        cleared = clear_cgroup(id, state).is_ok();
        if let Some(process) = state.process {
            tote_state::process::kill(process.pid, process.start_time);
        }
    }
    cleared &= name::release(home, &container.name, id);
    fault::point("nameless");
    let mut going = crate::volume::adopted(home, id)?;
    if volumes {
        going.extend(crate::volume::unnamed_of(home, container)?);
    }
    claim.note_volumes(volumes.then_some(&going));
    crate::tree::remove(home, id)?;
    fault::point("emptied");
    append(home, &[container.event("destroy")]);
    let removed = crate::volume::remove_unused(home, &going);
    fault::point("volumes-left");
    if cleared && removed.is_ok() {
        claim.release();
    }
    removed
}

/// Ends the processes in a container's cgroup, and removes it. They may take a moment to die, and no later command
/// would look for the cgroup of a removed container.
pub(crate) fn clear_cgroup(id: &ContainerId, state: &State) -> Result<(), EngineError> {
    let mut cleared = Ok(());
    for _ in 0..ATTEMPTS {
        cleared = crate::cgroup::clear(id, state.cgroup.as_deref());
        if cleared.is_ok() {
            break;
        }
    }
    cleared
}
