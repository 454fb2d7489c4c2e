//! The egress policy of a container: where packets from its links may go.
//!
//! The rules are at the host's end of each link, in a table of the packet filter that is the container's own: whatever rights
//! a program in the container has over the container's network namespace, its packets come by there. A chain with the policy
//! to drop takes what comes from the container: IPv4 and IPv6 with the container's own addresses pass to the rules about
//! destinations, ARP and the messages by which hosts of a link find each other go on, all else is dropped. A second chain sees what goes to the container, and remembers who
//! has begun to speak to it, so that answers find their way.
//!
//! Nothing here grows without a bound: each set has a size, and what packets put into one has a lifetime.

use crate::egress_neighbour::neighbours;
use crate::egress_rule::{self as rule, Family, V4, V6};
use crate::filter::{NFT_MSG_NEWRULE, NLM_F_APPEND, header, transaction};
use crate::link::{LinkError, LinkRules};
use crate::link_state::index_of;
use crate::mac::Mac;
use crate::netlink::{NLM_F_CREATE, Request, Socket};
use crate::nft_table::{self as nft, NETDEV, Set};
use crate::noted::Noted;
use crate::special::SPECIAL;
use crate::{Transport, filter};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use tote_sys::Errno;

/// The most addresses that names have in one set.
const MOST_ADDRESSES: u32 = 4096;
/// The most connections that are remembered.
const MOST_FLOWS: u32 = 16384;
/// How long a connection is remembered in which the container says nothing: TCP, and all else.
const IDLE_TCP: Duration = Duration::from_secs(2 * 3600);
const IDLE_OTHER: Duration = Duration::from_secs(180);
/// The protocols with ports, and how long a connection of each is remembered.
const WITH_PORTS: [(Transport, Duration); 3] = [
    (Transport::Tcp, IDLE_TCP),
    (Transport::Udp, IDLE_OTHER),
    (Transport::Sctp, IDLE_OTHER),
];
/// How long a peer that begins to speak is remembered until the container answers.
const BEGUN: Duration = Duration::from_secs(60);
/// The most destinations that are noted, of those that were refused or, of a policy that only logs, asked for.
pub(crate) const MOST_NOTED: u32 = 1024;
/// How long they are noted.
pub(crate) const NOTED: Duration = Duration::from_secs(24 * 3600);

/// A kind of service: a protocol and a port, each of which may be any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Service {
    /// `None` is TCP and UDP where a port is given, and every protocol otherwise.
    pub protocol: Option<Transport>,
    /// `None` is every port.
    pub port: Option<u16>,
}

impl Service {
    /// The protocols and ports to look for, one rule each.
    fn matches(self) -> Vec<(Option<Transport>, Option<u16>)> {
        match (self.protocol, self.port) {
            (None, Some(port)) => [Transport::Tcp, Transport::Udp]
                .map(|protocol| (Some(protocol), Some(port)))
                .to_vec(),
            other => vec![other],
        }
    }
}

/// Addresses that a policy names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// An address of the network.
    pub address: IpAddr,
    /// The length of the network's prefix, in bits.
    pub prefix: u8,
    /// The protocol and the port there.
    pub service: Service,
}

impl Place {
    /// Whether it opens addresses that only a policy that means them may open: it is one address, or lies within a range
    /// of [`SPECIAL`]. `0.0.0.0/0` names everything and means none of them.
    fn is_meant(&self) -> bool {
        let whole = if self.address.is_ipv4() { 32 } else { 128 };
        self.prefix == whole
            || SPECIAL.iter().any(|(address, prefix)| {
                *prefix <= self.prefix && crate::special::is_in(self.address, *address, *prefix)
            })
    }
}

/// An egress policy as rules: a table of the packet filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Egress {
    pub(crate) table: String,
    places: Vec<Place>,
    services: Vec<Service>,
    is_log: bool,
    pub(crate) families: &'static [Family],
}

const ONLY_V4: [Family; 1] = [V4];
const BOTH: [Family; 2] = [V4, V6];

/// The source of an answer about a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Answerer {
    /// A server's answer: addresses that only a policy that names them opens stay closed.
    Server,
    /// The records of networks: the address is that of a container.
    Records,
}

/// The host's end of a link, as the rules know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressLink {
    /// The name of the host's end.
    pub outside: String,
    /// The hardware address of the container's end.
    pub mac: Mac,
    /// The container's addresses, each with the length of its network's prefix.
    pub addresses: Vec<(IpAddr, u8)>,
}

impl Egress {
    /// The policy of the container of that id, which opens these places at once, and for names the addresses that
    /// [`Egress::admit`] adds to a service later. With `is_log` nothing is refused, and destinations are noted. A container that
    /// has no IPv6 address needs no rules about them.
    #[must_use]
    pub fn new(
        id: &str,
        (places, services): (Vec<Place>, Vec<Service>),
        (is_log, has_ipv6): (bool, bool),
    ) -> Self {
        Self {
            table: table_of(id),
            places,
            services,
            is_log,
            families: if has_ipv6 { &BOTH } else { &ONLY_V4 },
        }
    }

