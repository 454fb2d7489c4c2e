//! Hardware addresses.

use std::fmt;
use std::net::Ipv4Addr;

/// The hardware address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Reads what its `Display` writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (mut bytes, mut parts) = ([0; 6], text.split(':'));
        for byte in &mut bytes {
            *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
        }
        parts.next().is_none().then_some(Self(bytes))
    }

    /// The address that a container gets by its IPv4 address, as docker had it: it is as unique in its network.
    #[must_use]
    pub fn of(address: Ipv4Addr) -> Self {
        let [a, b, c, d] = address.octets();
        Self([0x02, 0x42, a, b, c, d])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}
