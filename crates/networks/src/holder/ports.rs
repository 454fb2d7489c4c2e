//! Ports of the machine where the holder listens, and what comes by them.
//!
//! The packet filter of the networks says which ports lead to which containers. Of users other than root, connections between
//! containers find them there; the holder has the same ports of the machine, and leads what comes by them into the network
//! namespace. Of root it has those that the packet filter does not translate. It reads them from the packet filter, so that nothing
//! else has to be right after a command was killed.

use super::super::error::fault_of;
use super::super::rootless::is_inside;
use super::super::{NetworkFault, PublishFault, RootlessFault, listener, record};
use super::near::Near;
use super::onward::{self, Onward};
use super::socket;
use crate::container::link_text;
use crate::{Caller, EngineError, Home};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tote_bundle::ContainerId;
use tote_forward::{Forward, Forwarder, Kind};
use tote_network::{PublishedPort, Transport, Way};
use tote_sys::{Errno, best_effort};

/// Request to lead exactly those ports in that the packet filter has.
const LEAD: &str = "lead";
/// Request to say whether a port of the machine is free; protocol, address and port follow.
const FREE: &str = "free";
/// How long after a change of ports, and how often, it is looked for connections whose container is gone.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// Number of the descriptor that the holder waits for, among those beside the forwarder's own.
const OWNERS: usize = 0;
/// Answer: it is done, or so.
const YES: &str = "yes";
/// Answer: a process of the machine has the port, and its description follows.
const TAKEN: &str = "taken";

/// The holder of a port of the machine, in words if it is to be `named`; `None` if the port is free.
///
/// # Errors
/// [`NetworkFault`] if the machine has no such address, or the caller may not have the port.
pub(crate) fn holder(
    home: &Home,
    (transport, host): (Transport, SocketAddr),
    named: bool,
) -> Result<Option<String>, NetworkFault> {
    let words = |free: Result<bool, Errno>| match free {
        Ok(true) => Ok(None),
        Ok(false) if named => Ok(Some(listener::holder(transport, host.port()))),
        Ok(false) => Ok(Some(String::new())),
        Err(source) => Err(PublishFault::NoSuchHost {
            address: host.ip(),
            source,
        }
        .into()),
    };
    if !is_inside(home) {
        return words(tote_network::is_free(transport, host));
    }
    let request = format!("{FREE} {} {host}", transport.as_str());
    let answer = socket::ask(home, &request).map_err(|errno| super::entering(home, errno))?;
    match answer.split_once(' ') {
        None if answer == YES => Ok(None),
        Some((TAKEN, holder)) => Ok(Some(holder.to_owned())),
        _ => Err(refusal(transport, host, errno(&answer))),
    }
}

/// Has the ports of the machine lead where the packet filter says, which has these now, beside others.
///
/// # Errors
/// [`NetworkFault`] for a port that this user may not have, or that a program has taken meanwhile.
pub(crate) fn lead<'a>(
    home: &Home,
    ports: impl IntoIterator<Item = &'a PublishedPort>,
) -> Result<(), EngineError> {
    if !concerns(home, ports) {
        return Ok(());
    }
    let answer = match socket::ask(home, LEAD) {
        Err(errno) if !is_inside(home) && errno != Errno::TIMEDOUT => {
            // The first port needs a holder, or the former one was about to end.
            drop(super::start(home)?);
            socket::ask(home, LEAD)
        }
        answer => answer,
    };
    let answer = answer.map_err(|errno| super::unanswered(home, errno))?;
    if answer == YES {
        return Ok(());
    }
    let mut words = answer.split(' ');
    let transport = words.next().and_then(Transport::named);
    let host = words.next().and_then(|host| host.parse().ok());
    let (Some(transport), Some(host)) = (transport, host) else {
        return Err(super::unanswered(home, Errno::PROTO));
    };
    let errno = errno(words.next().unwrap_or_default());
    let holder = words.collect::<Vec<_>>().join(" ");
    if errno == Errno::ADDRINUSE {
        return Err(PublishFault::Taken {
            host,
            protocol: transport.as_str(),
            holder,
        }
        .into());
    }
    Err(refusal(transport, host, errno).into())
}

/// Does this after ports were taken from the packet filter. A holder that is gone leads nothing anywhere.
pub(crate) fn lead_less<'a>(home: &Home, ports: impl IntoIterator<Item = &'a PublishedPort>) {
    if concerns(home, ports) {
        best_effort(socket::ask(home, LEAD));
    }
}

/// Whether the holder has one of these ports.
fn concerns<'a>(home: &Home, ports: impl IntoIterator<Item = &'a PublishedPort>) -> bool {
    let mut ports = ports.into_iter();
    ports.any(|port| is_inside(home) || port.way == Way::Listened)
}

