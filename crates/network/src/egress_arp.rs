//! How a container under an egress policy finds the hosts of its link by IPv4: by ARP (RFC 826), whose messages carry nothing else.

use crate::egress_match as part;
use crate::egress_parts::{EgressLink, Rules};
use crate::egress_rule::{Family, V4, ethertype, load, source_mac};
use crate::egress_verdict as verdict;
use crate::mac::Mac;
use crate::netlink::Request;
use crate::rule::{NFT_CMP_EQ, NFT_PAYLOAD_NETWORK_HEADER, NFT_REG_1, compare};
use std::net::{IpAddr, Ipv4Addr};

const ARP: [u8; 2] = [0x08, 0x06];
/// The bytes that every message between hosts of Ethernet with addresses of IPv4 begins with.
const BEGINNING: [u8; 7] = [0, 1, 8, 0, 6, 4, 0];
const OPERATION: u32 = 7;
const QUESTION: u8 = 1;
const ANSWER: u8 = 2;
const SENDER_MAC: u32 = 8;
const SENDER: u32 = 14;
const TARGET_MAC: u32 = 18;
const TARGET: u32 = 24;
/// The length of a message. Nothing pads a frame on its way out of a container.
const LENGTH: u32 = 28;
/// The chain that lets such messages pass, of both protocols.
pub(crate) const FINDS: &str = "finds";
/// How many messages a second pass, and how many at once after a pause: the address that a question is about is bytes that its sender chooses.
const RATE: (u64, u32) = (25, 100);

/// Adds the chain that lets messages pass by which hosts find each other, as long as they are not many. The chain that leads here drops the others.
pub(crate) fn finds(family: &Family, rules: &mut Rules<'_>) {
    let chain = family.chain(FINDS);
    rules.chain(&chain, None);
    rules.add(&chain, |list| {
        part::at_most(list, RATE);
        verdict::accept(list);
    });
}

/// Adds the rules that let a container ask for and tell hardware addresses, with its own, within its network.
pub(crate) fn arp(link: &EgressLink, (own, prefix): (Ipv4Addr, u8), chain: &str, rules: &mut Rules<'_>) {
    for operation in [QUESTION, ANSWER] {
        rules.add(chain, |list| {
            message(list, link.mac, (own, prefix), operation);
            verdict::goto(list, &V4.chain(FINDS));
        });
    }
}

fn message(list: &mut Request, mac: Mac, (own, prefix): (Ipv4Addr, u8), operation: u8) {
    ethertype(list, ARP);
    source_mac(list, mac);
    part::is_long(list, LENGTH);
    has(list, 0, &BEGINNING);
    has(list, OPERATION, &[operation]);
    has(list, SENDER_MAC, &mac.0);
    has(list, SENDER, &own.octets());
    if operation == QUESTION {
        // Kernels leave it empty, and do not look at it.
        has(list, TARGET_MAC, &[0; 6]);
    }
    part::within(list, TARGET, (IpAddr::V4(own), prefix));
}

/// The message has these bytes there.
fn has(list: &mut Request, place: u32, bytes: &[u8]) {
    load(list, NFT_REG_1, (NFT_PAYLOAD_NETWORK_HEADER, place, bytes.len()));
    compare(list, NFT_CMP_EQ, bytes);
}
