//! The expressions of which rules about egress are made. Parts of a packet are at offsets of its headers.

use crate::egress_match as part;
use crate::mac::Mac;
use crate::netlink::Request;
use crate::nft_table::milliseconds;
use crate::rule::{
    NFT_CMP_EQ, NFT_CMP_NEQ, NFT_META_L4PROTO, NFT_PAYLOAD_NETWORK_HEADER, NFT_PAYLOAD_TRANSPORT_HEADER,
    NFT_REG_1, NFTA_DATA_VALUE, NFTA_IMMEDIATE_DATA, NFTA_IMMEDIATE_DREG, big, compare, expression, meta,
    payload,
};
use crate::transport::Transport;
use std::net::IpAddr;
use std::time::Duration;

const NFT_PAYLOAD_LINK_HEADER: u32 = 0;
const NFTA_META_DREG: u16 = 1;
const NFTA_META_KEY: u16 = 2;
const NFTA_CMP_SREG: u16 = 1;
const NFTA_CMP_OP: u16 = 2;
const NFTA_CMP_DATA: u16 = 3;
const NFTA_BITWISE_SREG: u16 = 1;
const NFTA_BITWISE_DREG: u16 = 2;
const NFTA_BITWISE_LEN: u16 = 3;
const NFTA_BITWISE_MASK: u16 = 4;
const NFTA_BITWISE_XOR: u16 = 5;
const NFTA_LOOKUP_SET: u16 = 1;
const NFTA_LOOKUP_SREG: u16 = 2;
const NFTA_LOOKUP_FLAGS: u16 = 5;
const NFT_LOOKUP_F_INV: u32 = 1;
const NFTA_FIB_DREG: u16 = 1;
const NFTA_FIB_RESULT: u16 = 2;
const NFTA_FIB_FLAGS: u16 = 3;
const NFT_FIB_RESULT_ADDRTYPE: u32 = 3;
const NFTA_FIB_F_DADDR: u32 = 2;
const RTN_LOCAL: u32 = 2;
const NFTA_DYNSET_SET_NAME: u16 = 1;
const NFTA_DYNSET_OP: u16 = 3;
const NFTA_DYNSET_SREG_KEY: u16 = 4;
const NFTA_DYNSET_TIMEOUT: u16 = 6;
const NFTA_DYNSET_EXPR: u16 = 7;
const NFT_DYNSET_OP_UPDATE: u32 = 1;
const NFTA_EXPR_NAME: u16 = 1;
const NFTA_EXPR_DATA: u16 = 2;
/// The first of the registers of 4 bytes, which is the beginning of the first one of 16.
pub(crate) const REGISTER: u32 = 8;
/// How many bytes such a register has.
const WORD: usize = 4;
/// Places in the header of Ethernet.
const DESTINATION_MAC: u32 = 0;
const SOURCE_MAC: u32 = 6;
const ETHERTYPE: u32 = 12;
/// Where the headers of TCP, UDP and SCTP have the ports, and that of TCP the flags.
const SOURCE_PORT: u32 = 0;
const DESTINATION_PORT: u32 = 2;
pub(crate) const TCP_FLAGS: u32 = 13;
/// FIN, SYN, RST and ACK; a packet that begins a connection has SYN alone.
const BEGINNING: u8 = 0x17;
pub(crate) const SYN: u8 = 2;
pub(crate) const ACK: u8 = 0x10;
/// Where ICMP has the number of an echo.
const ECHO_ID: u32 = 4;
/// Numbers by which nft(8) knows the kinds of a key's parts.
const PROTOCOL_TYPE: u32 = 12;
const PORT_TYPE: u32 = 13;

/// IPv4 or IPv6.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    digit: char,
    pub(crate) ethertype: [u8; 2],
    /// The place in the header and the bytes that packets must have there, which are those of a header without options.
    plain: Option<(u32, u8)>,
    /// The place in the header and the bytes that packets must not have there: kinds of further headers.
    further: Option<(u32, &'static [u8])>,
    pub(crate) source: u32,
    destination: u32,
    /// The length of an address.
    pub(crate) length: usize,
    icmp: u8,
    echo_request: u8,
    echo_reply: u8,
    /// The number by which nft(8) knows its addresses.
    pub(crate) address_type: u32,
}

/// IPv4. Options are dropped: a route in one leads elsewhere than the destination says.
pub(crate) const V4: Family = Family {
    digit: '4',
    ethertype: [0x08, 0x00],
    plain: Some((0, 0x45)),
    further: None,
    source: 12,
    destination: 16,
    length: 4,
    icmp: 1,
    echo_request: 8,
    echo_reply: 0,
    address_type: 7,
};

