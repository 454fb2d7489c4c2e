//! Networks that users make, and the default one.

use super::NetworkFault;
use super::record::{self, MTU, Network, is_name};
use crate::{Caller, EngineError, Home};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use tote_bundle::DEFAULT_NETWORK;
use tote_network::Subnet;
use tote_state::events::append;
use tote_state::new_id;
use tote_state::record::now;

/// A request for a network, in the words of the command line.
#[derive(Clone, Debug, Default)]
pub struct NetworkRequest {
    /// The name.
    pub name: String,
    /// `--driver`; empty is `bridge`.
    pub driver: String,
    /// `--subnet`
    pub subnets: Vec<String>,
    /// `--gateway`
    pub gateways: Vec<String>,
    /// `--ip-range`
    pub ranges: Vec<String>,
    /// `--internal`
    pub internal: bool,
    /// `--ipv6`
    pub ipv6: bool,
    /// `--label`, by name.
    pub labels: BTreeMap<String, String>,
    /// `--opt`, by name.
    pub options: BTreeMap<String, String>,
}

/// Makes a network, and gives its id. Nothing of it is up before a container is in it.
///
/// # Errors
/// [`NetworkFault`] for what cannot be, and [`EngineError::State`].
pub fn create(home: &Home, request: &NetworkRequest) -> Result<String, EngineError> {
    check(home, request)?;
    let one = |values: &[String], option| match values {
        [] => Ok(None),
        [one] => Ok(Some(one.clone())),
        _ => Err(NetworkFault::Several(option)),
    };
    let subnet = one(&request.subnets, "subnet")?;
    let subnet = subnet
        .map(|text| text.parse::<Subnet>())
        .transpose()
        .map_err(NetworkFault::from)?;
    let gateway = one(&request.gateways, "gateway")?;
    let range = one(&request.ranges, "ip-range")?;
    if subnet.is_none() && (gateway.is_some() || range.is_some()) {
        return Err(NetworkFault::NoSubnet.into());
    }
    let range = range
        .map(|text| text.parse::<Subnet>())
        .transpose()
        .map_err(NetworkFault::from)?;
    let _lock = record::lock(home)?;
    let is_predefined = [DEFAULT_NETWORK, "none", "host"].contains(&request.name.as_str());
    if is_predefined || Network::read(home, &request.name)?.is_some() {
        return Err(NetworkFault::Exists(request.name.clone()).into());
    }
    let network = Network {
        internal: request.internal,
        labels: request.labels.clone(),
        options: request.options.clone(),
        ..described(home, &request.name, subnet, (gateway, range))?
    };
    network.write(home)?;
    append(home, &[network.event("create")]);
    Ok(network.id)
}

/// Refuses what this release does not have.
fn check(home: &Home, request: &NetworkRequest) -> Result<(), NetworkFault> {
    if home.caller == Caller::User {
        return Err(NetworkFault::Unprivileged(request.name.clone()));
    }
    if !is_name(&request.name) {
        return Err(NetworkFault::Name(request.name.clone()));
    }
    if !matches!(request.driver.as_str(), "" | "bridge") {
        return Err(NetworkFault::Driver(request.driver.clone()));
    }
    if request.ipv6 {
        let attempt = "make a network with --ipv6";
        return Err(NetworkFault::Ipv6 { attempt });
    }
    for (key, value) in &request.options {
        let is_length = || value.parse::<u32>().is_ok_and(|mtu| (68..=65535).contains(&mtu));
        if key != MTU || !is_length() {
            return Err(NetworkFault::Option(format!("{key}={value}")));
        }
    }
    Ok(())
}

