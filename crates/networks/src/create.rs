//! Networks that users make, and the default one.

use super::NetworkFault;
use super::driver::NetworkDriver;
use super::error::{AddressFault, DriverFault};
use super::idle::has_members;
use super::options;
use super::record::{self, Addresses, Network, is_name};
use super::rootless;
use crate::{EngineError, Home};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use tote_bundle::{ContainerId, DEFAULT_NETWORK, POD_NETWORK, UNSAID};
use tote_network::{Address, Prefix, Subnet, Subnet6};
use tote_state::StateError;
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
    let driver = check(home, request)?;
    let asked = Asked::of(request, |text| !is_ipv6(text))?;
    let asked6 = Asked::of(request, is_ipv6)?;
    let asked6 = (request.ipv6 || asked6.subnet.is_some()).then_some(asked6);
    let _lock = record::lock(home)?;
    let is_predefined =
        [DEFAULT_NETWORK, UNSAID, POD_NETWORK, "none", "host"].contains(&request.name.as_str());
    if is_predefined || Network::read(home, &request.name)?.is_some() {
        return Err(NetworkFault::Exists(request.name.clone()).into());
    }
    let network = Network {
        internal: request.internal,
        labels: request.labels.clone(),
        options: request.options.clone(),
        ..described(home, &request.name, driver, &asked, asked6.as_ref())?
    };
    let is_taken = |other: &Network| other.bridge() == network.bridge();
    if let Some(other) = record::usable(home)?.find(is_taken) {
        return Err(DriverFault::BridgeTaken {
            bridge: network.bridge(),
            network: other.name,
        }
        .into());
    }
    network.write(home)?;
    append(home, &[network.event("create")]);
    Ok(network.id)
}

/// Gives the driver; refuses what this release, this machine or the caller does not have.
fn check(home: &Home, request: &NetworkRequest) -> Result<NetworkDriver, NetworkFault> {
    if let Some(fault) = rootless::unavailable(home) {
        return Err(fault);
    }
    if !is_name(&request.name) {
        return Err(NetworkFault::Name(request.name.clone()));
    }
    let driver = NetworkDriver::named(&request.driver);
    let driver = driver.ok_or_else(|| DriverFault::Unknown(request.driver.clone()))?;
    options::check(driver, &request.options)?;
    if let Some(sublink) = options::sublink(driver, &request.options) {
        let driver = driver.as_str();
        if rootless::is_outside(home) || rootless::is_inside(home) {
            return Err(DriverFault::OfRoot(driver).into());
        }
        if request.internal {
            return Err(DriverFault::Internal(driver).into());
        }
        tote_network::check_sublinks(sublink)
            .map_err(|source| DriverFault::Unavailable { driver, source })?;
        let parent = options::parent(&request.options);
        let parent = parent.ok_or(DriverFault::NoParent(driver))?;
        tote_network::parent(parent).map_err(|source| DriverFault::Unavailable { driver, source })?;
    }
    Ok(driver)
}

/// Addresses of one protocol that a request asks for.
#[derive(Debug)]
struct Asked<A> {
    subnet: Option<Prefix<A>>,
    gateway: Option<String>,
    range: Option<Prefix<A>>,
}

impl<A: Address> Asked<A> {
    const NOTHING: Self = Self {
        subnet: None,
        gateway: None,
        range: None,
    };

    /// Reads the values of a protocol, which `is_own` tells from those of the other one.
    fn of(request: &NetworkRequest, is_own: impl Fn(&str) -> bool) -> Result<Self, AddressFault> {
        let one = |values: &[String], option| {
            let mut own = values.iter().filter(|text| is_own(text));
            match (own.next(), own.next()) {
                (_, Some(_)) => Err(AddressFault::Several(option, A::PROTOCOL)),
                (first, None) => Ok(first.cloned()),
            }
        };
        let prefix = |text: Option<String>| text.map(|text| text.parse::<Prefix<A>>()).transpose();
        let asked = Self {
            subnet: prefix(one(&request.subnets, "subnet")?)?,
            gateway: one(&request.gateways, "gateway")?,
            range: prefix(one(&request.ranges, "ip-range")?)?,
        };
        if asked.subnet.is_none() && (asked.gateway.is_some() || asked.range.is_some()) {
            return Err(AddressFault::NoSubnet);
        }
        Ok(asked)
    }