/// IPv6. Further headers before that of the transport are dropped, as a route in one leads elsewhere; fragments have one.
pub(crate) const V6: Family = Family {
    digit: '6',
    ethertype: [0x86, 0xdd],
    plain: None,
    // For each hop, routes, fragments, destinations, mobility, HIP and Shim6; and those of AH and ESP, behind which nothing is seen.
    further: Some((NEXT_HEADER, &[0, 43, 44, 60, 135, 139, 140, 50, 51])),
    source: 8,
    destination: 24,
    length: 16,
    icmp: ICMP6,
    echo_request: 128,
    echo_reply: 129,
    address_type: 8,
};

/// Where the header of IPv6 says what comes next.
pub(crate) const NEXT_HEADER: u32 = 6;
/// The number of ICMP for IPv6.
pub(crate) const ICMP6: u8 = 58;

impl Family {
    pub(crate) fn set(&self, name: &str) -> String {
        format!("{name}-{}", self.digit)
    }

    pub(crate) fn chain(&self, name: &str) -> String {
        self.set(name)
    }

    pub(crate) fn is_of(&self, address: IpAddr) -> bool {
        octets(address).len() == self.length
    }

    /// An address, a protocol, the port of the other side and the container's.
    pub(crate) fn flow_key(&self) -> [u32; 4] {
        [self.address_type, PROTOCOL_TYPE, PORT_TYPE, PORT_TYPE]
    }

    /// An address, a protocol and a port.
    pub(crate) fn note_key(&self) -> [u32; 3] {
        [self.address_type, PROTOCOL_TYPE, PORT_TYPE]
    }

    /// The length of a key that begins with an address, in bytes.
    pub(crate) fn key_len(&self, key: &[u32]) -> u32 {
        let rest = key.len().saturating_sub(1) * WORD;
        u32::try_from(self.length + rest).unwrap_or(u32::MAX)
    }

    /// The register behind an address.
    fn behind(&self) -> u32 {
        REGISTER + length(self.length) / length(WORD)
    }

    /// The packet is of this family.
    pub(crate) fn is(&self, list: &mut Request) {
        ethertype(list, self.ethertype);
    }

    /// The packet is of this family, and comes from there.
    pub(crate) fn from(&self, list: &mut Request, mac: Mac, address: IpAddr) {
        self.is(list);
        source_mac(list, mac);
        if let Some((place, byte)) = self.plain {
            header_byte(list, place, byte);
        }
        if let Some((place, kinds)) = self.further {
            load(list, NFT_REG_1, (NFT_PAYLOAD_NETWORK_HEADER, place, 1));
            kinds.iter().for_each(|kind| compare(list, NFT_CMP_NEQ, &[*kind]));
        }
        load(
            list,
            NFT_REG_1,
            (NFT_PAYLOAD_NETWORK_HEADER, self.source, self.length),
        );
        compare(list, NFT_CMP_EQ, &octets(address));
    }

    /// The packet is of this family, and goes there.
    pub(crate) fn to(&self, list: &mut Request, mac: Mac, address: IpAddr) {
        self.is(list);
        load(list, NFT_REG_1, (NFT_PAYLOAD_LINK_HEADER, DESTINATION_MAC, 6));
        compare(list, NFT_CMP_EQ, &mac.0);
        load(
            list,
            NFT_REG_1,
            (NFT_PAYLOAD_NETWORK_HEADER, self.destination, self.length),
        );
        compare(list, NFT_CMP_EQ, &octets(address));
    }

    /// The destination is in that network.
    pub(crate) fn destination(&self, list: &mut Request, address: IpAddr, prefix: u8) {
        part::within(list, self.destination, (address, prefix));
    }

    /// The destination is in that set.
    pub(crate) fn lookup_destination(&self, list: &mut Request, set: &str) {
        self.address(list, self.destination);
        lookup_registers(list, set);
    }

    /// The source is in that set.
    pub(crate) fn lookup_source(&self, list: &mut Request, set: &str) {
        self.address(list, self.source);
        lookup_registers(list, set);
    }

    fn address(&self, list: &mut Request, offset: u32) {
        load(list, REGISTER, (NFT_PAYLOAD_NETWORK_HEADER, offset, self.length));
    }

    /// Loads the key of the connection that a packet from the container belongs to.
    pub(crate) fn flow_out(&self, list: &mut Request) {
        self.flow(list, self.destination, [DESTINATION_PORT, SOURCE_PORT]);
    }

    /// Loads the key of the connection that a packet to the container belongs to.
    pub(crate) fn flow_in(&self, list: &mut Request) {
        self.flow(list, self.source, [SOURCE_PORT, DESTINATION_PORT]);
    }

    fn flow(&self, list: &mut Request, address: u32, ports: [u32; 2]) {
        self.address(list, address);
        let next = self.behind();
        load_meta(list, next, NFT_META_L4PROTO);
        for (register, port) in (next + 1..).zip(ports) {
            load(list, register, (NFT_PAYLOAD_TRANSPORT_HEADER, port, 2));
        }
    }

