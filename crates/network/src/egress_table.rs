//! The table of an egress policy: its sets, chains and rules.
//!
//! Some of them are about a family of addresses, others belong to a link. A link may come later than the others: its rules are added
//! in one transaction, while the sets keep what they have, so that an address which a name has opened is open by each link.

use crate::Transport;
use crate::egress::{Answerer, Egress, MOST_NOTED, NOTED, Place, REFUSED};
use crate::egress_arp::{arp, finds};
use crate::egress_kept::used_of;
use crate::egress_match as part;
use crate::egress_neighbour::neighbours;
use crate::egress_parts::{EgressLink, FLOWS, IDLE_OTHER, Rules};
use crate::egress_peers::{begins, senders, to_container};
use crate::egress_rule::{self as rule, Family};
use crate::egress_verdict as verdict;
use crate::netlink::Request;
use crate::nft_table::{self as nft, Set};
use crate::special::SPECIAL;
use std::net::IpAddr;
use std::time::Duration;

/// The most addresses that names have in one set.
pub(crate) const MOST_ADDRESSES: u32 = 4096;
/// The most connections that are remembered.
pub(crate) const MOST_FLOWS: u32 = 16384;
/// How long a connection of TCP is remembered in which the container says nothing.
const IDLE_TCP: Duration = Duration::from_secs(2 * 3600);
/// The protocols with ports, and how long a connection of each is remembered.
pub(crate) const WITH_PORTS: [(Transport, Duration); 3] = [
    (Transport::Tcp, IDLE_TCP),
    (Transport::Udp, IDLE_OTHER),
    (Transport::Sctp, IDLE_OTHER),
];
pub(crate) const POLICY: &str = "policy";
const ACCEPTED: &str = "accepted";
/// The networks of the container's links, whose other members are closed.
const NETWORKS: &str = "networks";
pub(crate) const NOTES: &str = "noted";

/// The sources of answers about names.
pub(crate) const ANSWERERS: [Answerer; 2] = [Answerer::Server, Answerer::Records];

pub(crate) fn incoming(link: &EgressLink) -> String {
    format!("from-{}", link.outside)
}

fn outgoing(link: &EgressLink) -> String {
    format!("to-{}", link.outside)
}

pub(crate) fn set_of(answerer: Answerer, service: usize, family: &Family) -> String {
    family.set(&match answerer {
        Answerer::Server => format!("names-{service}"),
        Answerer::Records => format!("members-{service}"),
    })
}

impl Egress {
    /// The requests that make the table anew, with the rules of these links.
    pub(crate) fn whole(&self, links: &[EgressLink]) -> Vec<Request> {
        let mut rules = Rules {
            table: &self.table,
            is_fresh: true,
            requests: nft::fresh_table(&self.table).to_vec(),
        };
        self.families
            .iter()
            .for_each(|family| self.base(family, &mut rules));
        self.add_links(links, links.iter(), &mut rules);
        rules.requests
    }

    /// The requests that add the rules of some links to a table which has those of the others, and lacks these families.
    pub(crate) fn further(
        &self,
        all: &[EgressLink],
        (lacking, links): (&[&Family], &[EgressLink]),
    ) -> Vec<Request> {
        let mut rules = Rules {
            table: &self.table,
            is_fresh: false,
            requests: Vec::new(),
        };
        lacking.iter().for_each(|family| self.base(family, &mut rules));
        self.add_links(all, links.iter(), &mut rules);
        rules.requests
    }

    /// Adds the rules about a family of addresses, which are those of every link.
    fn base(&self, family: &Family, rules: &mut Rules<'_>) {
        rules.requests.extend(self.sets(family));
        for name in [NETWORKS, POLICY, ACCEPTED, REFUSED] {
            rules.chain(&family.chain(name), None);
        }
        finds(family, rules);
        begins(family, rules);
        senders(family, rules);
        self.renewing(family, rules);
        accepted(family, rules);
        refused(family, rules);
        self.policy(family, rules);
    }

