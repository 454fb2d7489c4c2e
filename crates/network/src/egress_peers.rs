//! Peers that begin to speak to a container under an egress policy: the container may answer them.
//!
//! A source address is what the sender says. So a peer outside of the link's network counts only if the machine itself has sent its packet on:
//! because a published port led it here, or because a program of the machine's began. Such packets have a mark, which frames of other containers lose
//! on their way out of their network namespaces. What tracks connections cannot be asked here: nf_tables has no `ct` in the family netdev.
//! A member of the link's network counts with any address of that, but for the machine's.

use crate::clients::CLIENT_MARK;
use crate::egress_match as part;
use crate::egress_parts::{EgressLink, FLOWS, IDLE_OTHER, Rules};
use crate::egress_rule::{self as rule, Family};
use crate::egress_verdict as verdict;
use crate::transport::Transport;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

/// How long a peer that begins to speak is remembered until the container answers.
const BEGUN: Duration = Duration::from_secs(60);
/// The chain that remembers a peer.
const BEGINS: &str = "begins";
/// Addresses of a link alone, metadata of clouds among them. Without a handshake nothing says that such a sender is one.
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
        for (network, prefix) in OF_A_LINK.iter().filter(|(network, _)| family.is_of(*network)) {
            rules.add(chain, |list| {
                family.to(list, link.mac, *own);
                part::is_not_of(list, Transport::Tcp.number());
                part::marked(list, CLIENT_MARK);
                family.source_within(list, *network, *prefix);
                verdict::accept(list);
            });
        }
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
