//! A published port, and the maps of the packet filter that have it: their names, keys and values.

use crate::transport::Transport;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Numbers by which nft(8) knows how to print keys and values: a protocol, an address, a port.
const PROTOCOL_TYPE: u32 = 12;
const ADDRESS_TYPE: u32 = 7;
const PORT_TYPE: u32 = 13;
/// The bits of such a number where several are put together.
const TYPE_BITS: u32 = 6;
const ADDRESS6_TYPE: u32 = 8;

/// A map; each has a chain whose end is its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Map {
    /// From a protocol, an address of the host's and a port.
    One,
    /// From a protocol and a port, whichever address of the host's it is.
    Any,
    /// [`Map::One`] of IPv6.
    One6,
    /// [`Map::Any`] of IPv6.
    Any6,
    /// From a protocol, an address and a port where a process of the host listens; no chain asks it. Addresses of IPv4 are those of
    /// IPv6 that stand for them.
    Heard,
}

impl Map {
    pub(crate) const ALL: [Self; 5] = [Self::One, Self::Any, Self::One6, Self::Any6, Self::Heard];
    pub(crate) const IPV4: [Self; 2] = [Self::One, Self::Any];
    pub(crate) const IPV6: [Self; 2] = [Self::One6, Self::Any6];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::One => "ports",
            Self::Any => "ports-any",
            Self::One6 => "ports6",
            Self::Any6 => "ports6-any",
            Self::Heard => HEARD,
        }
    }

    pub(crate) const fn chain(self) -> &'static str {
        match self {
            Self::One => COMING,
            Self::Any => OWN,
            Self::One6 => COMING6,
            Self::Any6 => OWN6,
            Self::Heard => HEARD,
        }
    }

    /// A number by which a transaction may name the map; ours names it by its name.
    pub(crate) const fn id(self) -> u32 {
        match self {
            Self::One => 1,
            Self::Any => 2,
            Self::One6 => 3,
            Self::Any6 => 4,
            Self::Heard => 5,
        }
    }

    pub(crate) const fn is_ipv6(self) -> bool {
        matches!(self, Self::One6 | Self::Any6 | Self::Heard)
    }

    pub(crate) const fn is_any(self) -> bool {
        matches!(self, Self::Any | Self::Any6)
    }

    /// The kind of its keys and their length, as the kernel and nft(8) have them.
    pub(crate) fn key(self) -> (u32, u32) {
        together(self.key_types())
    }

    /// The kind of its values and their length.
    pub(crate) fn value(self) -> (u32, u32) {
        together(&self.data_types())
    }

    const fn key_types(self) -> &'static [u32] {
        match self {
            Self::One => &[PROTOCOL_TYPE, ADDRESS_TYPE, PORT_TYPE],
            Self::One6 | Self::Heard => &[PROTOCOL_TYPE, ADDRESS6_TYPE, PORT_TYPE],
            Self::Any | Self::Any6 => &[PROTOCOL_TYPE, PORT_TYPE],
        }
    }

    const fn data_types(self) -> [u32; 2] {
        match self.is_ipv6() {
            false => [ADDRESS_TYPE, PORT_TYPE],
            true => [ADDRESS6_TYPE, PORT_TYPE],
        }
    }
}

/// The number and the length, in bytes, of these kinds put together.
fn together(types: &[u32]) -> (u32, u32) {
    let length = |kind: &u32| if *kind == ADDRESS6_TYPE { 16 } else { 4 };
    let number = types.iter().fold(0, |all, one| all << TYPE_BITS | one);
    (number, types.iter().map(length).sum())
}

/// The chain that asks the maps of IPv4 about packets that come in.
pub(crate) const COMING: &str = "ports-prerouting";
/// The chain that asks them about packets of the host's own programs.
pub(crate) const OWN: &str = "ports-output";
/// The chains that ask the maps of IPv6.
pub(crate) const COMING6: &str = "ports6-prerouting";
pub(crate) const OWN6: &str = "ports6-output";
/// The map of ports where a process listens, and the chain beside it, which no packet comes by.
pub(crate) const HEARD: &str = "ports-listened";
/// Chains that stay until no network is up.
pub(crate) const CHAINS: [&str; 5] = [COMING, OWN, COMING6, OWN6, HEARD];

/// The way from a port of the host to a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// The packet filter translates destinations: the host forwards the packets.
    #[default]
    Translated,
    /// A process of the host listens: the packets are for the host's own programs.
    Listened,
}