    /// The addresses of a network that asks for this, and has that subnet.
    fn within(&self, subnet: Prefix<A>) -> Result<Addresses<A>, AddressFault> {
        // Two hosts and the addresses that none may have.
        if subnet.prefix() > A::BITS - 2 {
            return Err(AddressFault::Small(subnet.to_string()));
        }
        let gateway = match &self.gateway {
            None => subnet.at(1),
            Some(text) => {
                let host = text.parse::<A>().ok();
                let host = host.filter(|address| subnet.has_host(*address));
                host.ok_or_else(|| AddressFault::Gateway {
                    gateway: text.clone(),
                    subnet: subnet.to_string(),
                })?
            }
        };
        if let Some(range) = self.range.filter(|range| !subnet.covers(*range)) {
            return Err(AddressFault::Range {
                range: range.to_string(),
                subnet: subnet.to_string(),
            });
        }
        Ok(Addresses {
            subnet,
            gateway,
            ip_range: self.range,
        })
    }
}

/// Whether a subnet or an address can only be one of IPv6.
fn is_ipv6(text: &str) -> bool {
    text.contains(':')
}

/// A network of that name. Subnets that the request does not give are chosen. The caller holds the lock.
fn described(
    home: &Home,
    name: &str,
    driver: NetworkDriver,
    asked: &Asked<Ipv4Addr>,
    asked6: Option<&Asked<Ipv6Addr>>,
) -> Result<Network, EngineError> {
    let mut taken = Taken::read(home, asked6.is_some())?;
    let id = new_id()?;
    let chosen = choose(&taken.ipv4);
    if !driver.has_bridge() {
        // Its containers are in the parent's network, to which the machine has a route.
        taken.ipv4.routes.clear();
        taken.ipv6.routes.clear();
    }
    let subnet = match asked.subnet {
        None => chosen?,
        Some(subnet) => taken.ipv4.free(subnet)?,
    };
    let ipv6 = asked6.map(|asked| {
        let subnet = match asked.subnet {
            None => taken.ipv6.free(local(&id).ok_or(AddressFault::NoPool)?)?,
            Some(subnet) => taken.ipv6.free(subnet)?,
        };
        asked.within(subnet)
    });
    Ok(Network {
        name: name.to_owned(),
        id: id.to_string(),
        created: now(),
        driver,
        ipv4: asked.within(subnet)?,
        ipv6: ipv6.transpose()?,
        internal: false,
        labels: BTreeMap::new(),
        options: BTreeMap::new(),
    })
}

/// A subnet that no other site is likely to have (RFC 4193): its 40 random bits are those of the network's id.
fn local(id: &ContainerId) -> Option<Subnet6> {
    let mut bytes = [0; 16];
    bytes[0] = 0xfd;
    for (byte, digits) in bytes[1..6].iter_mut().zip(id.as_str().as_bytes().chunks(2)) {
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        *byte = u8::from_str_radix(digits, 16).unwrap_or_default();
    }
    Prefix::around(bytes.into(), 64)
}

/// The default network, which is made at its first use, and anew if its record is lost while no container is in it. It keeps its
/// subnet until the machine gets a route to it at a time when the network has no container. The caller holds the lock.
pub(crate) fn default_network(home: &Home) -> Result<Network, EngineError> {
    match Network::read(home, DEFAULT_NETWORK) {
        Ok(Some(network)) => return Ok(network),
        Ok(None) => {}
        Err(EngineError::State(StateError::Damaged(damaged)))
            if damaged.why.is_lost() && !has_members(home, DEFAULT_NETWORK)? =>
        {
            record::remove(home, DEFAULT_NETWORK)?;
        }
        Err(error) => return Err(error),
    }
    let network = described(
        home,
        DEFAULT_NETWORK,
        NetworkDriver::Bridge,
        &Asked::NOTHING,
        None,
    )?;
    network.write(home)?;
    Ok(network)
}

/// Gives a network another subnet; everything else of it stays. Returns false, and changes nothing, if no subnet is free. The caller
/// holds the lock.
pub(crate) fn choose_again(home: &Home, network: Network) -> Result<bool, EngineError> {
    let Ok(subnet) = choose(&Taken::read(home, false)?.ipv4) else {
        return Ok(false);
    };
    let ipv4 = Asked::NOTHING.within(subnet)?;
    Network { ipv4, ..network }.write(home)?;
    Ok(true)
}

/// The subnets that are in use.
#[derive(Debug, Default)]
struct Taken {
    ipv4: TakenSubnets<Ipv4Addr>,
    /// Not read for networks without IPv6.
    ipv6: TakenSubnets<Ipv6Addr>,
}

impl Taken {
    fn read(home: &Home, ipv6: bool) -> Result<Self, EngineError> {
        // A network that cannot be used has its subnet no more, unless a container is in it: then its bridge has a route.
        let networks: Vec<_> = record::usable(home)?.collect();
        let own = |network: &Network| (network.name.clone(), network.ipv4.subnet);
        let own6 = |network: &Network| Some((network.name.clone(), network.ipv6?.subnet));
        let mut taken = Self::default();
        taken.ipv4.networks = networks.iter().map(own).collect();
        taken.ipv4.routes = tote_network::routes_in_the_way().map_err(AddressFault::Look)?;
        // Networks of other state roots have no route until their bridges are there.
        taken.ipv4.routes.extend(tote_network::claimed());
        if ipv6 {
            taken.ipv6.networks = networks.iter().filter_map(own6).collect();
            taken.ipv6.routes = tote_network::routes6_in_the_way().map_err(AddressFault::Look)?;
        }
        Ok(taken)
    }
}

