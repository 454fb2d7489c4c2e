//! Ranges of addresses that no name of the world outside stands for.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Networks of a machine's own surroundings and of its provider's, metadata among them, and ranges that are no host's. The
/// ranges for documentation are ordinary addresses here.
pub(crate) const SPECIAL: [(IpAddr, u8); 19] = [
    (v4(0, 0), 8),
    (v4(10, 0), 8),
    // Of providers, behind their translation (RFC 6598).
    (v4(100, 64), 10),
    (v4(127, 0), 8),
    // Links; metadata are at 169.254.169.254.
    (v4(169, 254), 16),
    (v4(172, 16), 12),
    // Protocols of the IETF: 192.0.0.192 has metadata, too.
    (v4(192, 0), 24),
    (v4(192, 168), 16),
    // Several and all hosts, and what is reserved.
    (v4(224, 0), 4),
    (v4(240, 0), 4),
    // ::, ::1, and IPv4 in disguise.
    (v6(0, 0), 32),
    // NAT64, 6to4 and Teredo: an IPv4 address is in them.
    (v6(0x64, 0xff9b), 32),
    (v6(0x2001, 0), 32),
    (v6(0x2002, 0), 16),
    // Unique local addresses; metadata are at fd00:ec2::254.
    (v6(0xfc00, 0), 7),
    (v6(0xfe80, 0), 10),
    (v6(0xfec0, 0), 10),
    (v6(0xff00, 0), 8),
    // Discarded (RFC 6666).
    (v6(0x100, 0), 64),
];

const fn v4(first: u8, second: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(first, second, 0, 0))
}

const fn v6(first: u16, second: u16) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0))
}

/// Whether an address is in the network of another one, whose prefix has that many bits.
#[must_use]
pub fn is_in(address: IpAddr, network: IpAddr, prefix: u8) -> bool {
    let prefix = u32::from(prefix);
    match (address, network) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            let differs = one.to_bits() ^ other.to_bits();
            differs.checked_shr(32 - prefix.min(32)).unwrap_or(0) == 0
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => {
            let differs = one.to_bits() ^ other.to_bits();
            differs.checked_shr(128 - prefix.min(128)).unwrap_or(0) == 0
        }
        _ => false,
    }
}

/// Whether an address is of a kind that a name of the world outside does not stand for, so that an answer with it is not to
/// be trusted: private, of a link, metadata, or no host's.
#[must_use]
pub fn is_special(address: IpAddr) -> bool {
    SPECIAL
        .iter()
        .any(|(network, prefix)| is_in(address, *network, *prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_and_private_addresses_are_special() {
        for special in [
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.0.1",
            "127.0.0.1",
            "169.254.169.254",
            "192.0.0.192",
            "100.64.0.1",
            "0.0.0.0",
            "224.0.0.251",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:10.0.0.1",
            "::ffff:8.8.8.8",
            "64:ff9b::a00:1",
            "fd00:ec2::254",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(is_special(special.parse().unwrap()), "{special}");
        }
        for ordinary in [
            "8.8.8.8",
            "172.32.0.1",
            "100.128.0.1",
            "192.0.1.1",
            "198.51.100.9",
            "203.0.113.7",
            "2606:4700::1111",
        ] {
            assert!(!is_special(ordinary.parse().unwrap()), "{ordinary}");
        }
        assert!(is_in("1.2.3.4".parse().unwrap(), "0.0.0.0".parse().unwrap(), 0));
    }
}
