//! Networks, and their removal, before which containers of killed commands go.

use crate::container::LifeError;
use crate::{EngineError, Home, container};
pub(crate) use tote_networks::{
    Answers, call, hide, leave, linger, name_of, names_of, ports_of, refused, unavailable,
};
pub use tote_networks::{
    ConnectFault, ConnectRequest, Endpoint, NetworkDetails, NetworkFault, NetworkMember, NetworkRange,
    NetworkRequest, NetworkRow, NetworkSelection, PortRecord, PrunedNetworks, RefusedDestination,
    RootlessFault, add_ports, connect, create, disconnect, egress_log, exists, inspect, names, networks,
    remove_ports, repair,
};

/// Removes a network that no container is in; gives its name. A network that a newer tote has made needs `force`.
///
/// # Errors
/// [`NetworkFault`], and [`EngineError::State`].
pub fn remove(home: &Home, wanted: &str, force: bool) -> Result<String, EngineError> {
    tote_networks::remove(home, wanted, force, &|home| drop(container::sweep(home)))
}

/// Removes the networks without containers that match the filters, which are those of the other prune commands, and
/// lost ones.
///
/// # Errors
/// `PruneFault::Filter`; [`EngineError`] if the networks cannot be listed.
pub fn prune(home: &Home, filters: &[String]) -> Result<PrunedNetworks, EngineError> {
    tote_networks::prune(home, filters, &|home| drop(container::sweep(home)))
}

/// Gives the networks that are up their rules again, and this running container its published ports with all others.
///
/// # Errors
/// [`LifeError::NoContainer`] if it does not run, and [`NetworkFault`].
pub fn reload(home: &Home, wanted: &str) -> Result<(), EngineError> {
    let entry = container::find(home, wanted)?;
    if !entry.state.runs() {
        return Err(LifeError::NoContainer(wanted.to_owned()).into());
    }
    tote_networks::reload(home)
}