/// The subnets of one protocol that are in use.
#[derive(Debug)]
struct TakenSubnets<A> {
    networks: Vec<(String, Prefix<A>)>,
    routes: Vec<Prefix<A>>,
}

impl<A> Default for TakenSubnets<A> {
    fn default() -> Self {
        Self {
            networks: Vec::new(),
            routes: Vec::new(),
        }
    }
}

impl<A: Address> TakenSubnets<A> {
    /// The one that has an address of this subnet, in words.
    fn overlapping(&self, subnet: Prefix<A>) -> Option<String> {
        let mut networks = self.networks.iter();
        let network = networks.find(|(_, other)| other.overlaps(subnet));
        let network = network.map(|(name, other)| format!("{other} of network {name}"));
        let route = || self.routes.iter().find(|route| route.overlaps(subnet));
        network.or_else(|| route().map(|route| format!("{route}, to which this machine has a route")))
    }

    /// The subnet, if it is free.
    fn free(&self, subnet: Prefix<A>) -> Result<Prefix<A>, AddressFault> {
        match self.overlapping(subnet) {
            Some(other) => Err(AddressFault::Overlaps {
                subnet: subnet.to_string(),
                other,
            }),
            None => Ok(subnet),
        }
    }
}

/// The first subnet of `10.210.0.0/16` to `10.219.0.0/16` and then of the sixteenths of `10.220.0.0/14` that is free.
/// docker and podman choose others.
fn choose(taken: &TakenSubnets<Ipv4Addr>) -> Result<Subnet, AddressFault> {
    let large = (210..220).map(|second| (Ipv4Addr::new(10, second, 0, 0), 16));
    let small =
        (220..224).flat_map(|second| (0..16).map(move |part| (Ipv4Addr::new(10, second, part * 16, 0), 20)));
    let mut all = large
        .chain(small)
        .filter_map(|(address, prefix)| Subnet::around(address, prefix));
    all.find(|subnet| taken.overlapping(*subnet).is_none())
        .ok_or(AddressFault::NoPool)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subnet_of_ipv6_follows_from_the_id() {
        let id = ContainerId::from_bytes([0xab; 32]);
        assert_eq!(local(&id).unwrap().to_string(), "fdab:abab:abab::/64");
    }

    #[test]
    fn values_are_told_apart_by_their_protocol() {
        let values = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let request = NetworkRequest {
            subnets: values(&["10.7.0.0/24", "fd00:7::/64"]),
            gateways: values(&["fd00:7::9"]),
            ranges: values(&["10.7.0.128/25"]),
            ..NetworkRequest::default()
        };
        let asked = Asked::<Ipv4Addr>::of(&request, |text| !is_ipv6(text)).unwrap();
        let asked6 = Asked::<Ipv6Addr>::of(&request, is_ipv6).unwrap();
        assert_eq!((asked.gateway.as_deref(), asked6.range), (None, None));
        let addresses = asked6.within(asked6.subnet.unwrap()).unwrap();
        assert_eq!(addresses.gateway.to_string(), "fd00:7::9");
        let addresses = asked.within(asked.subnet.unwrap()).unwrap();
        assert_eq!(addresses.range().to_string(), "10.7.0.128/25");
        for (request, words) in [
            (
                NetworkRequest {
                    subnets: values(&["fd00:7::/64", "fd00:8::/64"]),
                    ..NetworkRequest::default()
                },
                "several of --subnet of IPv6",
            ),
            (
                NetworkRequest {
                    subnets: values(&["10.7.0.0/24"]),
                    gateways: values(&["fd00:7::1"]),
                    ..NetworkRequest::default()
                },
                "must have a corresponding subnet",
            ),
        ] {
            let error = Asked::<Ipv6Addr>::of(&request, is_ipv6).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn a_subnet_that_nobody_has_is_chosen() {
        let mut taken = TakenSubnets {
            networks: vec![("bridge".to_owned(), "10.210.0.0/16".parse().unwrap())],
            routes: vec!["10.211.3.0/24".parse().unwrap()],
        };
        assert_eq!(choose(&taken).unwrap().to_string(), "10.212.0.0/16");
        taken.routes.push("10.208.0.0/12".parse().unwrap());
        assert!(matches!(choose(&taken), Err(AddressFault::NoPool)));
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
