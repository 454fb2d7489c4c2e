//! Rules of nf_tables, as the expressions that the kernel evaluates one after another.
//!
//! A rule loads something into a register and compares it; where the comparison fails, the rule is over. The last
//! expression says what becomes of a packet that all comparisons fit.

use crate::Subnet;
use crate::netlink::Request;

const NFTA_LIST_ELEM: u16 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFTA_CT_DREG: u16 = 1;
const NFTA_CT_KEY: u16 = 2;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
pub(crate) const NFTA_PAYLOAD_DREG: u16 = 1;
pub(crate) const NFTA_PAYLOAD_BASE: u16 = 2;
pub(crate) const NFTA_PAYLOAD_OFFSET: u16 = 3;
pub(crate) const NFTA_PAYLOAD_LEN: u16 = 4;
const NFTA_BITWISE_SREG: u16 = 1;
const NFTA_BITWISE_DREG: u16 = 2;
const NFTA_BITWISE_LEN: u16 = 3;
const NFTA_BITWISE_MASK: u16 = 4;
const NFTA_BITWISE_XOR: u16 = 5;
pub(crate) const NFTA_IMMEDIATE_DREG: u16 = 1;
pub(crate) const NFTA_IMMEDIATE_DATA: u16 = 2;
pub(crate) const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFT_REG_VERDICT: u32 = 0;
pub(crate) const NFT_REG_1: u32 = 1;
const NFT_META_IIFNAME: u32 = 6;
const NFT_META_OIFNAME: u32 = 7;
const NFT_META_NFPROTO: u32 = 15;
const NFT_CT_STATE: u32 = 0;
const NFT_CT_STATUS: u32 = 2;
pub(crate) const NFT_CMP_EQ: u32 = 0;
const NFT_CMP_NEQ: u32 = 1;
pub(crate) const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
/// Where an IPv4 header has the source.
const SADDR_OFFSET: u32 = 12;
/// Connections that are established, or related to one that is.
const ESTABLISHED: u32 = 2 | 4;
/// Connections whose destination was translated.
const TRANSLATED: u32 = 0x20;
const NFPROTO_IPV4: u8 = 2;
/// The length of a link's name in a register.
const IFNAMSIZ: usize = 16;

/// An expression of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    /// The packet came in by this link.
    From(String),
    /// The packet goes out by this link.
    To(String),
    /// The packet goes out by no such link.
    NotTo(String),
    /// The packet goes out by no link whose name begins so.
    NotToPrefix(&'static str),
    /// The packet is not one of IPv4.
    NotIpv4,
    /// The packet is one of IPv4.
    Ipv4,
    /// The source is in this network. [`Expression::Ipv4`] comes before.
    Source(Subnet),
    /// The source is not in this network. [`Expression::Ipv4`] comes before.
    NotSource(Subnet),
    /// The packet is part of a connection that is established, or related to one.
    Established,
    /// The packet begins something new.
    NotEstablished,
    /// Nobody has translated the destination.
    NotTranslated,
    /// The packet goes on to the next chain.
    Accept,
    /// The packet is gone.
    Drop,
    /// The source becomes the host's address on the link by which the packet goes out.
    Masquerade,
}

/// Appends the expressions of a rule to a message, as a list.
pub(crate) fn append(request: &mut Request, attribute: u16, rule: &[Expression]) {
    request.nest(attribute, &[], |list| {
        for expression in rule {
            expression.write(list);
        }
    });
}