    /// The places where it has names' addresses, by their number.
    #[must_use]
    pub fn services(&self) -> &[Service] {
        &self.services
    }

    /// The rules at the host's ends of these links, in place of those that the container had.
    #[must_use]
    pub fn rules(&self, links: &[EgressLink]) -> LinkRules {
        LinkRules(self.requests(links))
    }

    /// Whether the rules of all these links are there.
    fn is_whole(&self, links: &[EgressLink]) -> Result<bool, Errno> {
        for link in links {
            if !nft::has_chain(&self.table, &incoming(link))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Makes the rules again where another program has flushed them, for those of these links that are there. Gives whether
    /// that was so; what names had opened is closed then.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn keep(&self, links: &[EgressLink]) -> Result<bool, LinkError> {
        let look = |source| LinkError {
            attempt: "look for the rules of the container's egress policy".to_owned(),
            source,
        };
        let socket = Socket::new().map_err(look)?;
        let mut there = Vec::new();
        for link in links {
            match index_of(&socket, &link.outside) {
                Ok(_) => there.push(link.clone()),
                Err(Errno::NODEV) => {}
                Err(errno) => return Err(look(errno)),
            }
        }
        if there.is_empty() || self.is_whole(&there).map_err(look)? {
            return Ok(false);
        }
        self.rules(&there).set_up().map(|()| true)
    }

    /// Opens an address for a service, as long as that lasts.
    ///
    /// # Errors
    /// The kernel's: [`Errno::NOENT`] where another program has flushed the rules, [`Errno::NFILE`] where names have had too
    /// many addresses.
    pub fn admit(
        &self,
        (service, answerer): (usize, Answerer),
        address: IpAddr,
        lifetime: Duration,
    ) -> Result<(), Errno> {
        let family = self.families.iter().find(|family| family.is_of(address));
        let Some(family) = family.filter(|_| !self.is_log) else {
            return Ok(());
        };
        let set = set_of(answerer, service, family);
        nft::put_element(&self.table, &set, &rule::octets(address), lifetime)
    }

    /// The destinations that were refused, or of a policy that only logs all, in no order.
    ///
    /// # Errors
    /// The kernel's.
    pub fn noted(&self) -> Result<Vec<Noted>, Errno> {
        let mut noted = Vec::new();
        for family in self.families {
            let messages = match nft::elements(&self.table, &family.set(NOTES)) {
                // A container without an IPv6 address has no such set.
                Err(Errno::NOENT) if family.is_of(Ipv6Addr::UNSPECIFIED.into()) => Vec::new(),
                messages => messages?,
            };
            noted.extend(messages.iter().flat_map(Noted::read_all));
        }
        Ok(noted)
    }

    fn requests(&self, links: &[EgressLink]) -> Vec<Request> {
        let mut requests = nft::fresh_table(&self.table).to_vec();
        for family in self.families {
            requests.extend(self.sets(family));
            let chains = [POLICY, ACCEPTED, REFUSED].map(|name| family.chain(name));
            requests.extend(chains.map(|chain| nft::chain(&self.table, &chain, None)));
        }
        for link in links {
            let hook = |hook, is_drop| Some((hook, link.outside.as_str(), is_drop));
            let own = [
                nft::chain(&self.table, &incoming(link), hook(nft::INGRESS, true)),
                nft::chain(&self.table, &outgoing(link), hook(nft::EGRESS, false)),
            ];
            requests.extend(own);
        }
        let mut rules = Rules {
            table: &self.table,
            requests,
        };
        for family in self.families {
            accepted(family, &mut rules);
            refused(family, &mut rules);
            self.policy((family, links), &mut rules);
            for link in links {
                from_container(family, link, &incoming(link), &mut rules);
                to_container(family, &outgoing(link), &mut rules);
            }
        }
        rules.requests
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
            for answerer in [Answerer::Server, Answerer::Records] {
                let name = set_of(answerer, service, family);
                sets.push(set(name, &[family.address_type], false, MOST_ADDRESSES));
            }
        }
        sets
    }

