//! Packets of a network's members that the machine itself takes, or passes on: none that speaks for another host.
//!
//! The machine believes what comes by a link of its own: a source address, a redirection of a route, the longest packet of a path. A member
//! has raw sockets by default, and so could claim all of it for any address. A rule in front of the route (the hook `prerouting`) would drop frames between members
//! as well, where a kernel asks the packet filter about these (`br_netfilter`), and members may be routers among each other.
//! So the rules are where packets are the machine's own by then, and whole.

use crate::Bridge;
use crate::rule::Expression::{
    self, Accept, Drop, From, Icmp, Icmp6, Ipv4, Ipv6, NotFrom, NotIpv4, NotQuoted, NotQuoted6, NotSource,
    NotSource6, Source, Source6,
};
use crate::subnet::{LINK_LOCAL, Prefix};
use std::net::Ipv6Addr;

/// Errors of ICMP that end connections or shorten packets to the destination that they quote: unreachable, quench, time, parameter.
const ERRORS: [u8; 4] = [3, 4, 11, 12];
const REDIRECT: u8 = 5;
/// Errors of ICMPv6 of the same kinds (RFC 4443): unreachable, packet too big, time, parameter.
const ERRORS6: [u8; 4] = [1, 2, 3, 4];
/// The question of neighbours for each other (RFC 4861).
const SOLICITATION: u8 = 135;
/// Messages of routers, which no member is to the machine (RFC 4861).
const ROUTER6: [u8; 2] = [134, 137];

/// The rules for what comes by a bridge to the machine itself, without the ones that an internal network adds.
pub(crate) fn here(bridge: &Bridge<'_>) -> Vec<Vec<Expression>> {
    // The chain sees all that is for the machine: what comes by other links leaves it at once.
    let mut rules = vec![vec![NotFrom(bridge.name.to_owned()), Accept]];
    rules.push(vec![Ipv4, NotSource(bridge.subnet), Drop]);
    rules.push(vec![Ipv4, Source(Prefix::of_one(bridge.gateway)), Drop]);
    match bridge.ipv6 {
        None => rules.push(vec![NotIpv4, Drop]),
        Some(ipv6) => {
            // A host asks without an address whether another one has what is to become its own.
            let unspecified = Source6(Prefix::of_one(Ipv6Addr::UNSPECIFIED));
            rules.push(vec![Ipv6, unspecified, Icmp6(SOLICITATION), Accept]);
            rules.push(vec![Ipv6, NotSource6(ipv6.subnet), NotSource6(LINK_LOCAL), Drop]);
            rules.push(vec![Ipv6, Source6(Prefix::of_one(ipv6.gateway)), Drop]);
        }
    }
    rules.extend(untrue(bridge, &[]));
    rules
}

/// The rules for what comes by a bridge and leads on to other links. Sources are looked at before.
pub(crate) fn onward(bridge: &Bridge<'_>) -> Vec<Vec<Expression>> {
    untrue(bridge, &[From(bridge.name.to_owned())])
}

/// The rules that drop messages about what is not a member's to tell: routes, and errors on the way to addresses outside of the network.
fn untrue(bridge: &Bridge<'_>, first: &[Expression]) -> Vec<Vec<Expression>> {
    let rule = |rest: Vec<Expression>| [first, &rest, &[Drop]].concat();
    let errors = ERRORS.map(|kind| rule(vec![Ipv4, Icmp(kind), NotQuoted(bridge.subnet)]));
    let mut rules = vec![rule(vec![Ipv4, Icmp(REDIRECT)])];
    rules.extend(errors);
    if let Some(ipv6) = bridge.ipv6 {
        rules.extend(ROUTER6.map(|kind| rule(vec![Ipv6, Icmp6(kind)])));
        let outside = [NotQuoted6(ipv6.subnet), NotQuoted6(LINK_LOCAL)];
        rules.extend(ERRORS6.map(|kind| rule([&[Ipv6, Icmp6(kind)], &outside[..]].concat())));
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bridge6, take_down};

    fn bridge(internal: bool, has_ipv6: bool) -> Bridge<'static> {
        Bridge {
            name: "tote-one",
            alias: "tote-one",
            gateway: "10.210.0.1".parse().unwrap(),
            subnet: "10.210.0.0/16".parse().unwrap(),
            ipv6: has_ipv6.then(|| Bridge6 {
                gateway: "fd00:77::1".parse().unwrap(),
                subnet: "fd00:77::/64".parse().unwrap(),
            }),
            internal,
            masquerade: true,
            mtu: None,
            alone: false,
        }
    }

    /// Every kind of network, by whether it is internal and has IPv6.
    const KINDS: [(bool, bool); 4] = [(false, false), (false, true), (true, false), (true, true)];

    #[test]
    fn sources_and_errors_are_looked_at_in_every_kind_of_network() {
        for (internal, has_ipv6) in KINDS {
            let bridge = bridge(internal, has_ipv6);
            let rules = here(&bridge);
            let drops = |rule: &[Expression]| rules.contains(&[rule, &[Drop]].concat());
            assert!(drops(&[Ipv4, NotSource(bridge.subnet)]) && drops(&[Ipv4, Icmp(REDIRECT)]));
            for kind in ERRORS {
                assert!(drops(&[Ipv4, Icmp(kind), NotQuoted(bridge.subnet)]));
            }
            let Some(ipv6) = bridge.ipv6 else {
                assert!(drops(&[NotIpv4]));
                continue;
            };
            assert!(drops(&[Ipv6, NotSource6(ipv6.subnet), NotSource6(LINK_LOCAL)]));
            for kind in ROUTER6 {
                assert!(drops(&[Ipv6, Icmp6(kind)]));
            }
            // What comes by other links is not looked at.
            assert_eq!(rules[0], [NotFrom("tote-one".to_owned()), Accept]);
            assert!(
                onward(&bridge)
                    .iter()
                    .all(|rule| rule[0] == From("tote-one".to_owned()))
            );
        }
    }

    /// The kernel refuses a rule that it does not understand, and the whole network with it.
    #[test]
    fn the_kernel_takes_the_rules_of_every_kind_of_network() {
        let Ok(network) = tote_sys::network_namespace(None) else {
            println!("skipped: needs root, for a network namespace");
            return;
        };
        let dir = tempfile::tempdir().unwrap();
        let note = dir.path().join("note");
        // The namespace is that of a thread, which ends.
        std::thread::spawn(move || {
            let network = rustix::fd::AsFd::as_fd(&network);
            rustix::thread::move_into_link_name_space(network, None).unwrap();
            for (internal, has_ipv6) in KINDS {
                let bridge = bridge(internal, has_ipv6);
                crate::bring_up(&bridge, &note).unwrap();
                for setting in ["accept_redirects", "accept_source_route"] {
                    let path = format!("/proc/sys/net/ipv4/conf/tote-one/{setting}");
                    assert_eq!(std::fs::read_to_string(path).unwrap().trim(), "0");
                }
                take_down(("tote-one", "tote-one", bridge.subnet), &note, true).unwrap();
            }
        })
        .join()
        .unwrap();
    }
}