impl Expression {
    fn write(&self, list: &mut Request) {
        match self {
            Self::From(name) => {
                meta(list, NFT_META_IIFNAME);
                compare(list, NFT_CMP_EQ, &padded(name));
            }
            Self::To(name) => {
                meta(list, NFT_META_OIFNAME);
                compare(list, NFT_CMP_EQ, &padded(name));
            }
            Self::NotTo(name) => {
                meta(list, NFT_META_OIFNAME);
                compare(list, NFT_CMP_NEQ, &padded(name));
            }
            Self::NotToPrefix(prefix) => {
                meta(list, NFT_META_OIFNAME);
                compare(list, NFT_CMP_NEQ, prefix.as_bytes());
            }
            Self::Ipv4 => {
                meta(list, NFT_META_NFPROTO);
                compare(list, NFT_CMP_EQ, &[NFPROTO_IPV4]);
            }
            Self::NotIpv4 => {
                meta(list, NFT_META_NFPROTO);
                compare(list, NFT_CMP_NEQ, &[NFPROTO_IPV4]);
            }
            Self::Source(subnet) => {
                source(list, *subnet);
                compare(list, NFT_CMP_EQ, &subnet.address().octets());
            }
            Self::NotSource(subnet) => {
                source(list, *subnet);
                compare(list, NFT_CMP_NEQ, &subnet.address().octets());
            }
            Self::Established => {
                connection(list, NFT_CT_STATE, ESTABLISHED);
                compare(list, NFT_CMP_NEQ, &[0; 4]);
            }
            Self::NotEstablished => {
                connection(list, NFT_CT_STATE, ESTABLISHED);
                compare(list, NFT_CMP_EQ, &[0; 4]);
            }
            Self::NotTranslated => {
                connection(list, NFT_CT_STATUS, TRANSLATED);
                compare(list, NFT_CMP_EQ, &[0; 4]);
            }
            Self::Accept => verdict(list, 1),
            Self::Drop => verdict(list, 0),
            Self::Masquerade => expression(list, "masq", |_| {}),
        }
    }
}

pub(crate) fn expression(list: &mut Request, name: &str, fill: impl FnOnce(&mut Request)) {
    list.nest(NFTA_LIST_ELEM, &[], |element| {
        element.name(NFTA_EXPR_NAME, name);
        element.nest(NFTA_EXPR_DATA, &[], fill);
    });
}

/// Appends a number in the order of bytes that nf_tables wants.
pub(crate) fn big(request: &mut Request, kind: u16, number: u32) {
    request.attribute(kind, &number.to_be_bytes());
}

pub(crate) fn meta(list: &mut Request, key: u32) {
    expression(list, "meta", |data| {
        big(data, NFTA_META_DREG, NFT_REG_1);
        big(data, NFTA_META_KEY, key);
    });
}

pub(crate) fn compare(list: &mut Request, operator: u32, value: &[u8]) {
    expression(list, "cmp", |data| {
        big(data, NFTA_CMP_SREG, NFT_REG_1);
        big(data, NFTA_CMP_OP, operator);
        data.nest(NFTA_CMP_DATA, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, value)
        });
    });
}

fn masked(list: &mut Request, mask: [u8; 4]) {
    expression(list, "bitwise", |data| {
        big(data, NFTA_BITWISE_SREG, NFT_REG_1);
        big(data, NFTA_BITWISE_DREG, NFT_REG_1);
        big(data, NFTA_BITWISE_LEN, 4);
        data.nest(NFTA_BITWISE_MASK, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, &mask)
        });
        data.nest(NFTA_BITWISE_XOR, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, &[0; 4])
        });
    });
}

fn connection(list: &mut Request, key: u32, bits: u32) {
    expression(list, "ct", |data| {
        big(data, NFTA_CT_DREG, NFT_REG_1);
        big(data, NFTA_CT_KEY, key);
    });
    masked(list, bits.to_ne_bytes());
}

fn source(list: &mut Request, subnet: Subnet) {
    expression(list, "payload", |data| {
        big(data, NFTA_PAYLOAD_DREG, NFT_REG_1);
        big(data, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_NETWORK_HEADER);
        big(data, NFTA_PAYLOAD_OFFSET, SADDR_OFFSET);
        big(data, NFTA_PAYLOAD_LEN, 4);
    });
    masked(list, subnet.mask().to_be_bytes());
}

fn verdict(list: &mut Request, code: u32) {
    expression(list, "immediate", |data| {
        big(data, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
        data.nest(NFTA_IMMEDIATE_DATA, &[], |nested| {
            nested.nest(NFTA_DATA_VERDICT, &[], |verdict| {
                big(verdict, NFTA_VERDICT_CODE, code)
            });
        });
    });
}

/// A link's name as the kernel loads it: zeros to the end.
fn padded(name: &str) -> [u8; IFNAMSIZ] {
    let mut bytes = [0; IFNAMSIZ];
    for (byte, letter) in bytes.iter_mut().zip(name.bytes()) {
        *byte = letter;
    }
    bytes
}