    /// The packet answers an echo; its key has the number of the echo in place of ports.
    pub(crate) fn echo_reply(&self, list: &mut Request) {
        self.echo(list, self.echo_reply, self.destination);
    }

    /// The packet asks for an echo.
    pub(crate) fn echo_request(&self, list: &mut Request) {
        self.echo(list, self.echo_request, self.source);
    }

    fn echo(&self, list: &mut Request, kind: u8, address: u32) {
        protocol(list, self.icmp);
        load(list, NFT_REG_1, (NFT_PAYLOAD_TRANSPORT_HEADER, 0, 1));
        compare(list, NFT_CMP_EQ, &[kind]);
        self.flow(list, address, [ECHO_ID, ECHO_ID]);
    }

    /// Loads the destination's address, protocol and port.
    pub(crate) fn note_service(&self, list: &mut Request) {
        self.service_at(list, self.destination, DESTINATION_PORT);
    }

    /// Loads the source's address, protocol and port.
    pub(crate) fn source_service(&self, list: &mut Request) {
        self.service_at(list, self.source, SOURCE_PORT);
    }

    fn service_at(&self, list: &mut Request, address: u32, port: u32) {
        self.address(list, address);
        load_meta(list, self.behind(), NFT_META_L4PROTO);
        load(list, self.behind() + 1, (NFT_PAYLOAD_TRANSPORT_HEADER, port, 2));
    }

    /// Loads the destination's address and protocol, and 0 for the port. The protocol has no ports.
    pub(crate) fn without_ports(&self, list: &mut Request) {
        for protocol in [Transport::Tcp, Transport::Udp, Transport::Sctp] {
            meta(list, NFT_META_L4PROTO);
            compare(list, NFT_CMP_NEQ, &[protocol.number()]);
        }
        self.address(list, self.destination);
        load_meta(list, self.behind(), NFT_META_L4PROTO);
        expression(list, "immediate", |data| {
            big(data, NFTA_IMMEDIATE_DREG, self.behind() + 1);
            data.nest(NFTA_IMMEDIATE_DATA, &[], |nested| {
                nested.attribute(NFTA_DATA_VALUE, &[0; WORD]);
            });
        });
    }
}

/// The bytes of an address.
pub(crate) fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    }
}

pub(crate) fn mask(prefix: u8, length: usize) -> Vec<u8> {
    let bits = |byte: usize| usize::from(prefix).saturating_sub(8 * byte).min(8);
    let bytes = (0..length).map(|byte| u8::MAX.checked_shl(8 - bits(byte) as u32).unwrap_or(0));
    bytes.collect()
}

