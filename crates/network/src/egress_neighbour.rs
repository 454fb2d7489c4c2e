//! How a container under an egress policy finds the hosts of its link by IPv6 (RFC 4861): the rules that let it. The messages carry nothing else.

use crate::egress_arp::FINDS;
use crate::egress_match::{is_long, is_of};
use crate::egress_parts::{EgressLink, Rules};
use crate::egress_rule::{
    ICMP6, NEXT_HEADER, REGISTER, V6, compare_first, ethertype, header_byte, load, masked, source_mac,
};
use crate::egress_verdict as verdict;
use crate::mac::Mac;
use crate::netlink::Request;
use crate::rule::{NFT_CMP_EQ, NFT_PAYLOAD_NETWORK_HEADER, NFT_PAYLOAD_TRANSPORT_HEADER, NFT_REG_1, compare};
use std::net::{IpAddr, Ipv6Addr};

/// Where the header of IPv6 says how far the packet may go.
const HOP_LIMIT: u32 = 7;
/// A packet that no router has passed on (RFC 4861).
const FROM_THE_LINK: u8 = 255;
/// The first bytes of a header: the version, and neither a class nor a label.
const PLAIN: [u8; 4] = [0x60, 0, 0, 0];
/// Messages by which hosts of a link find each other, the place of what they say of themselves, and that of the address that they are about.
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SAID: u32 = 4;
const TARGET: u32 = 8;
/// The bits of what an advertisement says that mean something.
const MEANS: u8 = 0xe0;
/// The option with the sender's own hardware address, in a question and in an answer, and its length in units of eight bytes.
const OPTION: u32 = 24;
const OF_SOURCE: u8 = 1;
const OF_TARGET: u8 = 2;
/// The lengths of a packet with that option and without it.
const LONG: u32 = 72;
const SHORT: u32 = 64;

/// Adds the rules that let a container ask for the hardware addresses of hosts of its link, with its `own` address, and tell its own; only within that
/// network. None of these packets leaves the link: it would be a way out otherwise.
pub(crate) fn neighbours(
    link: &EgressLink,
    (own, prefix): (Ipv6Addr, u8),
    chain: &str,
    rules: &mut Rules<'_>,
) {
    let found = format!("nd-{}", link.outside);
    rules.chain(&found, None);
    rules.add(chain, |list| {
        ethertype(list, V6.ethertype);
        header_byte(list, NEXT_HEADER, ICMP6);
        header_byte(list, HOP_LIMIT, FROM_THE_LINK);
        verdict::jump(list, &found);
    });
    // All hosts of the link, or those whose addresses end alike; and single ones.
    let everyone = (IpAddr::V6(Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0)), 16);
    let of_the_link = (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10);
    let within = (IpAddr::V6(own), prefix);
    for from in [own, link_local(link.mac)] {
        for to in [everyone, of_the_link, within] {
            for about in [of_the_link, within] {
                rules.add(&found, |list| {
                    message(list, (link.mac, from), (to, SOLICITATION, LONG));
                    load(list, REGISTER, (NFT_PAYLOAD_TRANSPORT_HEADER, TARGET, V6.length));
                    is_of(list, about);
                    verdict::goto(list, &V6.chain(FINDS));
                });
            }
            for length in [LONG, SHORT] {
                rules.add(&found, |list| {
                    message(list, (link.mac, from), (to, ADVERTISEMENT, length));
                    // It speaks for itself only.
                    has(list, TARGET, &from.octets());
                    verdict::goto(list, &V6.chain(FINDS));
                });
            }
        }
    }
}

fn message(list: &mut Request, (mac, from): (Mac, Ipv6Addr), (to, kind, length): ((IpAddr, u8), u8, u32)) {
    source_mac(list, mac);
    is_long(list, length);
    for (place, bytes) in [(0, &PLAIN[..]), (V6.source, &from.octets()[..])] {
        load(list, NFT_REG_1, (NFT_PAYLOAD_NETWORK_HEADER, place, bytes.len()));
        compare(list, NFT_CMP_EQ, bytes);
    }
    has(list, 0, &[kind, 0]);
    let (meant, option) = match kind {
        SOLICITATION => (0, OF_SOURCE),
        _ => (MEANS, OF_TARGET),
    };
    load(list, REGISTER, (NFT_PAYLOAD_TRANSPORT_HEADER, SAID, 4));
    masked(list, &[!meant, 0xff, 0xff, 0xff]);
    compare_first(list, &[0; 4]);
    if length == LONG {
        has(list, OPTION, &[&[option, 1][..], &mac.0].concat());
    }
    V6.destination(list, to.0, to.1);
}

/// The message has these bytes there.
fn has(list: &mut Request, place: u32, bytes: &[u8]) {
    load(
        list,
        NFT_REG_1,
        (NFT_PAYLOAD_TRANSPORT_HEADER, place, bytes.len()),
    );
    compare(list, NFT_CMP_EQ, bytes);
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
