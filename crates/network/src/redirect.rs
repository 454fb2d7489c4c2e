//! The sockets of a container's resolver, and the rules by which the container finds them at the port of DNS.
//!
//! The sockets have ports that are free, because a program of the container may want the port of DNS on every address.
//! Rules of the container's own network namespace change the port of each packet to the resolver and from it. They look at
//! nothing but the packet: no connection is tracked for it.

use crate::LinkError;
use crate::filter::{
    NFPROTO_IPV4, NFT_MSG_NEWCHAIN, NFT_MSG_NEWRULE, NFT_MSG_NEWTABLE, NFTA_CHAIN_HOOK, NFTA_CHAIN_NAME,
    NFTA_CHAIN_TABLE, NFTA_CHAIN_TYPE, NFTA_HOOK_HOOKNUM, NFTA_HOOK_PRIORITY, NFTA_RULE_CHAIN,
    NFTA_RULE_EXPRESSIONS, NFTA_RULE_TABLE, NFTA_TABLE_NAME, NLM_F_APPEND, TABLE, header, transaction_by,
};
use crate::netlink::{NLM_F_CREATE, Request, Socket};
use crate::rule::{
    DADDR_OFFSET, DPORT_OFFSET, NFT_CMP_EQ, NFT_META_L4PROTO, NFT_PAYLOAD_NETWORK_HEADER,
    NFT_PAYLOAD_TRANSPORT_HEADER, NFT_REG_1, NFTA_DATA_VALUE, NFTA_IMMEDIATE_DATA, NFTA_IMMEDIATE_DREG,
    NFTA_PAYLOAD_BASE, NFTA_PAYLOAD_LEN, NFTA_PAYLOAD_OFFSET, SADDR_OFFSET, big, compare, expression, meta,
    payload,
};
use crate::tap::GUEST_RESOLVER;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketType};
use std::net::{Ipv4Addr, SocketAddrV4};
use tote_sys::Errno;

/// The address at which a container finds its resolver, as docker has it.
pub const RESOLVER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 11);

/// The port of DNS.
const PORT: u16 = 53;
const CHAIN: &str = "resolver";
const NF_INET_LOCAL_OUT: u32 = 3;
/// Before connections are tracked.
const RAW: i32 = -300;
const NFT_PAYLOAD_CSUM_INET: u32 = 1;
const NFTA_PAYLOAD_SREG: u16 = 5;
const NFTA_PAYLOAD_CSUM_TYPE: u16 = 6;
const NFTA_PAYLOAD_CSUM_OFFSET: u16 = 7;
/// Where the headers of TCP and UDP have the source's port.
const SPORT_OFFSET: u32 = 0;

/// A protocol with ports.
struct Protocol {
    number: u8,
    kind: SocketType,
    /// Where its header has the checksum.
    checksum: u32,
}

const PROTOCOLS: [Protocol; 2] = [
    Protocol {
        number: 17,
        kind: SocketType::DGRAM,
        checksum: 6,
    },
    Protocol {
        number: 6,
        kind: SocketType::STREAM,
        checksum: 16,
    },
];

/// Makes the sockets of a resolver in a container's network namespace, for UDP and for TCP, and leads the container there
/// from [`RESOLVER`].
///
/// # Errors
/// [`LinkError`].
pub fn resolver_sockets(network: BorrowedFd<'_>) -> Result<(OwnedFd, OwnedFd), LinkError> {
    let failed = |source| LinkError {
        attempt: "make the sockets by which the container resolves names".to_owned(),
        source,
    };
    let own = SocketAddrV4::new(RESOLVER, 0);
    let [udp, tcp] = PROTOCOLS.map(|protocol| open(network, protocol.kind, own).map_err(failed));
    let ((udp, udp_port), (tcp, tcp_port)) = (udp?, tcp?);
    let rules = rules([udp_port, tcp_port]);
    Socket::of_filter_inside(network)
        .and_then(|socket| transaction_by(&socket, rules))
        .map_err(|source| LinkError {
            attempt: "lead the container to its resolver".to_owned(),
            source,
        })?;
    Ok((udp, tcp))
}

/// Makes the sockets of a resolver for a guest whose link is led to a tap in this network namespace, for UDP and for TCP, at
/// [`GUEST_RESOLVER`].
///
/// # Errors
/// [`LinkError`].
pub fn guest_resolver_sockets(network: BorrowedFd<'_>) -> Result<(OwnedFd, OwnedFd), LinkError> {
    let own = SocketAddrV4::new(GUEST_RESOLVER, PORT);
    let [udp, tcp] = PROTOCOLS.map(|protocol| {
        let opened = open(network, protocol.kind, own).map(|(socket, _)| socket);
        opened.map_err(|source| LinkError {
            attempt: "make the sockets by which the guest resolves names".to_owned(),
            source,
        })
    });
    Ok((udp?, tcp?))
}

/// A socket of that address of the resolver, and the port that it has got.
fn open(network: BorrowedFd<'_>, kind: SocketType, own: SocketAddrV4) -> Result<(OwnedFd, u16), Errno> {
    let socket = tote_sys::socket_in(network, (AddressFamily::INET, kind, None))?;
    rustix::net::bind(&socket, &own)?;
    if kind == SocketType::STREAM {
        rustix::net::listen(&socket, 16)?;
    }
    let own: SocketAddrV4 = rustix::net::getsockname(&socket)?.try_into()?;
    Ok((socket, own.port()))
}

