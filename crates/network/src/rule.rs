//! Rules of nf_tables, as the expressions that the kernel evaluates one after another.
//!
//! A rule loads something into a register and compares it; where the comparison fails, the rule is over. The last
//! expression says what becomes of a packet that all comparisons fit.

use crate::netlink::Request;
use crate::onward_rule::{self, NFT_META_MARK};
use crate::{Subnet, Subnet6};

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
const NFTA_FIB_DREG: u16 = 1;
const NFTA_FIB_RESULT: u16 = 2;
const NFTA_FIB_FLAGS: u16 = 3;
const NFTA_LOOKUP_SET: u16 = 1;
const NFTA_LOOKUP_SREG: u16 = 2;
const NFTA_LOOKUP_DREG: u16 = 3;
const NFTA_NAT_TYPE: u16 = 1;
const NFTA_NAT_FAMILY: u16 = 2;
const NFTA_NAT_REG_ADDR_MIN: u16 = 3;
const NFTA_NAT_REG_PROTO_MIN: u16 = 5;
pub(crate) const NFTA_DATA_VALUE: u16 = 1;
const NFTA_DATA_VERDICT: u16 = 2;
const NFTA_VERDICT_CODE: u16 = 1;
const NFT_REG_VERDICT: u32 = 0;
pub(crate) const NFT_REG_1: u32 = 1;
/// The third register of 16 bytes, whose parts of 4 bytes begin with number 16.
const NFT_REG_3: u32 = 3;
const NFT_REG32_00: u32 = 8;
const NFT_REG32_08: u32 = 16;
const NFT_META_IIFNAME: u32 = 6;
const NFT_META_OIFNAME: u32 = 7;
const NFT_META_SKUID: u32 = 10;
const NFT_META_NFPROTO: u32 = 15;
pub(crate) const NFT_META_L4PROTO: u32 = 16;
const NFT_CT_STATE: u32 = 0;
const NFT_CT_STATUS: u32 = 2;
pub(crate) const NFT_CMP_EQ: u32 = 0;
pub(crate) const NFT_CMP_NEQ: u32 = 1;
pub(crate) const NFT_PAYLOAD_NETWORK_HEADER: u32 = 1;
pub(crate) const NFT_PAYLOAD_TRANSPORT_HEADER: u32 = 2;
const NFT_FIB_RESULT_ADDRTYPE: u32 = 3;
const NFTA_FIB_F_DADDR: u32 = 2;
const NFT_NAT_DNAT: u32 = 1;
const RTN_LOCAL: u32 = 2;
/// Where an IPv4 header has the source.
pub(crate) const SADDR_OFFSET: u32 = 12;
/// Where an IPv4 header has the destination.
pub(crate) const DADDR_OFFSET: u32 = 16;
/// Where the headers of TCP, UDP and SCTP have the destination's port.
pub(crate) const DPORT_OFFSET: u32 = 2;
/// Connections that are established, or related to one that is.
const ESTABLISHED: u32 = 2 | 4;
/// Connections whose destination was translated.
const TRANSLATED: u32 = 0x20;
/// Where an IPv6 header has the source.
const SADDR6_OFFSET: u32 = 8;
/// Where an IPv6 header has the destination.
const DADDR6_OFFSET: u32 = 24;
const NFPROTO_IPV4: u8 = 2;
const NFPROTO_IPV6: u8 = 10;
const IPPROTO_ICMP: u8 = 1;
const IPPROTO_TCP: u8 = 6;
const IPPROTO_ICMPV6: u8 = 58;
/// The length of the header of ICMP and ICMPv6 errors, behind which the packet that they are about begins.
const ICMP_HEADER: u32 = 8;
/// The length of a link's name in a register.
const IFNAMSIZ: usize = 16;