    /// Adds the rules of links, and has the networks of all links closed.
    fn add_links<'a>(
        &self,
        all: &[EgressLink],
        links: impl Iterator<Item = &'a EgressLink>,
        rules: &mut Rules<'_>,
    ) {
        for family in self.families {
            let chain = family.chain(NETWORKS);
            rules.chain(&chain, None);
            let networks = all.iter().flat_map(|link| &link.addresses);
            refuse_these(family, networks, &chain, rules);
        }
        for link in links {
            let hook = |hook, is_drop| Some((hook, link.outside.as_str(), is_drop));
            rules.chain(&incoming(link), hook(nft::INGRESS, true));
            rules.chain(&outgoing(link), hook(nft::EGRESS, false));
            for family in self.families {
                from_container(family, link, &incoming(link), rules);
                self.renewed_by(family, (link, &outgoing(link)), rules);
                to_container(family, link, &outgoing(link), rules);
            }
        }
    }

    fn sets(&self, family: &Family) -> Vec<Request> {
        let set = |name: String, key: &[u32], is_dynamic, size| {
            let set = Set {
                name: &name,
                key,
                key_len: family.key_len(key),
                is_dynamic,
                size,
            };
            nft::set(&self.table, &set)
        };
        let mut sets = vec![
            set(family.set(FLOWS), &family.flow_key(), true, MOST_FLOWS),
            set(family.set(NOTES), &family.note_key(), true, MOST_NOTED),
        ];
        for service in 0..self.services.len() {
            for answerer in ANSWERERS {
                let name = set_of(answerer, service, family);
                sets.push(set(name, &[family.address_type], false, MOST_ADDRESSES));
            }
        }
        sets.extend(self.used_sets(family));
        sets
    }

    /// Adds the rules about destinations, for packets whose source is right.
    fn policy(&self, family: &Family, rules: &mut Rules<'_>) {
        let chain = family.chain(POLICY);
        // What was begun before goes on, whatever names mean now.
        for (protocol, idle) in WITH_PORTS {
            rules.add(&chain, |list| {
                rule::protocol(list, protocol.number());
                if protocol == Transport::Tcp {
                    // The container does not answer by beginning a connection.
                    part::asks_nothing(list);
                }
                family.flow_out(list);
                rule::lookup_registers(list, &family.set(FLOWS));
                rule::remember(list, &family.set(FLOWS), idle);
                verdict::accept(list);
            });
        }
        rules.add(&chain, |list| {
            family.echo_reply(list);
            rule::lookup_registers(list, &family.set(FLOWS));
            verdict::accept(list);
        });
        if self.is_log {
            note(family, &chain, rules);
            rules.add(&chain, verdict::accept);
            return;
        }
        let (meant, others): (Vec<_>, Vec<_>) = self.places.iter().partition(|place| place.is_meant());
        for place in meant {
            allow_place(family, place, &chain, rules);
        }
        self.allow_names(Answerer::Records, family, &chain, rules);
        refuse_these(family, SPECIAL.iter(), &chain, rules);
        rules.add(&chain, |list| verdict::jump(list, &family.chain(NETWORKS)));
        rules.add(&chain, |list| {
            rule::own_destination(list);
            verdict::goto(list, &family.chain(REFUSED));
        });
        for place in others {
            allow_place(family, place, &chain, rules);
        }
        self.allow_names(Answerer::Server, family, &chain, rules);
        rules.add(&chain, |list| verdict::goto(list, &family.chain(REFUSED)));
    }

    fn allow_names(&self, answerer: Answerer, family: &Family, chain: &str, rules: &mut Rules<'_>) {
        for (number, service) in self.services.iter().enumerate() {
            let used = self.is_renewed().then(|| used_of(answerer, number, family));
            for set in std::iter::once(set_of(answerer, number, family)).chain(used) {
                for matched in service.matches() {
                    rules.add(chain, |list| {
                        rule::service(list, matched);
                        family.lookup_destination(list, &set);
                        verdict::goto(list, &family.chain(ACCEPTED));
                    });
                }
            }
        }
    }
}

/// Remembers a connection that the container begins. Where no room is left for that, it may go on as long as the policy
/// allows its beginning.
fn accepted(family: &Family, rules: &mut Rules<'_>) {
    let chain = family.chain(ACCEPTED);
    for (protocol, idle) in WITH_PORTS {
        rules.add(&chain, |list| {
            rule::protocol(list, protocol.number());
            family.flow_out(list);
            rule::remember(list, &family.set(FLOWS), idle);
        });
    }
    rules.add(&chain, verdict::accept);
}

/// Refuses a packet at once, so that no program waits.
fn refused(family: &Family, rules: &mut Rules<'_>) {
    let chain = family.chain(REFUSED);
    note(family, &chain, rules);
    rules.add(&chain, |list| {
        rule::protocol(list, Transport::Tcp.number());
        verdict::reset(list);
    });
    rules.add(&chain, verdict::prohibited);
}

/// Notes a destination, where there is room. Protocols without ports have port 0.
fn note(family: &Family, chain: &str, rules: &mut Rules<'_>) {
    for (protocol, _) in WITH_PORTS {
        rules.add(chain, |list| {
            rule::protocol(list, protocol.number());
            family.note_service(list);
            rule::note(list, &family.set(NOTES), NOTED);
        });
    }
    rules.add(chain, |list| {
        family.without_ports(list);
        rule::note(list, &family.set(NOTES), NOTED);
    });
}

fn allow_place(family: &Family, place: &Place, chain: &str, rules: &mut Rules<'_>) {
    if !family.is_of(place.address) {
        return;
    }
    for matched in place.service.matches() {
        rules.add(chain, |list| {
            rule::service(list, matched);
            family.destination(list, place.address, place.prefix);
            verdict::goto(list, &family.chain(ACCEPTED));
        });
    }
}

/// Lets packets go on that come from the container with its own addresses; the chain drops the rest.
fn from_container(family: &Family, link: &EgressLink, chain: &str, rules: &mut Rules<'_>) {
    for (address, prefix) in link
        .addresses
        .iter()
        .filter(|(address, _)| family.is_of(*address))
    {
        match address {
            IpAddr::V4(own) => arp(link, (*own, *prefix), chain, rules),
            IpAddr::V6(own) => neighbours(link, (*own, *prefix), chain, rules),
        }
        rules.add(chain, |list| {
            family.from(list, link.mac, *address);
            verdict::goto(list, &family.chain(POLICY));
        });
    }
}

/// Refuses what is for these networks.
fn refuse_these<'a>(
    family: &Family,
    networks: impl Iterator<Item = &'a (IpAddr, u8)>,
    chain: &str,
    rules: &mut Rules<'_>,
) {
    for (address, prefix) in networks.filter(|(address, _)| family.is_of(*address)) {
        rules.add(chain, |list| {
            family.destination(list, *address, *prefix);
            verdict::goto(list, &family.chain(REFUSED));
        });
    }
}