/// A network of that name with a subnet, which is chosen if the request does not give it. The caller holds the lock.
pub(super) fn described(
    home: &Home,
    name: &str,
    subnet: Option<Subnet>,
    (gateway, ip_range): (Option<String>, Option<Subnet>),
) -> Result<Network, EngineError> {
    let taken = Taken::read(home)?;
    let subnet = match subnet {
        None => choose(&taken)?,
        Some(subnet) => match taken.overlapping(subnet) {
            Some(other) => return Err(NetworkFault::Overlaps { subnet, other }.into()),
            None => subnet,
        },
    };
    if subnet.prefix() > 30 {
        return Err(NetworkFault::Small(subnet).into());
    }
    let gateway = match gateway {
        None => subnet.at(1),
        Some(text) => {
            let host = text
                .parse::<Ipv4Addr>()
                .ok()
                .filter(|address| subnet.has_host(*address));
            host.ok_or(NetworkFault::Gateway {
                gateway: text,
                subnet,
            })?
        }
    };
    if let Some(range) = ip_range.filter(|range| !subnet.covers(*range)) {
        return Err(NetworkFault::Range { range, subnet }.into());
    }
    Ok(Network {
        name: name.to_owned(),
        id: new_id()?.to_string(),
        created: now(),
        subnet,
        gateway,
        ip_range,
        internal: false,
        labels: BTreeMap::new(),
        options: BTreeMap::new(),
    })
}

/// The default network, which is made at its first use and keeps its subnet from then on. The caller
/// holds the lock.
pub(super) fn default_network(home: &Home) -> Result<Network, EngineError> {
    if let Some(network) = Network::read(home, DEFAULT_NETWORK)? {
        return Ok(network);
    }
    let network = described(home, DEFAULT_NETWORK, None, (None, None))?;
    network.write(home)?;
    Ok(network)
}

/// The subnets that are in use.
struct Taken {
    networks: Vec<(String, Subnet)>,
    routes: Vec<Subnet>,
}

impl Taken {
    fn read(home: &Home) -> Result<Self, EngineError> {
        let networks = record::all(home)?;
        Ok(Self {
            networks: networks
                .into_iter()
                .map(|network| (network.name, network.subnet))
                .collect(),
            routes: tote_network::routes_in_the_way().map_err(NetworkFault::Look)?,
        })
    }

    /// The one that has an address of this subnet, in words.
    fn overlapping(&self, subnet: Subnet) -> Option<String> {
        let mut networks = self.networks.iter();
        let network = networks.find(|(_, other)| other.overlaps(subnet));
        let network = network.map(|(name, other)| format!("{other} of network {name}"));
        let route = || self.routes.iter().find(|route| route.overlaps(subnet));
        network.or_else(|| route().map(|route| format!("{route}, to which this machine has a route")))
    }
}

/// The first subnet of `10.210.0.0/16` to `10.219.0.0/16` and then of the sixteenths of `10.220.0.0/14` that is free.
/// docker and podman choose others.
fn choose(taken: &Taken) -> Result<Subnet, NetworkFault> {
    let large = (210..220).map(|second| (Ipv4Addr::new(10, second, 0, 0), 16));
    let small =
        (220..224).flat_map(|second| (0..16).map(move |part| (Ipv4Addr::new(10, second, part * 16, 0), 20)));
    let mut all = large
        .chain(small)
        .filter_map(|(address, prefix)| Subnet::around(address, prefix));
    all.find(|subnet| taken.overlapping(*subnet).is_none())
        .ok_or(NetworkFault::NoPool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_that_nobody_has_is_chosen() {
        let mut taken = Taken {
            networks: vec![("bridge".to_owned(), "10.210.0.0/16".parse().unwrap())],
            routes: vec!["10.211.3.0/24".parse().unwrap()],
        };
        assert_eq!(choose(&taken).unwrap().to_string(), "10.212.0.0/16");
        taken.routes.push("10.208.0.0/12".parse().unwrap());
        assert!(matches!(choose(&taken), Err(NetworkFault::NoPool)));
        taken.routes.pop();
        let mut chosen = Vec::new();
        while let Ok(subnet) = choose(&taken) {
            chosen.push(subnet);
            taken.networks.push((subnet.to_string(), subnet));
        }
        assert_eq!(chosen.len(), 8 + 64);
        assert!(
            taken
                .overlapping("10.210.7.0/24".parse().unwrap())
                .unwrap()
                .contains("of network bridge")
        );
    }
}
