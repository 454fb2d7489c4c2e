//! The end of a connection or disconnection that was killed on the way.
//!
//! Both leave a mark in `live/` before they change anything of a running container. A later command that finds the mark, and the
//! container unlocked, takes the container out of every network that its options or its state do not name; so does the process
//! that ends the container. A container is connected whole, or not at all.

use super::connect::{position, unplug};
use super::connecting::{is_marked, unmark};
use super::ends::outside;
use super::error::fault_of;
use super::join::{self, MOST};
use super::record;
use crate::container::record_lock::Change;
use crate::container::{Container, State, link_text};
use crate::{EngineError, Home};
use tote_bundle::ContainerId;
use tote_state::record::Damaged;
use tote_state::record::{is_there, names_in};
use tote_sys::best_effort;

/// Ends what a killed `connect` or `disconnect` of this container has begun. After an error the mark stays for the next command.
pub fn end_connection(home: &Home, id: &ContainerId) {
    if matches!(is_marked(home, id), Ok(true)) {
        best_effort(super::rootless::within(home, || {
            if mend(home, id)? {
                unmark(home, id);
            }
            Ok(())
        }));
    }
}

/// Whether everything is in order now.
fn mend(home: &Home, id: &ContainerId) -> Result<bool, EngineError> {
    if Container::read(home, id)?.is_none() {
        // Its end has taken it out of its networks.
        return Ok(true);
    }
    // The command is under way.
    let Some(_change) = Change::attempt(home, id) else {
        return Ok(false);
    };
    let Some(container) = Container::read(home, id)? else {
        return Ok(true);
    };
    let mut state = State::read(home, id)?;
    if !state.runs() {
        // A start or an end that is under way looks for the mark by itself.
        return Ok(!is_there(&home.live().join(id.as_str()))?);
    }
    let options = container.run_options()?;
    let mut idle = Vec::new();
    let networks = record::all(home)?;
    let has = |damaged: &Damaged| state.networks.iter().any(|one| one.network == damaged.name);
    if networks.damaged.iter().any(has) {
        // How the container is connected with it cannot be known: the mark stays until the network is removed.
        return Ok(false);
    }
    for (_, network) in networks.whole {
        let is_in = state.networks.iter().any(|one| one.network_id == network.id);
        if is_in && position(home, &options, &network).is_none() {
            unplug(home, id, &mut state, &network)?;
            idle.push(network.name);
        }
    }
    idle.extend(withdraw(home, id, &state)?);
    // No command waits for what could be said about it.
    drop(super::present::follow(home, &container, &state));
    super::settle(home, &idle)?;
    Ok(true)
}

/// Takes away the links and addresses that the state of a running container does not name; gives the networks of the addresses.
fn withdraw(home: &Home, id: &ContainerId, state: &State) -> Result<Vec<String>, EngineError> {
    let _lock = record::lock(home)?;
    let links = (0..MOST).map(|place| outside(id, place));
    let unnamed: Vec<_> = links
        .filter(|link| state.networks.iter().all(|one| one.link != *link))
        .collect();
    for link in &unnamed {
        let removed = tote_network::remove(link);
        removed.map_err(|source| super::ConnectFault::Link(link.clone(), source))?;
    }
    join::remove_inside(&unnamed)?;
    let holder = link_text(id);
    let mut left = Vec::new();
    for name in names_in(&home.networks())? {
        if !record::is_name(&name) || state.networks.iter().any(|one| one.network == name) {
            continue;
        }
        let leases = record::leases(home, &name).all();
        let leases = leases.map_err(|source| fault_of(&name, source))?;
        if leases.iter().any(|(_, other)| *other == holder) {
            join::release(home, id, &name)?;
            left.push(name);
        }
    }
    Ok(left)
}
