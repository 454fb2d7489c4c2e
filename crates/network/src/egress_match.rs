//! More of what rules about egress ask of a packet: its mark, its length, its rate, and the networks of addresses in it.

use crate::egress_rule::{
    ACK, Family, REGISTER, SYN, TCP_FLAGS, compare_first, compare_first_not, load, mask, masked, octets,
};
use crate::netlink::Request;
use crate::onward_rule::NFT_META_MARK;
use crate::rule::{
    NFT_CMP_EQ, NFT_CMP_NEQ, NFT_META_L4PROTO, NFT_PAYLOAD_NETWORK_HEADER, NFT_PAYLOAD_TRANSPORT_HEADER,
    NFT_REG_1, big, compare, expression, meta,
};
use std::net::IpAddr;

const NFT_META_LEN: u32 = 0;
const NFTA_LIMIT_RATE: u16 = 1;
const NFTA_LIMIT_UNIT: u16 = 2;
const NFTA_LIMIT_BURST: u16 = 3;
/// The unit of a rate, in seconds.
const SECOND: u64 = 1;

impl Family {
    /// The source is in that network.
    pub(crate) fn source_within(&self, list: &mut Request, address: IpAddr, prefix: u8) {
        within(list, self.source, (address, prefix));
    }

    /// The source is another address.
    pub(crate) fn source_is_not(&self, list: &mut Request, address: IpAddr) {
        load(
            list,
            NFT_REG_1,
            (NFT_PAYLOAD_NETWORK_HEADER, self.source, self.length),
        );
        compare(list, NFT_CMP_NEQ, &octets(address));
    }
}

/// The address at that place behind the header of the link is in a network.
pub(crate) fn within(list: &mut Request, place: u32, network: (IpAddr, u8)) {
    let length = octets(network.0).len();
    load(list, REGISTER, (NFT_PAYLOAD_NETWORK_HEADER, place, length));
    is_of(list, network);
}

/// The address that is loaded is in a network.
pub(crate) fn is_of(list: &mut Request, (address, prefix): (IpAddr, u8)) {
    let mut network = octets(address);
    let mask = mask(prefix, network.len());
    if usize::from(prefix) < network.len() * 8 {
        masked(list, &mask);
    }
    for (byte, kept) in network.iter_mut().zip(mask) {
        *byte &= kept;
    }
    compare_first(list, &network);
}

/// The packet has that mark.
pub(crate) fn marked(list: &mut Request, mark: u32) {
    meta(list, NFT_META_MARK);
    compare(list, NFT_CMP_EQ, &mark.to_ne_bytes());
}

/// The packet is of another protocol.
pub(crate) fn is_not_of(list: &mut Request, protocol: u8) {
    meta(list, NFT_META_L4PROTO);
    compare(list, NFT_CMP_NEQ, &[protocol]);
}

/// The packet has that many bytes behind the header of the link.
pub(crate) fn is_long(list: &mut Request, bytes: u32) {
    meta(list, NFT_META_LEN);
    compare(list, NFT_CMP_EQ, &bytes.to_ne_bytes());
}

/// The packet of TCP does not ask for a connection, by whatever other flags beside.
pub(crate) fn asks_nothing(list: &mut Request) {
    load(list, REGISTER, (NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS, 1));
    masked(list, &[SYN | ACK]);
    compare_first_not(list, &[SYN]);
}

/// The packets that come here are at most that number a second, and the second number at once after a pause.
pub(crate) fn at_most(list: &mut Request, (rate, burst): (u64, u32)) {
    expression(list, "limit", |data| {
        data.attribute(NFTA_LIMIT_RATE, &rate.to_be_bytes());
        data.attribute(NFTA_LIMIT_UNIT, &SECOND.to_be_bytes());
        big(data, NFTA_LIMIT_BURST, burst);
    });
}