fn errno(text: &str) -> Errno {
    text.parse().map_or(Errno::PROTO, Errno::from_raw_os_error)
}

fn refusal(transport: Transport, host: SocketAddr, errno: Errno) -> NetworkFault {
    match errno {
        Errno::ACCESS | Errno::PERM => RootlessFault::LowPort(host.port()).into(),
        Errno::PROTONOSUPPORT => RootlessFault::NoForward(transport.as_str()).into(),
        source => PublishFault::NoSuchHost {
            address: host.ip(),
            source,
        }
        .into(),
    }
}

/// Holder of a port at which no program listens.
const FILTERED: &str = "the packet filter of this machine, as for a container of root's";

/// The holder's side.
pub(crate) struct Published {
    home: Home,
    network: OwnedFd,
    /// Whether the network namespace is one for a user's networks, where the packet filter translates for containers alone.
    is_users: bool,
    forwarder: Forwarder<Near>,
    /// The ports that the forwarder was last told.
    led: BTreeSet<Forward>,
    /// Connections that containers begin; `None` where pasta alone leads them on.
    onward: Option<Onward>,
    /// When it is to be looked for connections whose container is gone.
    look: Option<Instant>,
}

impl Published {
    pub(crate) fn new(home: &Home, network: &OwnedFd) -> Result<Self, Errno> {
        let copy = || rustix::io::fcntl_dupfd_cloexec(network, 3);
        let is_users = home.caller == Caller::User;
        // A user's kernel may be without these rules; clients have an address of the networks then. Root's are made with the port.
        let keeps = !is_users || tote_network::keep_clients(network.as_fd()).is_ok();
        let mark = keeps.then_some(tote_network::CLIENT_MARK);
        let mut forwarder = Forwarder::new(copy()?, mark, Near::new(home.clone()))?;
        let onward = if is_users && keeps {
            Onward::begin(network, &mut forwarder)?
        } else {
            None
        };
        Ok(Self {
            home: home.clone(),
            network: copy()?,
            is_users,
            forwarder,
            led: BTreeSet::new(),
            onward,
            look: None,
        })
    }

    /// Whether it leads nothing anywhere.
    pub(crate) fn is_idle(&self) -> bool {
        self.forwarder.is_idle()
    }

    /// Has [`Published::wait`] wait for another descriptor as well.
    pub(crate) fn wait_beside(&self, other: BorrowedFd<'_>) -> Result<(), Errno> {
        self.forwarder.wait_beside(other, OWNERS)
    }

    /// Waits until something happens, for that long at most, and passes on what comes. Gives whether the other descriptor can be
    /// read.
    pub(crate) fn wait(&mut self, longest: Option<Duration>) -> bool {
        let now = Instant::now();
        if self.look.is_some_and(|look| look <= now) {
            self.end_orphans();
        }
        let look = self.look.map(|look| look.saturating_duration_since(now));
        let longest = [longest, look].into_iter().flatten().min();
        let woken = self.forwarder.advance(longest);
        if let Some(onward) = &mut self.onward
            && (woken.beside[onward::TOLD] || woken.answered)
        {
            onward.serve(&mut self.forwarder);
        }
        woken.beside[OWNERS]
    }

    /// Ends connections to containers that have no address any more, from which no end would ever come. Others go on when their port
    /// was taken away, until one side closes them, and are looked for again.
    fn end_orphans(&mut self) {
        let outlived = self.forwarder.outlived();
        let Ok(members) = members(&self.home) else {
            // Whose container is gone cannot be known now, so all go on.
            self.look = Some(Instant::now() + BETWEEN_LOOKS);
            return;
        };
        let leased: BTreeSet<_> = members.into_keys().map(|(address, _)| address).collect();
        let gone = outlived.difference(&leased).copied().collect();
        self.forwarder.cut_off(&gone);
        self.look = (gone.len() < outlived.len()).then(|| Instant::now() + BETWEEN_LOOKS);
    }

    pub(crate) fn answer(&mut self, request: &str) -> String {
        let mut words = request.split(' ');
        match words.next() {
            Some(LEAD) => self.lead(),
            Some(FREE) => {
                let transport = words.next().and_then(Transport::named);
                let host = words.next().and_then(|host| host.parse().ok());
                transport.zip(host).map_or_else(String::new, free)
            }
            _ => String::new(),
        }
    }

