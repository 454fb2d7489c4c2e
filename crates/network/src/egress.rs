//! The egress policy of a container: where packets from its links may go.
//!
//! The rules are at the host's end of each link, in a table of the packet filter that is the container's own: whatever rights
//! a program in the container has over the container's network namespace, its packets come by there. A chain with the policy
//! to drop takes what comes from the container: IPv4 and IPv6 with the container's own addresses pass to the rules about
//! destinations, ARP and the messages by which hosts of a link find each other go on, all else is dropped. A second chain sees what goes to the container, and remembers who
//! has begun to speak to it, so that answers find their way.
//!
//! Nothing here grows without a bound: each set has a size, and what packets put into one has a lifetime.

use crate::egress_kept::used_of;
use crate::egress_parts::{EgressLink, SENDERS};
use crate::egress_rule::{self as rule, Family, V4, V6};
use crate::egress_table::{NOTES, POLICY, incoming, set_of};
use crate::filter::transaction;
use crate::link::{LinkError, LinkRules};
use crate::link_state::index_of;
use crate::netlink::Socket;
use crate::noted::Noted;
use crate::special::SPECIAL;
use crate::{Transport, nft_table as nft};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;
use tote_sys::Errno;

/// The most destinations that are noted, of those that were refused or, of a policy that only logs, asked for.
pub(crate) const MOST_NOTED: u32 = 1024;
/// How long they are noted.
pub(crate) const NOTED: Duration = Duration::from_secs(24 * 3600);
/// The chain that refuses.
pub(crate) const REFUSED: &str = "refused";

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
    pub(crate) fn matches(self) -> Vec<(Option<Transport>, Option<u16>)> {
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
    pub(crate) fn is_meant(&self) -> bool {
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
    pub(crate) places: Vec<Place>,
    pub(crate) services: Vec<Service>,
    pub(crate) is_log: bool,
    /// For how long a connection keeps an address open that a name has opened.
    pub(crate) keep: Duration,
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

impl Egress {
    /// The policy of the container of that id, which opens these places at once, and for names the addresses that
    /// [`Egress::admit`] adds to a service later; each packet that comes by a connection keeps its address open for `keep`. With `is_log` nothing
    /// is refused, and destinations are noted. A container that has no IPv6 address needs no rules about them.
    #[must_use]
    pub fn new(
        id: &str,
        (places, services): (Vec<Place>, Vec<Service>),
        keep: Duration,
        (is_log, has_ipv6): (bool, bool),
    ) -> Self {
        Self {
            table: table_of(id),
            places,
            services,
            is_log,
            keep,
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
        LinkRules(self.whole(links))
    }

    /// The rules at the host's ends of further links of a container, whose other links have theirs: `all` are its links, `further` among
    /// them. What names have opened and which connections there are counts for these as well. Where another program has flushed the
    /// rules of the others, they are among these.
    ///
    /// # Errors
    /// The kernel's.
    pub fn further_rules(&self, all: &[EgressLink], further: &[EgressLink]) -> Result<LinkRules, Errno> {
        let mut lacking = Vec::new();
        for family in self.families {
            if !nft::has_chain(&self.table, &family.chain(POLICY))? {
                lacking.push(family);
            }
        }
        // Every table has the rules about IPv4, and those of an earlier version have no set of what is used, or no chain about senders.
        let used = used_of(Answerer::Server, 0, &V4);
        let is_older = self.is_renewed() && !nft::has_set(&self.table, &used)?
            || !nft::has_chain(&self.table, &V4.chain(SENDERS))?;
        if lacking.contains(&&V4) || is_older {
            return Ok(self.rules(all));
        }
        Ok(LinkRules(self.further(all, (lacking.as_slice(), further))))
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
        let (mut there, mut lost) = (Vec::new(), Vec::new());
        for link in links {
            match index_of(&socket, &link.outside) {
                Ok(_) => there.push(link.clone()),
                Err(Errno::NODEV) => continue,
                Err(errno) => return Err(look(errno)),
            }
            if !nft::has_chain(&self.table, &incoming(link)).map_err(look)? {
                lost.push(link.clone());
            }
        }
        if lost.is_empty() {
            return Ok(false);
        }
        let rules = self.further_rules(&there, &lost).map_err(look)?;
        rules.set_up().map(|()| true)
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
