//! Actions of the drivers of networks: a bridge of the network's own, or a link of the machine's that containers share.

use super::NetworkFault;
use super::error::DriverFault;
use super::record::Network;
use tote_bundle::{NetworkAttachment, RunOptions};
use tote_network::{Attached, Mac, Sublink};
use tote_records::network::Endpoint;
pub(crate) use tote_records::network::NetworkDriver;
use tote_sys::Errno;

/// The parent of a container's link in a network that shares a link of the machine's, its longest packet, and its hardware
/// address, if the container's link has the same.
pub(crate) fn attach(
    network: &Network,
    sublink: Sublink,
    attachment: &NetworkAttachment,
) -> Result<(Attached, u32, Option<Mac>), NetworkFault> {
    let parent = tote_network::parent(network.parent().unwrap_or_default());
    let parent = parent.map_err(|source| NetworkFault::Up {
        network: network.name.clone(),
        source,
    })?;
    let has_own = sublink.has_own_mac();
    if !has_own && attachment.mac.is_some() {
        return Err(DriverFault::SharedMac(network.name.clone()).into());
    }
    let attached = Attached::Parent {
        index: parent.index,
        sublink,
    };
    let mtu = network.mtu().unwrap_or(parent.mtu);
    Ok((attached, mtu, (!has_own).then_some(parent.mac)))
}

/// Refuses what only a bridge can do for a container with these ends.
pub(crate) fn check(options: &RunOptions, endpoints: &[Endpoint]) -> Result<(), DriverFault> {
    let mut without = endpoints.iter().filter(|one| !one.driver.has_bridge());
    let Some(endpoint) = without.next() else {
        return Ok(());
    };
    let refused = |option| DriverFault::NoBridge {
        option,
        network: endpoint.network.clone(),
        driver: endpoint.driver.as_str(),
    };
    if options.vm.is_some() {
        return Err(refused("--isolation vm"));
    }
    if options.egress.is_some() {
        return Err(refused("--egress"));
    }
    match options.net_limit.rate {
        Some(_) => Err(refused("--net-rate")),
        None => Ok(()),
    }
}

/// Takes a container's links away, by their names on this machine or, of those that share a link, in the container.
///
/// # Errors
/// The kernel's.
pub(crate) fn unlink(endpoints: &[Endpoint]) -> Result<(), Errno> {
    let names = |has_bridge| {
        let own = endpoints
            .iter()
            .filter(|one| one.driver.has_bridge() == has_bridge);
        own.map(|one| one.link.clone()).collect::<Vec<_>>()
    };
    tote_network::disconnect(&names(true))?;
    tote_network::remove_inside(&names(false))
}
