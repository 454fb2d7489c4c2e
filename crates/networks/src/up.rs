//! Networks that come up.

use super::AddressFault;
use super::NetworkFault;
use super::create::{choose_again, default_network};
use super::idle;
use super::kept;
use super::record::{self, Network};
use super::rootless;
use crate::{EngineError, Home};
use tote_bundle::DEFAULT_NETWORK;
use tote_network::{Bridge, Bridge6, NetworkError, Uplink};

/// How often a subnet is chosen: each further time another state root or another program has taken it meanwhile.
const CHOICES: usize = 64;

/// The default network. While no container has an address in it, it is brought up as well, with another subnet if the machine has a
/// route to the chosen one meanwhile, or another state root has taken it.
pub(crate) fn default_up(home: &Home) -> Result<(Network, Option<Uplink>), EngineError> {
    for _ in 0..CHOICES {
        let network = default_network(home)?;
        if idle::has_members(home, DEFAULT_NETWORK)? {
            return Ok((network, None));
        }
        match bring_up(home, &network) {
            Err(error) if is_in_the_way(&error) => {
                if !choose_again(home, network)? {
                    return Err(error);
                }
            }
            up => return Ok((network, Some(up?))),
        }
    }
    Err(AddressFault::NoPool.into())
}

fn is_in_the_way(error: &EngineError) -> bool {
    let fault = error.part::<NetworkFault>();
    matches!(
        fault,
        Some(NetworkFault::Up {
            source: NetworkError::InTheWay { .. },
            ..
        })
    )
}

/// Brings a network up, with a mark that says so.
pub(crate) fn bring_up(home: &Home, network: &Network) -> Result<Uplink, EngineError> {
    record::mark_up(home, network)?;
    with_bridge(home, network, |bridge| {
        let up = tote_network::bring_up(bridge, &record::note(home));
        let mut up = up.map_err(|source| {
            let network = network.name.clone();
            NetworkFault::Up { network, source }
        })?;
        // No other program has rules where only networks are.
        if up.fresh && !bridge.alone {
            up.warning = kept::admit(home, bridge)?.or(up.warning);
        }
        Ok(up)
    })
}

/// Does something with a network as the kernel is to have it.
pub(crate) fn with_bridge<T>(home: &Home, network: &Network, work: impl FnOnce(&Bridge<'_>) -> T) -> T {
    work(&Bridge {
        name: &network.bridge(),
        alias: &network.alias(),
        gateway: network.ipv4.gateway,
        subnet: network.ipv4.subnet,
        ipv6: network.ipv6.map(|ipv6| Bridge6 {
            gateway: ipv6.gateway,
            subnet: ipv6.subnet,
        }),
        internal: network.internal,
        masquerade: network.masquerades(),
        mtu: network.mtu(),
        alone: rootless::is_inside(home),
    })
}