/// A port of the host that leads to one of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublishedPort {
    /// The protocol.
    pub transport: Transport,
    /// The address and port of the host; 0.0.0.0 and :: are each of its addresses of that protocol.
    pub host: SocketAddr,
    /// The container's address and port, of the same protocol.
    pub container: SocketAddr,
    /// How packets get there.
    pub way: Way,
}

impl PublishedPort {
    /// Whether a packet to one of them may be one to the other.
    #[must_use]
    pub fn overlaps(&self, transport: Transport, host: SocketAddr) -> bool {
        let (one, other) = (self.host.ip(), host.ip());
        let meets = one == other || one.is_unspecified() || other.is_unspecified();
        let is_like = one.is_ipv4() == other.is_ipv4();
        self.transport == transport && self.host.port() == host.port() && is_like && meets
    }

    pub(crate) fn map(&self) -> Map {
        if self.way == Way::Listened {
            return Map::Heard;
        }
        match (self.host.is_ipv6(), self.host.ip().is_unspecified()) {
            (false, false) => Map::One,
            (false, true) => Map::Any,
            (true, false) => Map::One6,
            (true, true) => Map::Any6,
        }
    }

    /// Parts whose lengths are multiples of four bytes.
    pub(crate) fn key(&self) -> Vec<u8> {
        let mut key = vec![self.transport.number(), 0, 0, 0];
        if !self.map().is_any() {
            put_address(&mut key, self.host.ip(), self.map());
        }
        put_port(&mut key, self.host.port());
        key
    }

    pub(crate) fn data(&self) -> Vec<u8> {
        let mut data = Vec::new();
        put_address(&mut data, self.container.ip(), self.map());
        put_port(&mut data, self.container.port());
        data
    }

    /// A port that was read from the map of those where a process listens.
    pub(crate) fn listened(self) -> Self {
        let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
        Self {
            host: plain(self.host),
            container: plain(self.container),
            way: Way::Listened,
            ..self
        }
    }

    /// Reads what [`PublishedPort::key`] and [`PublishedPort::data`] write.
    pub(crate) fn read(key: &[u8], data: &[u8]) -> Option<Self> {
        let container = socket_address(data)?;
        let (transport, host) = key.split_at_checked(4)?;
        let host = match (host, container) {
            ([high, low, _, _], of) => {
                let any: IpAddr = match of {
                    SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
                    SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
                };
                SocketAddr::new(any, u16::from_be_bytes([*high, *low]))
            }
            (host, _) => socket_address(host)?,
        };
        Some(Self {
            transport: Transport::of_number(*transport.first()?)?,
            host,
            container,
            way: Way::Translated,
        })
    }
}

fn put_address(bytes: &mut Vec<u8>, address: IpAddr, map: Map) {
    match address {
        IpAddr::V4(address) if map.is_ipv6() => bytes.extend(address.to_ipv6_mapped().octets()),
        IpAddr::V4(address) => bytes.extend(address.octets()),
        IpAddr::V6(address) => bytes.extend(address.octets()),
    }
}

fn put_port(bytes: &mut Vec<u8>, port: u16) {
    bytes.extend(port.to_be_bytes());
    bytes.extend([0, 0]);
}

/// Reads an address and a port behind it, of 8 bytes or of 20.
fn socket_address(bytes: &[u8]) -> Option<SocketAddr> {
    let (address, port) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    let address: IpAddr = match address.len() {
        4 => <[u8; 4]>::try_from(address).ok()?.into(),
        16 => <[u8; 16]>::try_from(address).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(address, u16::from_be_bytes([port[0], port[1]])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_overlap_where_an_address_does() {
        let port = |transport, host: &str| PublishedPort {
            transport,
            host: host.parse().unwrap(),
            container: "10.210.0.2:80".parse().unwrap(),
            way: Way::Translated,
        };
        let overlaps = |one: &str, other: &str| {
            port(Transport::Tcp, one).overlaps(Transport::Tcp, other.parse().unwrap())
        };
        assert!(overlaps("0.0.0.0:80", "127.0.0.1:80"));
        assert!(overlaps("127.0.0.1:80", "0.0.0.0:80"));
        assert!(overlaps("127.0.0.1:80", "127.0.0.1:80"));
        assert!(!overlaps("127.0.0.1:80", "127.0.0.2:80"));
        assert!(!overlaps("127.0.0.1:80", "127.0.0.1:81"));
        assert!(!overlaps("0.0.0.0:80", "[::]:80"));
        assert!(overlaps("[::]:80", "[2001:db8::1]:80"));
        let udp = port(Transport::Udp, "0.0.0.0:80");
        assert!(!udp.overlaps(Transport::Tcp, udp.host));
    }
}
