//! Peers that begin to speak to a container under an egress policy: the container may answer them.
//!
//! A source address is what the sender says. So a peer outside of the link's network counts only if the machine itself has sent its packet on:
//! because a published port led it here, or because a program of the machine's began. Such packets have a mark, which frames of other containers lose
//! on their way out of their network namespaces. A datagram may have come with a false source all the same, so of the special addresses only
//! those count that lie in a network to which the machine has a route beside the default one. What tracks connections cannot be asked here: nf_tables has no `ct` in the family netdev.
//! A member of the link's network counts with any address of that, but for the machine's.

use crate::clients::CLIENT_MARK;
use crate::egress_match as part;
use crate::egress_parts::{EgressLink, FLOWS, IDLE_OTHER, Rules, SENDERS};
use crate::egress_rule::{self as rule, Family};
use crate::egress_verdict as verdict;
use crate::link_state::{UPLINK, index_of};
use crate::netlink::Socket;
use crate::route::{own_networks, routes};
use crate::special::{SPECIAL, is_in};
use crate::subnet::Address;
use crate::transport::Transport;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// How long a peer that begins to speak is remembered until the container answers.
const BEGUN: Duration = Duration::from_secs(60);
/// The chain that remembers a peer.
const BEGINS: &str = "begins";
/// The most networks of the machine's that are told from others.
const MOST_NEAR: usize = 256;
/// Addresses of a link alone, metadata of clouds among them. No sender is one of these.
const OF_A_LINK: [(IpAddr, u8); 2] = [
    (IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    (IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
];

/// Adds the chain that remembers the sender of a packet. A reset that refuses a packet of the container's own begins nothing.
pub(crate) fn begins(family: &Family, rules: &mut Rules<'_>) {
    let chain = family.chain(BEGINS);
    rules.chain(&chain, None);
    rules.add(&chain, |list| {
        rule::protocol(list, Transport::Tcp.number());
        rule::begins_connection(list);
        family.flow_in(list);
        rule::remember(list, &family.set(FLOWS), BEGUN);
    });
    for protocol in [Transport::Udp, Transport::Sctp] {
        rules.add(&chain, |list| {
            rule::protocol(list, protocol.number());
            family.flow_in(list);
            rule::remember(list, &family.set(FLOWS), IDLE_OTHER);
        });
    }
    rules.add(&chain, |list| {
        family.echo_request(list);
        rule::remember(list, &family.set(FLOWS), BEGUN);
    });
}

/// Adds the chain that remembers senders with a special address in a network of the machine's, and lets packets of all others with a
/// special address pass without that.
pub(crate) fn senders(family: &Family, rules: &mut Rules<'_>) {
    let chain = family.chain(SENDERS);
    rules.chain(&chain, None);
    let pass = |network: IpAddr, prefix: u8, rules: &mut Rules<'_>| {
        rules.add(&chain, |list| {
            family.source_within(list, network, prefix);
            verdict::accept(list);
        });
    };
    let of_family = |(network, _): &&(IpAddr, u8)| family.is_of(*network);
    for (network, prefix) in OF_A_LINK.iter().filter(of_family) {
        pass(*network, *prefix, rules);
    }
    let Some(near) = near(family) else { return };
    for (network, prefix) in near {
        rules.add(&chain, |list| {
            family.source_within(list, network, prefix);
            verdict::goto(list, &family.chain(BEGINS));
        });
    }
    for (network, prefix) in SPECIAL.iter().filter(of_family) {
        pass(*network, *prefix, rules);
    }
}

/// Returns the networks of special addresses to which the machine has a route; `None` in the namespace for a user's networks, which does not
/// have the machine's routes.
fn near(family: &Family) -> Option<Vec<(IpAddr, u8)>> {
    let socket = match Socket::new() {
        Ok(socket) => socket,
        // Nothing is known to be near: the rules themselves need such a socket as well.
        Err(_) => return Some(Vec::new()),
    };
    if index_of(&socket, UPLINK).is_ok() {
        return None;
    }
    let mut near = if family.is_of(Ipv4Addr::UNSPECIFIED.into()) {
        networks_of::<Ipv4Addr>(&socket)
    } else {
        networks_of::<Ipv6Addr>(&socket)
    };
    near.retain(|(network, prefix)| {
        let is_in = |(special, bits): &(IpAddr, u8)| bits <= prefix && is_in(*network, *special, *bits);
        SPECIAL.iter().any(is_in)
    });
    near.sort_unstable();
    near.dedup();
    near.truncate(MOST_NEAR);
    Some(near)
}

/// The networks of the machine's routes, and its own addresses. Without an answer of the kernel's nothing is known to be near.
fn networks_of<A: Address>(socket: &Socket) -> Vec<(IpAddr, u8)> {
    let routes = routes::<A>(socket).unwrap_or_default();
    let own = own_networks::<A>(socket).unwrap_or_default();
    let all = routes.into_iter().map(|route| route.to).chain(own);
    all.map(|network| (network.address().into(), network.prefix()))
        .filter(|(address, _)| !address.is_loopback())
        .collect()
}

/// Looks at what goes to the container by a link. What is for all hosts of the link, or for another one, begins nothing: the sender does not mean
/// the container.
pub(crate) fn to_container(family: &Family, link: &EgressLink, chain: &str, rules: &mut Rules<'_>) {
    let own = link
        .addresses
        .iter()
        .filter(|(address, _)| family.is_of(*address));
    for (own, prefix) in own {
        // A peer that is known already stays so while it speaks.
        for protocol in [Transport::Udp, Transport::Sctp] {
            rules.add(chain, |list| {
                family.to(list, link.mac, *own);
                rule::protocol(list, protocol.number());
                family.flow_in(list);
                rule::lookup_registers(list, &family.set(FLOWS));
                rule::remember(list, &family.set(FLOWS), IDLE_OTHER);
                verdict::accept(list);
            });
        }
        rules.add(chain, |list| {
            family.to(list, link.mac, *own);
            part::is_not_of(list, Transport::Tcp.number());
            part::marked(list, CLIENT_MARK);
            verdict::jump(list, &family.chain(SENDERS));
        });
        rules.add(chain, |list| {
            family.to(list, link.mac, *own);
            part::marked(list, CLIENT_MARK);
            verdict::goto(list, &family.chain(BEGINS));
        });
        rules.add(chain, |list| {
            family.to(list, link.mac, *own);
            family.source_within(list, *own, *prefix);
            for gateway in link.gateways.iter().filter(|gateway| family.is_of(**gateway)) {
                family.source_is_not(list, *gateway);
            }
            verdict::goto(list, &family.chain(BEGINS));
        });
    }
}