    /// The ports where this process is to listen. Other state roots of root have processes of their own.
    ///
    /// # Errors
    /// The networks or their leases cannot be listed: what is led has to stay as it is.
    fn own(&self, published: &[(PublishedPort, String)]) -> Result<BTreeSet<Forward>, EngineError> {
        let members = members(&self.home)?;
        let listened = published.iter().filter(|(port, _)| port.way == Way::Listened);
        let own = listened.filter_map(|(port, holder)| {
            let holder: ContainerId = holder.parse().ok()?;
            match members.get(&(port.container.ip(), link_text(&holder)))? {
                Subnets::Known(beside) => forward(port, *beside),
                // It goes on as it was: with another subnet it would be another port to the forwarder, and closed for a moment.
                Subnets::Lost => {
                    let new = forward(port, None)?;
                    let is_it = |led: &&Forward| {
                        Forward {
                            beside: None,
                            ..**led
                        } == new
                    };
                    Some(self.led.iter().find(is_it).copied().unwrap_or(new))
                }
            }
        });
        Ok(own.collect())
    }

    fn lead(&mut self) -> String {
        let published = match tote_network::published_in(self.network.as_fd()) {
            Ok(published) => published.unwrap_or_default(),
            Err(_) => return String::new(),
        };
        let wanted: BTreeSet<_> = if self.is_users {
            let holders = published.iter().filter_map(|(port, holder)| {
                let holder: ContainerId = holder.parse().ok()?;
                Some((port.container.ip(), holder))
            });
            self.forwarder.places().lead(holders.collect());
            let ports = published.iter();
            ports.filter_map(|(port, _)| forward(port, None)).collect()
        } else {
            match self.own(&published) {
                Ok(own) => own,
                Err(_) => return String::new(),
            }
        };
        self.led.clone_from(&wanted);
        self.look = Some(Instant::now() + BETWEEN_LOOKS);
        match self.forwarder.lead(&wanted) {
            Ok(()) => YES.to_owned(),
            Err((port, errno)) => {
                let transport = transport(port.kind);
                let holder = listener::holder(transport, port.from.port());
                format!(
                    "{} {} {} {holder}",
                    transport.as_str(),
                    port.from,
                    errno.raw_os_error()
                )
            }
        }
    }
}

/// Whether this process, which is on the machine's side, could have a port.
fn free((transport, host): (Transport, SocketAddr)) -> String {
    let kind = match transport {
        Transport::Tcp => Kind::Stream,
        Transport::Udp => Kind::Datagram,
        Transport::Sctp => return Errno::PROTONOSUPPORT.raw_os_error().to_string(),
    };
    match tote_forward::is_free(kind, host) {
        // The packet filter would take each connection before this process sees it.
        Ok(()) if transport == Transport::Tcp && tote_network::is_led_elsewhere(host) => {
            format!("{TAKEN} {FILTERED}")
        }
        Ok(()) => YES.to_owned(),
        Err(Errno::ADDRINUSE) => format!("{TAKEN} {}", listener::holder(transport, host.port())),
        Err(errno) => errno.raw_os_error().to_string(),
    }
}

/// The first bits of all addresses of a network.
type Bits = (IpAddr, u8);

/// Subnet of an address, as far as it is known.
#[derive(Clone, Copy, Debug)]
enum Subnets {
    Known(Option<Bits>),
    /// The record of the network cannot be used.
    Lost,
}

/// The addresses in the networks of a state root, and the containers that have them, as their leases say it, with the network.
///
/// # Errors
/// The networks or their leases cannot be listed. A network whose record cannot be used keeps its members, and those of the others.
fn members(home: &Home) -> Result<BTreeMap<(IpAddr, String), Subnets>, EngineError> {
    let networks = record::all(home)?;
    let mut members = BTreeMap::new();
    let mut add = |name: &str, subnet: &dyn Fn(IpAddr) -> Subnets| -> Result<(), EngineError> {
        let leases = record::leases(home, name)
            .all()
            .map_err(|source| fault_of(name, source))?;
        let leases = leases.into_iter();
        members.extend(leases.map(|(address, container)| ((address, container), subnet(address))));
        Ok(())
    };
    for (name, network) in &networks.whole {
        let ipv4 = network.ipv4.subnet;
        let bits4 = (ipv4.address().into(), ipv4.prefix());
        let ipv6 = network.ipv6.map(|ipv6| ipv6.subnet);
        let bits6 = ipv6.map(|ipv6| (ipv6.address().into(), ipv6.prefix()));
        add(name, &|address| {
            Subnets::Known(if address.is_ipv4() { Some(bits4) } else { bits6 })
        })?;
    }
    for damaged in &networks.damaged {
        add(&damaged.name, &|_| Subnets::Lost)?;
    }
    Ok(members)
}

fn forward(port: &PublishedPort, beside: Option<Bits>) -> Option<Forward> {
    let kind = match port.transport {
        Transport::Tcp => Kind::Stream,
        Transport::Udp => Kind::Datagram,
        Transport::Sctp => return None,
    };
    Some(Forward {
        kind,
        from: port.host,
        to: port.container,
        beside,
    })
}

fn transport(kind: Kind) -> Transport {
    match kind {
        Kind::Stream => Transport::Tcp,
        Kind::Datagram => Transport::Udp,
    }
}
