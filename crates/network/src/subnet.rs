//! Ranges of IPv4 addresses.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

/// An IPv4 network such as `10.210.0.0/16`: an address whose host part is zero, and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Subnet {
    address: Ipv4Addr,
    prefix: u8,
}

/// The addresses of every host's loopback device.
pub(crate) const LOOPBACK: Subnet = Subnet {
    address: Ipv4Addr::new(127, 0, 0, 0),
    prefix: 8,
};

/// Why a text is not a [`Subnet`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubnetError {
    /// No address, a slash and a length.
    #[error("invalid subnet {0:?}: give an IPv4 address and the length of its prefix, such as 10.210.0.0/16")]
    Form(String),
    /// IPv6, which these networks have not yet.
    #[error("invalid subnet {0:?}: networks have IPv4 addresses only, IPv6 comes in a later release")]
    Ipv6(String),
    /// The address has bits behind the prefix.
    #[error("invalid subnet {written}: it should be {network}")]
    HostBits {
        /// The text.
        written: String,
        /// The network that the address is in.
        network: Subnet,
    },
}

impl Subnet {
    /// The network with a prefix of that many bits that has this address; `None` for more than 32 bits.
    #[must_use]
    pub fn around(address: Ipv4Addr, prefix: u8) -> Option<Self> {
        (prefix <= 32).then(|| Self {
            address: Ipv4Addr::from_bits(address.to_bits() & mask(prefix)),
            prefix,
        })
    }

    /// The address whose host part is zero.
    #[must_use]
    pub fn address(self) -> Ipv4Addr {
        self.address
    }

    /// The length of the prefix, in bits.
    #[must_use]
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// The bits of the prefix, as a mask.
    #[must_use]
    pub fn mask(self) -> u32 {
        mask(self.prefix)
    }

    /// The last address, by which all hosts are meant.
    #[must_use]
    pub fn broadcast(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.address.to_bits() | !self.mask())
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(self, address: Ipv4Addr) -> bool {
        address.to_bits() & self.mask() == self.address.to_bits()
    }

    /// Whether all addresses of another network are in it.
    #[must_use]
    pub fn covers(self, other: Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.address)
    }

    /// Whether some address is in both.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        self.covers(other) || other.covers(self)
    }

    /// Whether a host may have the address: it is in the network, and neither the first nor the last of it.
    #[must_use]
    pub fn has_host(self, address: Ipv4Addr) -> bool {
        self.contains(address) && address != self.address && address != self.broadcast()
    }

    /// How many addresses there are.
    #[must_use]
    pub fn size(self) -> u64 {
        1 << (32 - u32::from(self.prefix))
    }

    /// The address at a place, counted from the network's own and from the start again behind the last.
    #[must_use]
    pub fn at(self, place: u64) -> Ipv4Addr {
        let offset = u32::try_from(place % self.size()).unwrap_or(0);
        Ipv4Addr::from_bits(self.address.to_bits() | offset)
    }
}

fn mask(prefix: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)
}

impl FromStr for Subnet {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, SubnetError> {
        let form = || SubnetError::Form(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(form)?;
        if address.parse::<std::net::Ipv6Addr>().is_ok() {
            return Err(SubnetError::Ipv6(text.to_owned()));
        }
        let address: Ipv4Addr = address.parse().map_err(|_| form())?;
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|_| is_number).ok_or_else(form)?;
        let network = Self::around(address, prefix).ok_or_else(form)?;
        if network.address != address {
            let written = text.to_owned();
            return Err(SubnetError::HostBits { written, network });
        }
        Ok(network)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl TryFrom<String> for Subnet {
    type Error = SubnetError;

    fn try_from(text: String) -> Result<Self, SubnetError> {
        text.parse()
    }
}

impl From<Subnet> for String {
    fn from(subnet: Subnet) -> Self {
        subnet.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_networks_or_say_why_not() {
        for text in [
            "10.0.0.0/8",
            "192.168.7.0/24",
            "0.0.0.0/0",
            "10.1.2.3/32",
            "10.1.2.2/31",
        ] {
            assert_eq!(text.parse::<Subnet>().unwrap().to_string(), text);
        }
        for (text, words) in [
            ("10.0.0.0", "give an IPv4 address"),
            ("10.0.0.0/33", "give an IPv4 address"),
            ("10.0.0.0/+8", "give an IPv4 address"),
            ("10.0.0/8", "give an IPv4 address"),
            ("", "give an IPv4 address"),
            ("fd00::/64", "a later release"),
            ("10.0.0.1/24", "it should be 10.0.0.0/24"),
        ] {
            let error = text.parse::<Subnet>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn networks_overlap_where_one_is_in_the_other() {
        let subnet = |text: &str| text.parse::<Subnet>().unwrap();
        assert!(subnet("10.0.0.0/8").overlaps(subnet("10.9.0.0/16")));
        assert!(subnet("10.9.0.0/16").overlaps(subnet("10.0.0.0/8")));
        assert!(subnet("0.0.0.0/0").overlaps(subnet("10.0.0.0/8")));
        assert!(!subnet("10.8.0.0/16").overlaps(subnet("10.9.0.0/16")));
    }

    #[test]
    fn the_ends_are_no_hosts() {
        let subnet: Subnet = "192.168.7.0/29".parse().unwrap();
        let hosts: Vec<_> = (0..9)
            .map(|place| subnet.at(place))
            .filter(|address| subnet.has_host(*address))
            .collect();
        assert_eq!(hosts.len(), 6);
        assert_eq!(hosts[0], Ipv4Addr::new(192, 168, 7, 1));
        assert!(!subnet.has_host(Ipv4Addr::new(192, 168, 8, 1)));
        assert_eq!(subnet.broadcast(), Ipv4Addr::new(192, 168, 7, 7));
    }
}