    /// Adds the rules about destinations, for packets whose source is right.
    fn policy(&self, (family, links): (&Family, &[EgressLink]), rules: &mut Rules<'_>) {
        let chain = family.chain(POLICY);
        // What was begun before goes on, whatever names mean now.
        for (protocol, idle) in WITH_PORTS {
            rules.add(&chain, |list| {
                rule::protocol(list, protocol.number());
                family.flow_out(list);
                rule::lookup_registers(list, &family.set(FLOWS));
                rule::remember(list, &family.set(FLOWS), idle);
                rule::accept(list);
            });
        }
        rules.add(&chain, |list| {
            family.echo_reply(list);
            rule::lookup_registers(list, &family.set(FLOWS));
            rule::accept(list);
        });
        if self.is_log {
            note(family, &chain, rules);
            rules.add(&chain, rule::accept);
            return;
        }
        let (meant, others): (Vec<_>, Vec<_>) = self.places.iter().partition(|place| place.is_meant());
        for place in meant {
            allow_place(family, place, &chain, rules);
        }
        self.allow_names(Answerer::Records, family, &chain, rules);
        let networks = links.iter().flat_map(|link| &link.addresses);
        let closed = SPECIAL.iter().chain(networks);
        for (address, prefix) in closed.filter(|(address, _)| family.is_of(*address)) {
            rules.add(&chain, |list| {
                family.destination(list, *address, *prefix);
                rule::goto(list, &family.chain(REFUSED));
            });
        }
        rules.add(&chain, |list| {
            rule::own_destination(list);
            rule::goto(list, &family.chain(REFUSED));
        });
        for place in others {
            allow_place(family, place, &chain, rules);
        }
        self.allow_names(Answerer::Server, family, &chain, rules);
        rules.add(&chain, |list| rule::goto(list, &family.chain(REFUSED)));
    }

    fn allow_names(&self, answerer: Answerer, family: &Family, chain: &str, rules: &mut Rules<'_>) {
        for (number, service) in self.services.iter().enumerate() {
            for matched in service.matches() {
                rules.add(chain, |list| {
                    rule::service(list, matched);
                    family.lookup_destination(list, &set_of(answerer, number, family));
                    rule::goto(list, &family.chain(ACCEPTED));
                });
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
    rules.add(&chain, rule::accept);
}

/// Refuses a packet at once, so that no program waits.
fn refused(family: &Family, rules: &mut Rules<'_>) {
    let chain = family.chain(REFUSED);
    note(family, &chain, rules);
    rules.add(&chain, |list| {
        rule::protocol(list, Transport::Tcp.number());
        rule::reset(list);
    });
    rules.add(&chain, rule::prohibited);
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
            rule::goto(list, &family.chain(ACCEPTED));
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
            IpAddr::V4(_) => rules.add(chain, |list| {
                rule::arp_of(list, link.mac, *address);
                rule::accept(list);
            }),
            IpAddr::V6(own) => {
                for neighbour in neighbours(link.mac, *own, (*address, *prefix)) {
                    rules.add(chain, |list| {
                        neighbour(list);
                        rule::accept(list);
                    });
                }
            }
        }
        rules.add(chain, |list| {
            family.from(list, link.mac, *address);
            rule::goto(list, &family.chain(POLICY));
        });
    }
}

/// Remembers peers that begin to speak to the container. A reset that refuses a packet of the container's own begins nothing.
fn to_container(family: &Family, chain: &str, rules: &mut Rules<'_>) {
    rules.add(chain, |list| {
        family.is(list);
        rule::protocol(list, Transport::Tcp.number());
        rule::begins_connection(list);
        family.flow_in(list);
        rule::remember(list, &family.set(FLOWS), BEGUN);
    });
    for protocol in [Transport::Udp, Transport::Sctp] {
        rules.add(chain, |list| {
            family.is(list);
            rule::protocol(list, protocol.number());
            family.flow_in(list);
            rule::remember(list, &family.set(FLOWS), IDLE_OTHER);
        });
    }
    rules.add(chain, |list| {
        family.is(list);
        family.echo_request(list);
        rule::remember(list, &family.set(FLOWS), BEGUN);
    });
}

/// Takes away the rules that the container of that id has, if any.
///
/// # Errors
/// The kernel's.
pub fn remove_egress(id: &str) -> Result<(), Errno> {
    match transaction(vec![nft::delete_table(&table_of(id))]) {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

/// The name of the table of the container of that id.
fn table_of(id: &str) -> String {
    format!("tote-{}", id.get(..12).unwrap_or(id))
}

const POLICY: &str = "policy";
const ACCEPTED: &str = "accepted";
pub(crate) const REFUSED: &str = "refused";
const FLOWS: &str = "flows";
const NOTES: &str = "noted";

fn incoming(link: &EgressLink) -> String {
    format!("from-{}", link.outside)
}

fn outgoing(link: &EgressLink) -> String {
    format!("to-{}", link.outside)
}

fn set_of(answerer: Answerer, service: usize, family: &Family) -> String {
    family.set(&match answerer {
        Answerer::Server => format!("names-{service}"),
        Answerer::Records => format!("members-{service}"),
    })
}

/// The requests of a transaction, to which rules are added.
struct Rules<'a> {
    table: &'a str,
    requests: Vec<Request>,
}

impl Rules<'_> {
    fn add(&mut self, chain: &str, fill: impl FnOnce(&mut Request)) {
        let mut request = Request::new(NFT_MSG_NEWRULE, &header(NETDEV)).flags(NLM_F_CREATE | NLM_F_APPEND);
        request.name(filter::NFTA_RULE_TABLE, self.table);
        request.name(filter::NFTA_RULE_CHAIN, chain);
        request.nest(filter::NFTA_RULE_EXPRESSIONS, &[], fill);
        self.requests.push(request);
    }
}
