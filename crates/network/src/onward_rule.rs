//! Expressions of rules for connections that a process of tote's leads on.

use crate::netlink::Request;
use crate::rule::{
    NFT_CMP_EQ, NFT_PAYLOAD_TRANSPORT_HEADER, NFT_REG_1, NFTA_DATA_VALUE, NFTA_IMMEDIATE_DATA,
    NFTA_IMMEDIATE_DREG, big, compare, expression, masked, padded, payload,
};

pub(crate) const NFT_META_MARK: u32 = 3;
const NFTA_META_KEY: u16 = 2;
const NFTA_META_SREG: u16 = 3;
const NFTA_SOCKET_KEY: u16 = 1;
const NFTA_SOCKET_DREG: u16 = 2;
const NFT_SOCKET_TRANSPARENT: u32 = 0;
const NFTA_TPROXY_FAMILY: u16 = 1;
const NFTA_TPROXY_REG_PORT: u16 = 3;
/// Any of the two protocols.
const NFPROTO_UNSPEC: u32 = 0;
const NFTA_LOG_GROUP: u16 = 1;
const NFTA_LOG_QTHRESHOLD: u16 = 4;
const NFTA_FIB_DREG: u16 = 1;
const NFTA_FIB_RESULT: u16 = 2;
const NFTA_FIB_FLAGS: u16 = 3;
const NFT_FIB_RESULT_OIFNAME: u32 = 2;
const NFTA_FIB_F_DADDR: u32 = 2;
/// Where the header of TCP has its flags.
const TCP_FLAGS: u32 = 13;
/// The flags that tell the first packet of a connection from the others, and those of the first one.
const SYN_ACK_RST_FIN: u8 = 0x17;
const SYN: u8 = 2;

/// The packet begins a connection of TCP.
pub(crate) fn begins(list: &mut Request) {
    payload(list, NFT_REG_1, (NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS, 1));
    masked(list, [SYN_ACK_RST_FIN]);
    compare(list, NFT_CMP_EQ, &[SYN]);
}

/// The packet is for a socket that has an address of others.
pub(crate) fn of_others(list: &mut Request) {
    expression(list, "socket", |data| {
        big(data, NFTA_SOCKET_KEY, NFT_SOCKET_TRANSPARENT);
        big(data, NFTA_SOCKET_DREG, NFT_REG_1);
    });
    compare(list, NFT_CMP_EQ, &[1]);
}

/// The route to the destination leads out by a link.
pub(crate) fn leads_by(list: &mut Request, link: &str) {
    expression(list, "fib", |data| {
        big(data, NFTA_FIB_DREG, NFT_REG_1);
        big(data, NFTA_FIB_RESULT, NFT_FIB_RESULT_OIFNAME);
        big(data, NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
    });
    compare(list, NFT_CMP_EQ, &padded(link));
}

/// Marks the packet.
pub(crate) fn set_mark(list: &mut Request, mark: u32) {
    value(list, &mark.to_ne_bytes());
    expression(list, "meta", |data| {
        big(data, NFTA_META_KEY, NFT_META_MARK);
        big(data, NFTA_META_SREG, NFT_REG_1);
    });
}

/// Tells a group of the packet, at once.
pub(crate) fn tell(list: &mut Request, group: u16) {
    expression(list, "log", |data| {
        data.attribute(NFTA_LOG_GROUP, &group.to_be_bytes());
        data.attribute(NFTA_LOG_QTHRESHOLD, &1u16.to_be_bytes());
    });
}

/// Gives the packet to a socket that listens at that port, at the first address of the link by which the packet has come.
pub(crate) fn to_listener(list: &mut Request, port: u16) {
    value(list, &port.to_be_bytes());
    expression(list, "tproxy", |data| {
        big(data, NFTA_TPROXY_FAMILY, NFPROTO_UNSPEC);
        big(data, NFTA_TPROXY_REG_PORT, NFT_REG_1);
    });
}

/// Loads a value.
fn value(list: &mut Request, bytes: &[u8]) {
    expression(list, "immediate", |data| {
        big(data, NFTA_IMMEDIATE_DREG, NFT_REG_1);
        data.nest(NFTA_IMMEDIATE_DATA, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, bytes);
        });
    });
}
