//! Removal of networks: by name, and of all that no container has.

use super::NetworkFault;
use super::look::members;
use super::record::{self, Network};
use crate::prune::PruneFilters;
use crate::{EngineError, Home};
use tote_bundle::DEFAULT_NETWORK;
use tote_state::StateError;
use tote_state::events::{Event, append};
use tote_state::record::Damaged;
use tote_sys::best_effort;

/// A network that is to be removed.
enum Found {
    Whole(Box<Network>),
    /// Only its name is known.
    Damaged(Box<Damaged>),
}

impl Found {
    fn look(home: &Home, wanted: &str) -> Result<Self, EngineError> {
        match record::find(home, wanted) {
            Ok(network) => Ok(Self::Whole(Box::new(network))),
            Err(EngineError::State(StateError::Damaged(damaged))) => Ok(Self::Damaged(damaged)),
            Err(error) => Err(error),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Whole(network) => &network.name,
            Self::Damaged(damaged) => &damaged.name,
        }
    }
}

/// Removes a network that no container is in; gives its name. `sweep` clears what killed commands left in it. A network that a newer
/// tote has made needs `force`.
///
/// # Errors
/// [`NetworkFault`], and [`EngineError::State`].
pub fn remove(home: &Home, wanted: &str, force: bool, sweep: &dyn Fn(&Home)) -> Result<String, EngineError> {
    if matches!(wanted, DEFAULT_NETWORK | "none" | "host") {
        return Err(NetworkFault::Predefined(wanted.to_owned()).into());
    }
    // Without any network there is nothing to lock.
    Found::look(home, wanted)?;
    sweep(home);
    let _lock = record::lock(home)?;
    let found = Found::look(home, wanted)?;
    let name = found.name().to_owned();
    if name == DEFAULT_NETWORK {
        return Err(NetworkFault::Predefined(name).into());
    }
    let members = members(home, &name)?;
    if !members.is_empty() {
        let names = members.into_iter().map(|member| member.name);
        return Err(NetworkFault::Used {
            name,
            containers: names.collect::<Vec<_>>().join(", "),
        }
        .into());
    }
    let event = match found {
        Found::Whole(network) => network.event("destroy"),
        Found::Damaged(damaged) => {
            damaged.removable(force).map_err(StateError::from)?;
            Event::of("network", "destroy", &name).with("name", &name)
        }
    };
    super::rootless::within(home, || super::idle::take_down(home, &name))?;
    let mark = record::mark(home, &name);
    record::mark_removal(&mark)?;
    record::remove(home, &name)?;
    best_effort(std::fs::remove_file(mark));
    append(home, &[event]);
    Ok(name)
}

/// Networks that a pruning removed.
#[derive(Debug, Default)]
pub struct PrunedNetworks {
    /// Their names.
    pub removed: Vec<String>,
    /// Errors of networks that stayed; the others were removed all the same.
    pub errors: Vec<EngineError>,
}

/// Removes the networks without containers that match the filters, which are those of the other prune commands, and without filters
/// also those whose records are lost. Networks of a newer tote stay.
///
/// # Errors
/// `PruneFault::Filter`; [`EngineError`] if the networks cannot be listed.
pub fn prune(home: &Home, filters: &[String], sweep: &dyn Fn(&Home)) -> Result<PrunedNetworks, EngineError> {
    let parsed = PruneFilters::parse(filters)?;
    let used = super::look::used(home)?;
    let networks = record::all(home)?;
    let mut pruned = PrunedNetworks::default();
    let mut unused = Vec::new();
    for (name, network) in networks.whole {
        let is_used = name == DEFAULT_NETWORK
            || used
                .iter()
                .any(|other| *other == name || network.id.starts_with(other));
        if !is_used && parsed.fit(i128::from(network.created), &network.labels) {
            unused.push(name);
        }
    }
    for damaged in networks.damaged {
        let is_used = damaged.name == DEFAULT_NETWORK || used.contains(&damaged.name);
        if damaged.why.is_lost() {
            // Its age and its labels are lost.
            unused.extend((!is_used && filters.is_empty()).then_some(damaged.name));
        } else if !damaged.why.is_newer() {
            pruned.errors.push(StateError::from(damaged).into());
        }
    }
    for name in unused {
        match remove(home, &name, false, sweep) {
            Ok(name) => pruned.removed.push(name),
            // A container has joined it in the meantime, or another command has removed it.
            Err(error)
                if matches!(
                    error.part(),
                    Some(NetworkFault::Used { .. } | NetworkFault::NotFound(_))
                ) => {}
            Err(error) => pruned.errors.push(error),
        }
    }
    Ok(pruned)
}
