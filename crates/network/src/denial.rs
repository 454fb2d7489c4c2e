//! Rules of other programs by which packets of a network end that no rule knows, and the exceptions that tote puts there.
//!
//! All chains at one place are asked, and one that drops has the last word; so an exception has to be in the chain of the program that
//! drops. tote makes exceptions only from what such a program denies for want of a rule, and only in tables of programs that expect others there:
//! docker and ufw in the table of iptables, and firewalld. Each is about one bridge, whose name is its comment.

use crate::Bridge;
use crate::error::NetworkError;
use crate::filter::{
    self, NFPROTO_IPV4, NFT_MSG_DELRULE, NFT_MSG_NEWRULE, NFTA_RULE_CHAIN, NFTA_RULE_EXPRESSIONS,
    NFTA_RULE_TABLE, NLM_F_APPEND, header, transaction_by,
};
use crate::foreign::{self, ForeignChain};
use crate::foreign_walk::{NEW, Passing, Place, TRANSLATED, Walk};
use crate::forwarding::{self, Protocol};
use crate::netlink::{NLM_F_CREATE, Request, Socket};
use crate::rule::{self, Expression};
use crate::surroundings::Surroundings;
use tote_sys::Errno;

const NFTA_RULE_HANDLE: u16 = 3;
const NFTA_RULE_POSITION: u16 = 6;
const NFPROTO_IPV6: u8 = 10;
/// Begin of the comment of an exception, before the name of the bridge.
const COMMENT: &str = "tote: ";
/// How often the rules are looked at, each time after one more exception for each way; there are few chains on a way.
const ROUNDS: usize = 8;

/// A program whose table has exceptions for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Firewall {
    /// docker's chains are in the table of iptables.
    Docker,
    /// ufw's chains are there.
    Ufw,
    Firewalld,
}

/// A chain of another program by which packets of a network end.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Denial {
    chain: ForeignChain,
    place: Place,
    /// The links of the packets.
    from: String,
    to: String,
    firewall: Option<Firewall>,
    /// Whether a rule forbids these packets.
    is_forbidden: bool,
}

/// Packets of a network that rules of other programs deny.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denials {
    bridge: String,
    /// Kinds of packets of the network.
    ways: Vec<Passing>,
    ipv6: bool,
    all: Vec<Denial>,
}

fn failed(attempt: &'static str) -> impl Fn(Errno) -> NetworkError {
    move |source| NetworkError::Filter { attempt, source }
}

impl Denials {
    /// Looks at the rules of all other programs.
    ///
    /// # Errors
    /// [`NetworkError`].
    pub fn of(bridge: &Bridge<'_>) -> Result<Self, NetworkError> {
        let socket = Socket::of_filter().map_err(failed("read"))?;
        let ipv6 = bridge.ipv6.is_some();
        let mut denials = Self {
            bridge: bridge.name.to_owned(),
            ways: Vec::new(),
            ipv6,
            all: Vec::new(),
        };
        let chains = foreign::chains(&socket).map_err(failed("read"))?;
        if chains.iter().any(|chain| chain.forwards(ipv6)) {
            denials.ways = ways(bridge)?;
            denials.all = denials.among(&socket, &chains).map_err(failed("read"))?;
        }
        Ok(denials)
    }

    /// Whether no packet of the network is denied.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Puts an exception in for each denial by a program that expects some. What is left is what the kernel, or the other program, does not allow to be
    /// changed, and denials by other programs.
    ///
    /// # Errors
    /// [`NetworkError::Filter`].
    pub fn lift(mut self) -> Result<Self, NetworkError> {
        let socket = Socket::of_filter().map_err(failed("read"))?;
        for _ in 0..ROUNDS {
            let mut requests: Vec<Request> = Vec::new();
            for denial in self.all.iter().filter(|denial| denial.has_exceptions()) {
                let request = denial.exception(&self.bridge);
                if !requests.contains(&request) {
                    requests.push(request);
                }
            }
            if requests.is_empty() {
                break;
            }
            match transaction_by(&socket, requests) {
                // Another program has just changed the chain; its rules are read again.
                Ok(()) | Err(Errno::NOENT) => {}
                // A table may belong to one program alone.
                Err(_) => break,
            }
            let chains = foreign::chains(&socket).map_err(failed("read"))?;
            self.all = self.among(&socket, &chains).map_err(failed("read"))?;
        }
        Ok(self)
    }