/// An expression of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expression {
    /// The packet came in by this link.
    From(String),
    /// The packet came in by no such link.
    NotFrom(String),
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
    /// The destination is in this network. [`Expression::Ipv4`] comes before.
    Destination(Subnet),
    /// The packet is one of IPv6.
    Ipv6,
    /// The source is in this network. [`Expression::Ipv6`] comes before.
    Source6(Subnet6),
    /// The source is not in this network. [`Expression::Ipv6`] comes before.
    NotSource6(Subnet6),
    /// The destination is in this network. [`Expression::Ipv6`] comes before.
    Destination6(Subnet6),
    /// The packet is an ICMP message of this type. [`Expression::Ipv4`] comes before.
    Icmp(u8),
    /// The packet is an ICMPv6 message of this type.
    Icmp6(u8),
    /// The packet that an ICMP error quotes was for no address of this network. [`Expression::Icmp`] comes before.
    NotQuoted(Subnet),
    /// The packet that an ICMPv6 error quotes was for no address of this network. [`Expression::Icmp6`] comes before.
    NotQuoted6(Subnet6),
    /// The destination is an address of the host's own.
    OwnDestination,
    /// The packet is part of a connection that is established, or related to one.
    Established,
    /// The packet begins something new.
    NotEstablished,
    /// The destination was not translated.
    NotTranslated,
    /// The destination was translated.
    Translated,
    /// The destination is a key of this map and becomes its value. [`Expression::Ipv4`] or [`Expression::Ipv6`] comes before.
    ToPublished {
        /// The name of the map: from a protocol, an address and a port to an address and a port.
        map: &'static str,
        /// Whether the addresses are of IPv6.
        ipv6: bool,
        /// Whether the key lacks the address.
        any_address: bool,
    },
    /// The packet is one of TCP.
    Tcp,
    /// The packet begins a connection. [`Expression::Tcp`] comes before.
    Begins,
    /// The destination is that of a connection with a socket here that has an address of others.
    OfOthers,
    /// The route to the destination leads out by this link.
    LeadsBy(&'static str),
    /// The packet has this mark.
    Marked(u32),
    /// The packet gets this mark.
    Mark(u32),
    /// The packet comes from a socket of this network namespace. Bridged frames have none, nor have forwarded packets.
    OfOwnSocket,
    /// The packet belongs to no connection that is tracked.
    Untracked,
    /// A process that has bound this group is told of the packet.
    Tell(u16),
    /// The packet goes to the socket that listens at this port of the loopback device.
    Listener(u16),
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
            Self::NotFrom(name) => {
                meta(list, NFT_META_IIFNAME);
                compare(list, NFT_CMP_NEQ, &padded(name));
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
            Self::Ipv4 => protocol(list, NFT_CMP_EQ, NFPROTO_IPV4),
            Self::NotIpv4 => protocol(list, NFT_CMP_NEQ, NFPROTO_IPV4),
            Self::Ipv6 => protocol(list, NFT_CMP_EQ, NFPROTO_IPV6),
            Self::Destination6(subnet) => {
                address6(list, DADDR6_OFFSET, *subnet);
                compare(list, NFT_CMP_EQ, &subnet.address().octets());
            }
            Self::Source6(subnet) => {
                address6(list, SADDR6_OFFSET, *subnet);
                compare(list, NFT_CMP_EQ, &subnet.address().octets());
            }
            Self::NotSource6(subnet) => {
                address6(list, SADDR6_OFFSET, *subnet);
                compare(list, NFT_CMP_NEQ, &subnet.address().octets());
            }
            Self::Source(subnet) => {
                address(list, SADDR_OFFSET, *subnet);
                compare(list, NFT_CMP_EQ, &subnet.address().octets());
            }
            Self::NotSource(subnet) => {
                address(list, SADDR_OFFSET, *subnet);
                compare(list, NFT_CMP_NEQ, &subnet.address().octets());
            }
            Self::Destination(subnet) => {
                address(list, DADDR_OFFSET, *subnet);
                compare(list, NFT_CMP_EQ, &subnet.address().octets());
            }
            Self::OwnDestination => {
                kind_of_destination(list);
                compare(list, NFT_CMP_EQ, &RTN_LOCAL.to_ne_bytes());
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
            Self::Translated => {
                connection(list, NFT_CT_STATUS, TRANSLATED);
                compare(list, NFT_CMP_NEQ, &[0; 4]);
            }
            Self::ToPublished {
                map,
                ipv6,
                any_address,
            } => published(list, map, (*ipv6, *any_address)),
            Self::Accept => verdict(list, 1),
            Self::Drop => verdict(list, 0),
            Self::Masquerade => expression(list, "masq", |_| {}),
            other => other.write_message(list),
        }
    }

    /// Writes an expression about messages of ICMP.
    fn write_message(&self, list: &mut Request) {
        match self {
            Self::Icmp(kind) => message(list, IPPROTO_ICMP, *kind),
            Self::Icmp6(kind) => message(list, IPPROTO_ICMPV6, *kind),
            Self::NotQuoted(subnet) => {
                let quoted = (NFT_PAYLOAD_TRANSPORT_HEADER, ICMP_HEADER + DADDR_OFFSET, 4);
                payload(list, NFT_REG_1, quoted);
                let [.., a, b, c, d] = subnet.mask().to_be_bytes();
                masked(list, [a, b, c, d]);
                compare(list, NFT_CMP_NEQ, &subnet.address().octets());
            }
            Self::NotQuoted6(subnet) => {
                let quoted = (NFT_PAYLOAD_TRANSPORT_HEADER, ICMP_HEADER + DADDR6_OFFSET, 16);
                payload(list, NFT_REG_1, quoted);
                masked(list, subnet.mask().to_be_bytes());
                compare(list, NFT_CMP_NEQ, &subnet.address().octets());
            }
            onward => onward.write_onward(list),
        }
    }

    /// Writes an expression about connections that a process leads on.
    fn write_onward(&self, list: &mut Request) {
        match self {
            Self::Tcp => {
                meta(list, NFT_META_L4PROTO);
                compare(list, NFT_CMP_EQ, &[IPPROTO_TCP]);
            }
            Self::Begins => onward_rule::begins(list),
            Self::OfOthers => onward_rule::of_others(list),
            Self::LeadsBy(name) => onward_rule::leads_by(list, name),
            Self::Marked(mark) => {
                meta(list, NFT_META_MARK);
                compare(list, NFT_CMP_EQ, &mark.to_ne_bytes());
            }
            Self::Mark(mark) => onward_rule::set_mark(list, *mark),
            // The kernel ends the rule where it finds no user, and so no such socket.
            Self::OfOwnSocket => meta(list, NFT_META_SKUID),
            Self::Untracked => expression(list, "notrack", |_| {}),
            Self::Tell(group) => onward_rule::tell(list, *group),
            Self::Listener(port) => onward_rule::to_listener(list, *port),
            _ => {}
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
    meta_to(list, NFT_REG_1, key);
}

fn meta_to(list: &mut Request, register: u32, key: u32) {
    expression(list, "meta", |data| {
        big(data, NFTA_META_DREG, register);
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

pub(crate) fn masked<const LENGTH: usize>(list: &mut Request, mask: [u8; LENGTH]) {
    expression(list, "bitwise", |data| {
        big(data, NFTA_BITWISE_SREG, NFT_REG_1);
        big(data, NFTA_BITWISE_DREG, NFT_REG_1);
        big(data, NFTA_BITWISE_LEN, u32::try_from(LENGTH).unwrap_or_default());
        data.nest(NFTA_BITWISE_MASK, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, &mask)
        });
        data.nest(NFTA_BITWISE_XOR, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, &[0; LENGTH])
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

/// Loads a part of the packet: a header, the offset in it and the length, in bytes.
pub(crate) fn payload(list: &mut Request, register: u32, (base, offset, length): (u32, u32, u32)) {
    expression(list, "payload", |data| {
        big(data, NFTA_PAYLOAD_DREG, register);
        big(data, NFTA_PAYLOAD_BASE, base);
        big(data, NFTA_PAYLOAD_OFFSET, offset);
        big(data, NFTA_PAYLOAD_LEN, length);
    });
}

/// Loads the part of an address that names the network.
fn address(list: &mut Request, offset: u32, subnet: Subnet) {
    payload(list, NFT_REG_1, (NFT_PAYLOAD_NETWORK_HEADER, offset, 4));
    let [.., a, b, c, d] = subnet.mask().to_be_bytes();
    masked(list, [a, b, c, d]);
}

/// Compares the type of an ICMP message.
fn message(list: &mut Request, protocol: u8, kind: u8) {
    meta(list, NFT_META_L4PROTO);
    compare(list, NFT_CMP_EQ, &[protocol]);
    payload(list, NFT_REG_1, (NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1));
    compare(list, NFT_CMP_EQ, &[kind]);
}

/// Compares the packet's protocol, IPv4 or IPv6.
fn protocol(list: &mut Request, operator: u32, number: u8) {
    meta(list, NFT_META_NFPROTO);
    compare(list, operator, &[number]);
}

/// Loads the part of an IPv6 address that names the network.
fn address6(list: &mut Request, offset: u32, subnet: Subnet6) {
    payload(list, NFT_REG_1, (NFT_PAYLOAD_NETWORK_HEADER, offset, 16));
    masked(list, subnet.mask().to_be_bytes());
}

fn kind_of_destination(list: &mut Request) {
    expression(list, "fib", |data| {
        big(data, NFTA_FIB_DREG, NFT_REG_1);
        big(data, NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
        big(data, NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
    });
}

/// Loads protocol, address and port into registers that follow one another, looks them up, and translates the destination to
/// what the map has for them; a packet whose key the map lacks ends the rule.
fn published(list: &mut Request, map: &str, (ipv6, any_address): (bool, bool)) {
    let (offset, length, family) = if ipv6 {
        (DADDR6_OFFSET, 16, NFPROTO_IPV6)
    } else {
        (DADDR_OFFSET, 4, NFPROTO_IPV4)
    };
    meta_to(list, NFT_REG32_00, NFT_META_L4PROTO);
    let mut next = NFT_REG32_00 + 1;
    if !any_address {
        payload(list, next, (NFT_PAYLOAD_NETWORK_HEADER, offset, length));
        next += length / 4;
    }
    payload(list, next, (NFT_PAYLOAD_TRANSPORT_HEADER, DPORT_OFFSET, 2));
    expression(list, "lookup", |data| {
        data.name(NFTA_LOOKUP_SET, map);
        big(data, NFTA_LOOKUP_SREG, NFT_REG32_00);
        big(data, NFTA_LOOKUP_DREG, NFT_REG_3);
    });
    expression(list, "nat", |data| {
        big(data, NFTA_NAT_TYPE, NFT_NAT_DNAT);
        big(data, NFTA_NAT_FAMILY, u32::from(family));
        big(data, NFTA_NAT_REG_ADDR_MIN, NFT_REG32_08);
        big(data, NFTA_NAT_REG_PROTO_MIN, NFT_REG32_08 + length / 4);
    });
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
pub(crate) fn padded(name: &str) -> [u8; IFNAMSIZ] {
    let mut bytes = [0; IFNAMSIZ];
    for (byte, letter) in bytes.iter_mut().zip(name.bytes()) {
        *byte = letter;
    }
    bytes
}
