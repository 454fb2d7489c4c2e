//! Removal of networks: by name, and of all that no container has.

use super::NetworkFault;
use super::look::{NetworkRow, NetworkSelection, members, networks};
use super::record;
use crate::{EngineError, Home};
use tote_bundle::DEFAULT_NETWORK;
use tote_state::events::append;

/// Removes a network that no container is in; gives its name.
///
/// # Errors
/// [`NetworkFault`], and [`EngineError::State`].
pub fn remove(home: &Home, wanted: &str) -> Result<String, EngineError> {
    if matches!(wanted, DEFAULT_NETWORK | "none" | "host") {
        return Err(NetworkFault::Predefined(wanted.to_owned()).into());
    }
    // Without any network there is nothing to lock.
    record::find(home, wanted)?;
    crate::container::sweep(home);
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
    super::idle::take_down(home, &network.name)?;
    network.remove(home)?;
    append(home, &[network.event("destroy")]);
    Ok(network.name)
}

/// Removes the networks that no container has, and that fit; gives their names.
///
/// # Errors
/// [`EngineError`]: the networks cannot be listed.
pub fn prune(home: &Home, filters: &[String]) -> Result<Vec<String>, EngineError> {
    let selection = NetworkSelection {
        filters: filters.to_vec(),
    };
    let used = super::look::used(home)?;
    let mut removed = Vec::new();
    for NetworkRow { name, id, .. } in networks(home, &selection)? {
        let is_own = !matches!(name.as_str(), DEFAULT_NETWORK | "none" | "host");
        if !is_own || used.iter().any(|other| *other == name || id.starts_with(other)) {
            continue;
        }
        match remove(home, &name) {
            Ok(name) => removed.push(name),
            // Somebody has just come into it.
            Err(EngineError::Network(NetworkFault::Used { .. })) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}
