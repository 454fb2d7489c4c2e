//! Ranges of addresses.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address of IPv4 or IPv6, which is a number of 32 or 128 bits.
pub trait Address: Copy + Eq + fmt::Display + FromStr + Into<IpAddr> {
    /// The length in bits.
    const BITS: u8;
    /// Whether the last address of a network means all of its hosts.
    const HAS_BROADCAST: bool;
    /// Name of the protocol, for people.
    const PROTOCOL: &'static str;
    /// Number of the protocol in messages of rtnetlink(7).
    const FAMILY: u8;

    /// Returns the address as a number.
    fn number(self) -> u128;

    /// Returns the address with the lowest [`Address::BITS`] bits of a number.
    fn of(number: u128) -> Self;

    /// Reads the bytes of an address, the highest first.
    fn from_bytes(bytes: &[u8]) -> Option<Self>;
}

impl Address for Ipv4Addr {
    const BITS: u8 = 32;
    const HAS_BROADCAST: bool = true;
    const PROTOCOL: &'static str = "IPv4";
    const FAMILY: u8 = 2;

    fn number(self) -> u128 {
        self.to_bits().into()
    }

    fn of(number: u128) -> Self {
        let [.., a, b, c, d] = number.to_be_bytes();
        Self::new(a, b, c, d)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        <[u8; 4]>::try_from(bytes).ok().map(Self::from)
    }
}

impl Address for Ipv6Addr {
    const BITS: u8 = 128;
    const HAS_BROADCAST: bool = false;
    const PROTOCOL: &'static str = "IPv6";
    const FAMILY: u8 = 10;

    fn number(self) -> u128 {
        self.to_bits()
    }

    fn of(number: u128) -> Self {
        Self::from_bits(number)
    }

    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        <[u8; 16]>::try_from(bytes).ok().map(Self::from)
    }
}

/// A network such as `10.210.0.0/16` or `fd00:7::/64`: an address whose host part is zero, and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String", bound = "A: Address")]
pub struct Prefix<A> {
    address: A,
    prefix: u8,
}

/// A network of IPv4 addresses.
pub type Subnet = Prefix<Ipv4Addr>;

/// A network of IPv6 addresses.
pub type Subnet6 = Prefix<Ipv6Addr>;

/// The addresses of every host's loopback device.
pub(crate) const LOOPBACK: Subnet = Prefix {
    address: Ipv4Addr::new(127, 0, 0, 0),
    prefix: 8,
};

/// The addresses of IPv6 that each link has of its own.
pub(crate) const LINK_LOCAL: Subnet6 = Prefix {
    address: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0),
    prefix: 10,
};

/// Why a text is not a [`Prefix`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubnetError {
    /// No address, a slash and a length.
    #[error(
        "invalid subnet {0:?}: give an address and the length of its prefix, such as 10.210.0.0/16 or fd00:7::/64"
    )]
    Form(String),
    /// The address has bits behind the prefix.
    #[error("invalid subnet {written}: it should be {network}")]
    HostBits {
        /// The text.
        written: String,
        /// The network that the address is in.
        network: String,
    },
}

impl<A: Address> Prefix<A> {
    /// The network with a prefix of that many bits that has this address; `None` for more bits than an address has.
    #[must_use]
    pub fn around(address: A, prefix: u8) -> Option<Self> {
        (prefix <= A::BITS).then(|| Self {
            address: A::of(address.number() & mask::<A>(prefix)),
            prefix,
        })
    }

    /// The network that has this address alone.
    #[must_use]
    pub fn of_one(address: A) -> Self {
        Self {
            address,
            prefix: A::BITS,
        }
    }

    /// The address whose host part is zero.
    #[must_use]
    pub fn address(self) -> A {
        self.address
    }

    /// The length of the prefix, in bits.
    #[must_use]
    pub fn prefix(self) -> u8 {
        self.prefix
    }

    /// The bits of the prefix, as the number of an address.
    #[must_use]
    pub fn mask(self) -> u128 {
        mask::<A>(self.prefix)
    }

    /// The last address, by which all hosts of an IPv4 network are meant.
    #[must_use]
    pub fn broadcast(self) -> A {
        A::of(self.address.number() | !self.mask())
    }