    fn among(&self, socket: &Socket, chains: &[ForeignChain]) -> Result<Vec<Denial>, Errno> {
        let mut found = Vec::new();
        for chain in chains.iter().filter(|chain| chain.forwards(self.ipv6)) {
            let rules = foreign::rules(socket, chain.family, &chain.table)?;
            let walk = Walk::of(&rules);
            let firewall = firewall_of(chain, chains);
            for way in self.ways.iter().filter(|way| chain.sees(way.protocol)) {
                let denied = walk.denied(&chain.name, chain.drops(), way);
                found.extend(denied.map(|denied| Denial {
                    chain: chain.clone(),
                    place: denied.place,
                    is_forbidden: denied.is_forbidden,
                    from: way.from.clone(),
                    to: way.to.clone(),
                    firewall,
                }));
            }
        }
        Ok(found)
    }

    /// The chain that denies packets; `None` where none does.
    #[must_use]
    pub fn chain(&self) -> Option<String> {
        let first = self.all.first()?;
        Some(format!("{} {}", first.chain.table_words(), first.chain.name))
    }

    /// A line about the packets that are denied, and how to let them pass.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let first = self.all.first()?;
        let (chain, bridge) = (self.chain()?, &self.bridge);
        if first.is_forbidden {
            let (from, to) = (&first.from, &first.to);
            return Some(format!(
                "a rule of this machine's firewall (chain {chain}, or one to which it leads) drops all packets from {from} to {to}, so containers of \
                 {bridge} may reach nothing outside, or nothing their ports: remove the rule if you do not mean them"
            ));
        }
        let table = first.chain.table_words();
        let room = match (first.firewall, &first.place) {
            (Some(Firewall::Docker), _) => format!("insert rule {table} DOCKER-USER"),
            (_, Place { chain, before: None }) => format!("add rule {table} {chain}"),
            (
                _,
                Place {
                    chain,
                    before: Some(rule),
                },
            ) => format!("insert rule {table} {chain} handle {rule}"),
        };
        let remedy = match first.firewall {
            Some(Firewall::Ufw) => {
                format!("'ufw route allow in on {bridge}' and 'ufw route allow out on {bridge}'")
            }
            Some(Firewall::Firewalld) => {
                format!("'firewall-cmd --zone=trusted --add-interface={bridge}', with --permanent as well")
            }
            _ => format!("'nft {room} iifname {bridge} accept' and 'nft {room} oifname {bridge} accept'"),
        };
        Some(format!(
            "this machine's firewall (chain {chain}) drops what it does not know, so containers of {bridge} may reach nothing \
             outside, and nobody their ports: let them pass with {remedy}"
        ))
    }
}

/// The kinds of packets that come by a network's bridge.
fn ways(bridge: &Bridge<'_>) -> Result<Vec<Passing>, NetworkError> {
    let socket = Socket::new().map_err(NetworkError::Look)?;
    let mut ways = Vec::new();
    // A rule that lets a connection begin is taken to let its packets pass.
    let mut add = |(from, to): (&str, &str), protocol, status| {
        ways.push(Passing {
            from: from.to_owned(),
            to: to.to_owned(),
            protocol,
            state: NEW,
            status,
        });
    };
    let name = bridge.name;
    // Frames from one member to another are asked about as well where `br_netfilter` is switched on.
    if forwarding::asks_about_frames() {
        add((name, name), NFPROTO_IPV4, 0);
    }
    if !bridge.internal {
        let surroundings = Surroundings::read(&socket, bridge.ipv6.is_some())?;
        for exit in surroundings.outward() {
            let protocol = match exit.protocol {
                Protocol::Ipv4 => NFPROTO_IPV4,
                Protocol::Ipv6 => NFPROTO_IPV6,
            };
            add((name, &exit.link), protocol, 0);
            add((&exit.link, name), protocol, TRANSLATED);
        }
    }
    Ok(ways)
}