fn length(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// Loads a part of a packet: of that header, from an offset, that many bytes.
pub(crate) fn load(list: &mut Request, register: u32, (base, offset, bytes): (u32, u32, usize)) {
    payload(list, register, (base, offset, length(bytes)));
}

fn load_meta(list: &mut Request, register: u32, key: u32) {
    expression(list, "meta", |data| {
        big(data, NFTA_META_DREG, register);
        big(data, NFTA_META_KEY, key);
    });
}

/// The header of the link names this protocol. A header with a tag of a VLAN names another one here.
pub(crate) fn ethertype(list: &mut Request, value: [u8; 2]) {
    load(list, NFT_REG_1, (NFT_PAYLOAD_LINK_HEADER, ETHERTYPE, 2));
    compare(list, NFT_CMP_EQ, &value);
}

/// The packet comes from that hardware.
pub(crate) fn source_mac(list: &mut Request, mac: Mac) {
    load(list, NFT_REG_1, (NFT_PAYLOAD_LINK_HEADER, SOURCE_MAC, 6));
    compare(list, NFT_CMP_EQ, &mac.0);
}

/// The header of the network has this byte there.
pub(crate) fn header_byte(list: &mut Request, place: u32, byte: u8) {
    load(list, NFT_REG_1, (NFT_PAYLOAD_NETWORK_HEADER, place, 1));
    compare(list, NFT_CMP_EQ, &[byte]);
}

/// The packet is of this protocol.
pub(crate) fn protocol(list: &mut Request, number: u8) {
    meta(list, NFT_META_L4PROTO);
    compare(list, NFT_CMP_EQ, &[number]);
}

/// The packet is of this protocol and to this port, where they are given.
pub(crate) fn service(list: &mut Request, matched: (Option<Transport>, Option<u16>)) {
    service_at(list, DESTINATION_PORT, matched);
}

/// The packet is of this protocol and from this port, where they are given.
pub(crate) fn service_of_source(list: &mut Request, matched: (Option<Transport>, Option<u16>)) {
    service_at(list, SOURCE_PORT, matched);
}

fn service_at(list: &mut Request, place: u32, (transport, port): (Option<Transport>, Option<u16>)) {
    if let Some(transport) = transport {
        protocol(list, transport.number());
    }
    if let Some(port) = port {
        load(list, NFT_REG_1, (NFT_PAYLOAD_TRANSPORT_HEADER, place, 2));
        compare(list, NFT_CMP_EQ, &port.to_be_bytes());
    }
}

/// The packet of TCP asks for a connection.
pub(crate) fn begins_connection(list: &mut Request) {
    flags(list, SYN);
}

/// The packet of TCP belongs to a connection that both sides have agreed to, and that is not over.
pub(crate) fn goes_on(list: &mut Request) {
    flags(list, ACK);
}

/// The packet of TCP has this flag alone, of FIN, SYN, RST and ACK.
fn flags(list: &mut Request, flag: u8) {
    load(list, REGISTER, (NFT_PAYLOAD_TRANSPORT_HEADER, TCP_FLAGS, 1));
    masked(list, &[BEGINNING]);
    compare_first(list, &[flag]);
}

/// The destination is an address of the host's own.
pub(crate) fn own_destination(list: &mut Request) {
    expression(list, "fib", |data| {
        big(data, NFTA_FIB_DREG, NFT_REG_1);
        big(data, NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
        big(data, NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
    });
    compare(list, NFT_CMP_EQ, &RTN_LOCAL.to_ne_bytes());
}

/// The key that is loaded is in that set.
pub(crate) fn lookup_registers(list: &mut Request, set: &str) {
    lookup(list, set, 0);
}

/// The key that is loaded is not in that set.
pub(crate) fn is_not_in(list: &mut Request, set: &str) {
    lookup(list, set, NFT_LOOKUP_F_INV);
}

fn lookup(list: &mut Request, set: &str, flags: u32) {
    expression(list, "lookup", |data| {
        data.name(NFTA_LOOKUP_SET, set);
        big(data, NFTA_LOOKUP_SREG, REGISTER);
        big(data, NFTA_LOOKUP_FLAGS, flags);
    });
}

/// Puts what is loaded into that set for that long from now on. Where the set is full, the rule ends.
pub(crate) fn remember(list: &mut Request, set: &str, lifetime: Duration) {
    put(list, set, lifetime, |_| {});
}

/// Like [`remember`], and counts how often.
pub(crate) fn note(list: &mut Request, set: &str, lifetime: Duration) {
    put(list, set, lifetime, |data| {
        data.nest(NFTA_DYNSET_EXPR, &[], |counter| {
            counter.name(NFTA_EXPR_NAME, "counter");
            counter.nest(NFTA_EXPR_DATA, &[], |_| {});
        });
    });
}

fn put(list: &mut Request, set: &str, lifetime: Duration, more: impl FnOnce(&mut Request)) {
    expression(list, "dynset", |data| {
        data.name(NFTA_DYNSET_SET_NAME, set);
        big(data, NFTA_DYNSET_OP, NFT_DYNSET_OP_UPDATE);
        big(data, NFTA_DYNSET_SREG_KEY, REGISTER);
        data.attribute(NFTA_DYNSET_TIMEOUT, &milliseconds(lifetime));
        more(data);
    });
}

/// Compares what begins at the first register.
pub(crate) fn compare_first(list: &mut Request, value: &[u8]) {
    compare_there(list, NFT_CMP_EQ, value);
}

/// Compares what begins at the first register, and goes on if it is something else.
pub(crate) fn compare_first_not(list: &mut Request, value: &[u8]) {
    compare_there(list, NFT_CMP_NEQ, value);
}

fn compare_there(list: &mut Request, operator: u32, value: &[u8]) {
    expression(list, "cmp", |data| {
        big(data, NFTA_CMP_SREG, REGISTER);
        big(data, NFTA_CMP_OP, operator);
        data.nest(NFTA_CMP_DATA, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, value)
        });
    });
}

pub(crate) fn masked(list: &mut Request, mask: &[u8]) {
    expression(list, "bitwise", |data| {
        big(data, NFTA_BITWISE_SREG, REGISTER);
        big(data, NFTA_BITWISE_DREG, REGISTER);
        big(data, NFTA_BITWISE_LEN, length(mask.len()));
        data.nest(NFTA_BITWISE_MASK, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, mask)
        });
        data.nest(NFTA_BITWISE_XOR, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, &vec![0; mask.len()]);
        });
    });
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn masks_have_the_bits_of_the_prefix() {
        assert_eq!(mask(0, 4), [0; 4]);
        assert_eq!(mask(12, 4), [0xff, 0xf0, 0, 0]);
        assert_eq!(mask(32, 4), [0xff; 4]);
        assert_eq!(mask(7, 16)[..2], [0xfe, 0]);
    }
}