    /// Whether an address is in it.
    #[must_use]
    pub fn contains(self, address: A) -> bool {
        address.number() & self.mask() == self.address.number()
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

    /// Whether a host may have the address: it is in the network, it is not the first one, which means any router where it
    /// is one of IPv6, and of IPv4 it is not the last one.
    #[must_use]
    pub fn has_host(self, address: A) -> bool {
        let is_last = A::HAS_BROADCAST && address == self.broadcast();
        self.contains(address) && address != self.address && !is_last
    }

    /// How many addresses there are; one less if they are all that there are of IPv6.
    #[must_use]
    pub fn size(self) -> u128 {
        let last = self.broadcast().number() - self.address.number();
        last.saturating_add(1)
    }

    /// The address at a place, counted from the network's own and from the start again behind the last.
    #[must_use]
    pub fn at(self, place: u128) -> A {
        A::of(self.address.number() | (place & !self.mask()))
    }
}

/// The mask of a prefix; the bits above those of an address are zero.
fn mask<A: Address>(prefix: u8) -> u128 {
    let all = u128::MAX >> (128 - u32::from(A::BITS));
    let host = all.checked_shr(prefix.into()).unwrap_or(0);
    all & !host
}

impl<A: Address> FromStr for Prefix<A> {
    type Err = SubnetError;

    fn from_str(text: &str) -> Result<Self, SubnetError> {
        let form = || SubnetError::Form(text.to_owned());
        let (address, prefix) = text.split_once('/').ok_or_else(form)?;
        let address: A = address.parse().map_err(|_| form())?;
        let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|_| is_number).ok_or_else(form)?;
        let network = Self::around(address, prefix).ok_or_else(form)?;
        if network.address != address {
            let (written, network) = (text.to_owned(), network.to_string());
            return Err(SubnetError::HostBits { written, network });
        }
        Ok(network)
    }
}

impl<A: fmt::Display> fmt::Display for Prefix<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.prefix)
    }
}

impl<A: Address> TryFrom<String> for Prefix<A> {
    type Error = SubnetError;

    fn try_from(text: String) -> Result<Self, SubnetError> {
        text.parse()
    }
}

impl<A: Address> From<Prefix<A>> for String {
    fn from(subnet: Prefix<A>) -> Self {
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
            ("10.0.0.0", "give an address"),
            ("10.0.0.0/33", "give an address"),
            ("10.0.0.0/+8", "give an address"),
            ("10.0.0/8", "give an address"),
            ("", "give an address"),
            ("fd00::/64", "give an address"),
            ("10.0.0.1/24", "it should be 10.0.0.0/24"),
        ] {
            let error = text.parse::<Subnet>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn networks_of_ipv6_are_read_as_well() {
        for text in ["fd00:7::/64", "::/0", "2001:db8::1/128", "2001:db8:0:8000::/49"] {
            assert_eq!(text.parse::<Subnet6>().unwrap().to_string(), text);
        }
        for text in ["fd00::/129", "fd00::1/64", "10.0.0.0/8", "fd00::"] {
            text.parse::<Subnet6>().unwrap_err();
        }
        let subnet: Subnet6 = "fd00:7::/64".parse().unwrap();
        let address = |text: &str| text.parse::<Ipv6Addr>().unwrap();
        assert_eq!(subnet.at(1), address("fd00:7::1"));
        assert_eq!(subnet.at((1 << 64) + 2), address("fd00:7::2"));
        assert!(subnet.has_host(address("fd00:7::ffff:ffff:ffff:ffff")));
        assert!(!subnet.has_host(address("fd00:7::")));
        assert!(!subnet.has_host(address("fd00:8::1")));
        assert_eq!(subnet.size(), 1 << 64);
        assert_eq!("::/0".parse::<Subnet6>().unwrap().size(), u128::MAX);
        assert_eq!("0.0.0.0/0".parse::<Subnet>().unwrap().size(), 1 << 32);
        assert_eq!("10.0.0.0/8".parse::<Subnet>().unwrap().mask(), 0xff00_0000);
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