fn rules(ports: [u16; 2]) -> Vec<Request> {
    let own = header(NFPROTO_IPV4);
    let mut table = Request::new(NFT_MSG_NEWTABLE, &own).flags(NLM_F_CREATE);
    table.name(NFTA_TABLE_NAME, TABLE);
    let mut chain = Request::new(NFT_MSG_NEWCHAIN, &own).flags(NLM_F_CREATE);
    chain.name(NFTA_CHAIN_TABLE, TABLE);
    chain.name(NFTA_CHAIN_NAME, CHAIN);
    chain.nest(NFTA_CHAIN_HOOK, &[], |hook| {
        big(hook, NFTA_HOOK_HOOKNUM, NF_INET_LOCAL_OUT);
        hook.attribute(NFTA_HOOK_PRIORITY, &RAW.to_be_bytes());
    });
    chain.name(NFTA_CHAIN_TYPE, "filter");
    let mut requests = vec![table, chain];
    for (protocol, port) in PROTOCOLS.iter().zip(ports) {
        let there = (DADDR_OFFSET, DPORT_OFFSET, PORT, port);
        let back = (SADDR_OFFSET, SPORT_OFFSET, port, PORT);
        for (address, place, from, to) in [there, back] {
            let mut rule = Request::new(NFT_MSG_NEWRULE, &own).flags(NLM_F_CREATE | NLM_F_APPEND);
            rule.name(NFTA_RULE_TABLE, TABLE);
            rule.name(NFTA_RULE_CHAIN, CHAIN);
            rule.nest(NFTA_RULE_EXPRESSIONS, &[], |list| {
                payload(list, NFT_REG_1, (NFT_PAYLOAD_NETWORK_HEADER, address, 4));
                compare(list, NFT_CMP_EQ, &RESOLVER.octets());
                meta(list, NFT_META_L4PROTO);
                compare(list, NFT_CMP_EQ, &[protocol.number]);
                payload(list, NFT_REG_1, (NFT_PAYLOAD_TRANSPORT_HEADER, place, 2));
                compare(list, NFT_CMP_EQ, &from.to_be_bytes());
                store(list, (place, protocol.checksum), to);
            });
            requests.push(rule);
        }
    }
    requests
}

/// Writes a port into the packet, and makes its checksum right again.
fn store(list: &mut Request, (place, checksum): (u32, u32), port: u16) {
    expression(list, "immediate", |data| {
        big(data, NFTA_IMMEDIATE_DREG, NFT_REG_1);
        data.nest(NFTA_IMMEDIATE_DATA, &[], |nested| {
            nested.attribute(NFTA_DATA_VALUE, &port.to_be_bytes());
        });
    });
    expression(list, "payload", |data| {
        big(data, NFTA_PAYLOAD_SREG, NFT_REG_1);
        big(data, NFTA_PAYLOAD_BASE, NFT_PAYLOAD_TRANSPORT_HEADER);
        big(data, NFTA_PAYLOAD_OFFSET, place);
        big(data, NFTA_PAYLOAD_LEN, 2);
        big(data, NFTA_PAYLOAD_CSUM_TYPE, NFT_PAYLOAD_CSUM_INET);
        big(data, NFTA_PAYLOAD_CSUM_OFFSET, checksum);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpStream, UdpSocket};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "both ends are this test's")]
    fn packets_to_the_port_of_dns_come_to_the_sockets() {
        let Ok(network) = tote_sys::network_namespace(None) else {
            println!("skipped: needs root, for a network namespace");
            return;
        };
        let (udp, tcp) = resolver_sockets(network.as_fd()).unwrap();
        let inside = |kind| tote_sys::socket_in(network.as_fd(), (AddressFamily::INET, kind, None)).unwrap();
        // A program that wants the port for itself gets it.
        for kind in [SocketType::DGRAM, SocketType::STREAM] {
            rustix::net::bind(inside(kind), &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, PORT)).unwrap();
        }
        let there = SocketAddrV4::new(RESOLVER, PORT);
        let (own, client) = (UdpSocket::from(udp), inside(SocketType::DGRAM));
        rustix::net::connect(&client, &there).unwrap();
        let client = UdpSocket::from(client);
        client.send(b"who").unwrap();
        let mut bytes = [0; 8];
        let (length, from) = own.recv_from(&mut bytes).unwrap();
        own.send_to(&bytes[..length], from).unwrap();
        assert_eq!(client.recv(&mut bytes).unwrap(), 3);

        let client = inside(SocketType::STREAM);
        rustix::net::connect(&client, &there).unwrap();
        let mut client = TcpStream::from(client);
        let (mut own, _) = std::net::TcpListener::from(tcp).accept().unwrap();
        client.write_all(b"what").unwrap();
        own.read_exact(&mut bytes[..4]).unwrap();
        own.write_all(&vec![7; 100_000]).unwrap();
        let mut all = vec![0; 100_000];
        client.read_exact(&mut all).unwrap();
        assert!(all.iter().all(|byte| *byte == 7));
    }
}