/// The program that the chain belongs to, if it expects exceptions of others.
fn firewall_of(chain: &ForeignChain, all: &[ForeignChain]) -> Option<Firewall> {
    if chain.table == "firewalld" {
        return Some(Firewall::Firewalld);
    }
    if chain.table != "filter" || chain.name != "FORWARD" {
        return None;
    }
    let has = |names: [&str; 2]| {
        all.iter().any(|other| {
            (other.family, &other.table) == (chain.family, &chain.table)
                && names.contains(&other.name.as_str())
        })
    };
    if has(["ufw-before-forward", "ufw6-before-forward"]) {
        return Some(Firewall::Ufw);
    }
    has(["DOCKER-USER", "DOCKER-FORWARD"]).then_some(Firewall::Docker)
}

impl Denial {
    /// Whether exceptions are made from it: not from what a rule forbids, nor in a table whose program expects none.
    fn has_exceptions(&self) -> bool {
        self.firewall.is_some() && !self.is_forbidden
    }

    /// The request for an exception of these packets.
    fn exception(&self, bridge: &str) -> Request {
        let rule = [
            Expression::From(self.from.clone()),
            Expression::To(self.to.clone()),
            Expression::Accept,
        ];
        // Without a place, a rule comes to the chain's begin.
        let flags = match self.place.before {
            Some(_) => NLM_F_CREATE,
            None => NLM_F_CREATE | NLM_F_APPEND,
        };
        let mut request = Request::new(NFT_MSG_NEWRULE, &header(self.chain.family)).flags(flags);
        request.name(NFTA_RULE_TABLE, &self.chain.table);
        request.name(NFTA_RULE_CHAIN, &self.place.chain);
        if let Some(handle) = self.place.before {
            request.attribute(NFTA_RULE_POSITION, &handle.to_be_bytes());
        }
        rule::append(&mut request, NFTA_RULE_EXPRESSIONS, &rule);
        filter::comment(&mut request, &format!("{COMMENT}{bridge}"));
        request
    }
}

/// Removes the exceptions of a bridge, wherever they are.
///
/// # Errors
/// [`NetworkError::Filter`].
pub fn remove_exceptions(bridge: &str) -> Result<(), NetworkError> {
    let socket = Socket::of_filter().map_err(failed("read"))?;
    let chains = foreign::chains(&socket).map_err(failed("read"))?;
    let comment = format!("{COMMENT}{bridge}");
    for chain in chains.iter().filter(|chain| chain.forwards(true)) {
        let rules = foreign::rules(&socket, chain.family, &chain.table).map_err(failed("read"))?;
        for rule in rules.iter().filter(|rule| rule.comment == comment) {
            let mut request = Request::new(NFT_MSG_DELRULE, &header(chain.family));
            request.name(NFTA_RULE_TABLE, &chain.table);
            request.name(NFTA_RULE_CHAIN, &rule.chain);
            request.attribute(NFTA_RULE_HANDLE, &rule.handle.to_be_bytes());
            match transaction_by(&socket, vec![request]) {
                // Another program has just removed it.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(errno) => return Err(failed("remove rules from")(errno)),
            }
        }
    }
    Ok(())
}

/// The state of all rules that decide about networks' packets, in words that are others after each change: the boot and the network
/// namespace, the number of the packet filter's state, and the links of default routes.
///
/// # Errors
/// [`NetworkError`].
pub fn filter_state() -> Result<String, NetworkError> {
    let epoch = epoch()?;
    let generation = filter::generation().map_err(failed("read"))?;
    let socket = Socket::new().map_err(NetworkError::Look)?;
    let links = crate::bridge::default_links(&socket)?;
    Ok(format!("{epoch} {generation} {}", links.join(" ")))
}

/// The boot of the machine and the network namespace, in words.
///
/// # Errors
/// [`NetworkError`].
pub fn epoch() -> Result<String, NetworkError> {
    forwarding::epoch().map_err(|source| NetworkError::Forwarding {
        attempt: "read",
        source,
    })
}
