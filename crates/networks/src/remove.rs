//! Removal of networks: by name, and of all that no container has.

use super::NetworkFault;
use super::look::members;
use super::record;
use crate::prune::PruneFilters;
use crate::{EngineError, Home};
use tote_bundle::DEFAULT_NETWORK;
use tote_state::events::append;
use tote_sys::best_effort;

/// Removes a network that no container is in; gives its name. `sweep` clears what killed commands left in it.
///
/// # Errors
/// [`NetworkFault`], and [`EngineError::State`].
pub fn remove(home: &Home, wanted: &str, sweep: &dyn Fn(&Home)) -> Result<String, EngineError> {
    if matches!(wanted, DEFAULT_NETWORK | "none" | "host") {
        return Err(NetworkFault::Predefined(wanted.to_owned()).into());
    }
    // Without any network there is nothing to lock.
    record::find(home, wanted)?;
    sweep(home);
    let _lock = record::lock(home)?;
    let network = record::find(home, wanted)?;
    if network.name == DEFAULT_NETWORK {
        return Err(NetworkFault::Predefined(network.name).into());
    }
    let members = members(home, &network)?;
    if !members.is_empty() {
        let names = members.into_iter().map(|member| member.name);
        return Err(NetworkFault::Used {
            name: network.name,
            containers: names.collect::<Vec<_>>().join(", "),
        }
        .into());
    }
    super::rootless::within(home, || super::idle::take_down(home, &network.name))?;
    let mark = record::mark(home, &network.name);
    record::mark_removal(&mark)?;
    network.remove(home)?;
    best_effort(std::fs::remove_file(mark));
    append(home, &[network.event("destroy")]);
    Ok(network.name)
}

/// Removes the networks without containers that match the filters, which are those of the other prune commands. Returns
/// their names.
///
/// # Errors
/// `PruneFault::Filter`; [`EngineError`] if the networks cannot be listed.
pub fn prune(home: &Home, filters: &[String], sweep: &dyn Fn(&Home)) -> Result<Vec<String>, EngineError> {
    let filters = PruneFilters::parse(filters)?;
    let used = super::look::used(home)?;
    let mut removed = Vec::new();
    for network in record::all(home)? {
        let is_used = network.name == DEFAULT_NETWORK
            || used
                .iter()
                .any(|other| *other == network.name || network.id.starts_with(other));
        if is_used || !filters.fit(i128::from(network.created), &network.labels) {
            continue;
        }
        match remove(home, &network.name, sweep) {
            Ok(name) => removed.push(name),
            // A container has joined it in the meantime, or another command has removed it.
            Err(error)
                if matches!(
                    error.part(),
                    Some(NetworkFault::Used { .. } | NetworkFault::NotFound(_))
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}
