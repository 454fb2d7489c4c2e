//! The end of a network in a container.

use super::driver::NetworkDriver;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tote_bundle::{ContainerId, DEFAULT_NETWORK, PortBinding};
use tote_network::{PublishedPort, Transport, Way};
use tote_state::events::Event;

/// A container's end in a network, as its record has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint {
    /// The network's name.
    pub network: String,
    /// The network's id.
    pub network_id: String,
    /// How the container is connected with the network.
    #[serde(default, skip_serializing_if = "NetworkDriver::has_bridge")]
    pub driver: NetworkDriver,
    /// The link on the host's side, or the second name of a link that has no other side.
    pub link: String,
    /// The container's address.
    pub address: Ipv4Addr,
    /// The length of the network's prefix, in bits.
    pub prefix: u8,
    /// The host's address in the network; `None` of an internal one, which leads nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv4Addr>,
    /// How much the container's way out is to be by this network: by the one with the highest number.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub gw_priority: i64,
    /// Options of the link, by docker's keys.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub driver_opts: BTreeMap<String, String>,
    /// The container's IPv6 address; `None` in a network without IPv6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Endpoint6>,
    /// The hardware address of the container's link.
    pub mac: String,
    /// Aliases of the container there, beside its own names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Other containers there that this one finds by names of its own, as docker writes them: `db:mysql`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<String>,
    /// The ports of the host that lead to the container's, where they do by this network.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<PortRecord>,
    /// Whether an egress policy has rules at the link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub egress: bool,
}

/// Whether a number is left out of a record; serde passes references.
fn is_zero(number: &i64) -> bool {
    *number == 0
}

/// The place of the end by which a container's packets leave: of those that lead out, the one of the highest priority, and of
/// several the first.
#[must_use]
pub fn way_out(endpoints: &[Endpoint], leads_out: impl Fn(&Endpoint) -> bool) -> Option<usize> {
    let leading = endpoints.iter().enumerate().filter(|(_, one)| leads_out(one));
    let first = leading.min_by_key(|(_, one)| std::cmp::Reverse(one.gw_priority));
    first.map(|(place, _)| place)
}

/// The IPv6 address of a container in a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Endpoint6 {
    /// The address.
    pub address: Ipv6Addr,
    /// The length of the network's prefix, in bits.
    pub prefix: u8,
    /// The host's address in the network; `None` of an internal one, which leads nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<Ipv6Addr>,
}

impl Endpoint {
    /// Something that happens to the container's link now; docker's word for that.
    pub fn event(&self, action: &str, container: &ContainerId) -> Event {
        let event = Event::of("network", action, &self.network_id);
        event
            .with("name", &self.network)
            .with("type", self.driver.as_str())
            .with("container", container)
    }

    /// The container's addresses in the network.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let ipv6 = self.ipv6.map(|ipv6| ipv6.address.into());
        std::iter::once(self.address.into()).chain(ipv6)
    }

    /// The host's own address in the network, if it has one there that leads out.
    pub fn host(&self) -> Option<Ipv4Addr> {
        self.gateway.filter(|_| self.driver.has_bridge())
    }

    /// Whether IPv6 leads out by the network.
    pub fn leads_out6(&self) -> bool {
        self.ipv6.is_some_and(|ipv6| ipv6.gateway.is_some())
    }

    /// The container's address of the same protocol as that one.
    pub fn address_like(&self, other: IpAddr) -> Option<IpAddr> {
        self.addresses().find(|own| own.is_ipv6() == other.is_ipv6())
    }

    /// Whether the network has names, as those have that users make.
    pub fn is_named(&self) -> bool {
        self.network != DEFAULT_NETWORK
    }
}

/// A published port, as a container's record has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortRecord {
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// The address and port of the host; 0.0.0.0 and :: are each of its addresses of that protocol.
    pub host: SocketAddr,
    /// The container's port.
    pub container: u16,
    /// Whether a process of the host listens there, so that the packets pass the host's rules for its own programs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub listened: bool,
}

impl PortRecord {
    /// The container's port as docker writes it: `80/tcp`.
    #[must_use]
    pub fn private(&self) -> String {
        format!("{}/{}", self.container, self.protocol)
    }

    /// The record of a port.
    pub fn of(port: &PublishedPort) -> Self {
        Self {
            protocol: port.transport.as_str().to_owned(),
            host: port.host,
            container: port.container.port(),
            listened: port.way == Way::Listened,
        }
    }

    /// Whether a binding says this port, or may say it.
    pub fn is_meant_by(&self, binding: &PortBinding) -> bool {
        let (address, port) = (self.host.ip(), self.host.port());
        self.container == binding.container
            && self.protocol == binding.protocol
            && binding.address.is_none_or(|asked| asked == address)
            && binding
                .host
                .is_none_or(|(first, last)| (first..=last).contains(&port))
    }

    /// The binding that says exactly this port.
    pub fn binding(&self) -> Option<PortBinding> {
        let port = self.host.port();
        Some(PortBinding {
            address: Some(self.host.ip()).filter(|address| !address.is_unspecified()),
            host: Some((port, port)),
            container: self.container,
            protocol: Transport::named(&self.protocol)?.as_str(),
        })
    }

    /// The port as the kernel is asked for it, if the container has an address of its protocol.
    pub fn published(&self, endpoint: &Endpoint) -> Option<PublishedPort> {
        let address = endpoint.address_like(self.host.ip())?;
        Some(PublishedPort {
            transport: Transport::named(&self.protocol)?,
            host: self.host,
            container: SocketAddr::new(address, self.container),
            way: if self.listened {
                Way::Listened
            } else {
                Way::Translated
            },
        })
    }

    /// Whether another port is the same at each IPv4 address that this one is at each IPv6 address.
    pub fn is_twin_of(&self, other: &Self) -> bool {
        let is_any = self.host.ip().is_unspecified() && other.host.ip().is_unspecified();
        let is_same = self.private() == other.private() && self.host.port() == other.host.port();
        is_any && is_same && self.host.is_ipv6() && other.host.is_ipv4()
    }
}

/// The published ports of a container, of its ends in networks.
pub fn ports_of(networks: &[Endpoint]) -> impl Iterator<Item = &PortRecord> {
    networks.iter().flat_map(|endpoint| &endpoint.ports)
}
