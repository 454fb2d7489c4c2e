//! How a container under an egress policy finds the hosts of its link by IPv6 (RFC 4861): the rules that let it.

use crate::egress_rule::{ICMP6, NEXT_HEADER, V6, ethertype, header_byte, load, source_mac};
use crate::mac::Mac;
use crate::netlink::Request;
use crate::rule::{NFT_CMP_EQ, NFT_PAYLOAD_NETWORK_HEADER, NFT_PAYLOAD_TRANSPORT_HEADER, NFT_REG_1, compare};
use std::net::{IpAddr, Ipv6Addr};

/// Where the header of IPv6 says how far the packet may go.
const HOP_LIMIT: u32 = 7;
/// A packet that no router has passed on (RFC 4861).
const FROM_THE_LINK: u8 = 255;
/// Messages by which hosts of a link find each other, and the place of the address that they are about.
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const TARGET: u32 = 8;

/// Lets a container ask for the hardware addresses of hosts of its link, with its `own` address, and tell its own; only within that
/// network. Gives the matches, one rule each. None of these packets leaves the link: it would be a way out otherwise.
pub(crate) fn neighbours(mac: Mac, own: Ipv6Addr, within: (IpAddr, u8)) -> Vec<impl FnOnce(&mut Request)> {
    // All hosts of the link, or those whose addresses end alike; and single ones.
    let everyone = IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0));
    let of_the_link = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0));
    let mut rules = Vec::new();
    for own in [own, link_local(mac)] {
        for to in [(everyone, 16), (of_the_link, 10), within] {
            for kind in [SOLICITATION, ADVERTISEMENT] {
                rules.push(move |list: &mut Request| neighbour(list, (mac, own), to, kind));
            }
        }
    }
    rules
}

fn neighbour(list: &mut Request, (mac, own): (Mac, Ipv6Addr), (network, prefix): (IpAddr, u8), kind: u8) {
    ethertype(list, V6.ethertype);
    source_mac(list, mac);
    header_byte(list, NEXT_HEADER, ICMP6);
    header_byte(list, HOP_LIMIT, FROM_THE_LINK);
    load(
        list,
        NFT_REG_1,
        (NFT_PAYLOAD_NETWORK_HEADER, V6.source, V6.length),
    );
    compare(list, NFT_CMP_EQ, &own.octets());
    load(list, NFT_REG_1, (NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1));
    compare(list, NFT_CMP_EQ, &[kind]);
    if kind == ADVERTISEMENT {
        // It speaks for itself only.
        load(list, NFT_REG_1, (NFT_PAYLOAD_TRANSPORT_HEADER, TARGET, V6.length));
        compare(list, NFT_CMP_EQ, &own.octets());
    }
    V6.destination(list, network, prefix);
}

/// The address that a link gives itself by its hardware address (RFC 4291, appendix A).
fn link_local(mac: Mac) -> Ipv6Addr {
    let [a, b, c, d, e, g] = mac.0.map(u16::from);
    Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        (a ^ 2) << 8 | b,
        c << 8 | 0xff,
        0xfe00 | d,
        e << 8 | g,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_an_address_by_its_hardware_address() {
        let address = link_local(Mac([0x02, 0x42, 0x0a, 0xd2, 0x15, 0xb2]));
        assert_eq!(address.to_string(), "fe80::42:aff:fed2:15b2");
    }
}
