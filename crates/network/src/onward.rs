//! Connections of TCP that members of a user's networks begin, and that a process leads on from the machine's network namespace.
//!
//! ```text
//! container ── link ── bridge ── socket of the process ══ socket of the process ── destination
//! ```
//! A rule holds the first packet of each back and tells the process, which connects to the destination first. When that has answered, the
//! process sends the packet again, and another rule gives it to a socket that listens for every address. So the container is told what
//! the destination has said, and the rules of its link have seen every packet. What the process does not lead on it sends again without a mark,
//! and that packet goes the way of all other protocols.

use crate::clients::{self, BACK_MARK, CLIENT_MARK, STAY_MARK};
use crate::egress_first::{Attempt, FirstAttempts};
use crate::filter::{Chain, Hook, new_rule_of, transaction_by};
use crate::link_state::UPLINK;
use crate::netlink::{Request, Socket};
use crate::rule::Expression::{
    self, Accept, Begins, Drop, From, Ipv4, Ipv6, LeadsBy, Listener, Mark, Marked, OfOthers, Source, Source6,
    Tcp, Tell, Untracked,
};
use crate::{Bridge, LinkError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SendFlags, SocketType, ipproto, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use tote_sys::{Errno, best_effort};

/// The group that is told of first packets.
const GROUP: u16 = 0x746f;
/// The chains, in the table of clients.
const TO_LISTENER: &str = "onward-there";
const FROM_PROCESS: &str = "onward-own";
/// How many connections may wait to be taken.
const BACKLOG: i32 = 4096;

/// First packets of connections that are held back.
#[derive(Debug)]
pub struct HeldBack {
    told: FirstAttempts,
    /// Sockets that send packets of IPv4, and of IPv6 where the kernel has it.
    senders: [Option<OwnedFd>; 2],
}

/// Makes what it takes to lead connections on in a namespace for a user's networks. Gives the sockets that listen as well.
///
/// # Errors
/// [`LinkError`] where the kernel lacks something: no connection is held back then.
pub fn hold_back(network: BorrowedFd<'_>) -> Result<(HeldBack, Vec<OwnedFd>), LinkError> {
    let failed = |source| LinkError {
        attempt: "lead connections on (nf_tables with tproxy, socket, fib and log)".to_owned(),
        source,
    };
    let open = || -> Result<_, Errno> {
        let told = FirstAttempts::of_group(Socket::of_filter_inside(network)?, GROUP)?;
        clients::stay(&Socket::inside(network)?)?;
        let (listener, port) = listen(network, Ipv4Addr::LOCALHOST.into())?;
        let other = listen(network, Ipv6Addr::LOCALHOST.into()).ok();
        let sender = |family| tote_sys::socket_in(network, (family, SocketType::RAW, Some(ipproto::RAW)));
        let senders = [
            Some(sender(AddressFamily::INET)?),
            sender(AddressFamily::INET6).ok(),
        ];
        let requests = rules(port, other.as_ref().map(|(_, port)| *port));
        transaction_by(&Socket::of_filter_inside(network)?, requests)?;
        let listeners = [listener].into_iter().chain(other.map(|(socket, _)| socket));
        Ok((HeldBack { told, senders }, listeners.collect()))
    };
    open().map_err(failed)
}

/// A socket that listens for every address, once a rule gives it packets.
fn listen(network: BorrowedFd<'_>, own: IpAddr) -> Result<(OwnedFd, u16), Errno> {
    let family = if own.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = tote_sys::socket_in(network, (family, SocketType::STREAM, None))?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    tote_sys::set_transparent(socket.as_fd(), own.is_ipv6())?;
    // Small parts are not to wait for the container's word on former ones.
    best_effort(sockopt::set_tcp_nodelay(&socket, true));
    rustix::net::bind(&socket, &SocketAddr::new(own, 0))?;
    rustix::net::listen(&socket, BACKLOG)?;
    let own = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
    Ok((socket, own.port()))
}

/// The rules for packets that are sent again, and for those of the process's own sockets, of which no connection is tracked.
fn rules(port: u16, port6: Option<u16>) -> Vec<Request> {
    let to_listener = |protocol, port| {
        vec![
            protocol,
            Marked(STAY_MARK),
            Tcp,
            Listener(port),
            Untracked,
            Accept,
        ]
    };
    let there = [
        Some(to_listener(Ipv4, port)),
        port6.map(|port| to_listener(Ipv6, port)),
    ];
    let own = [CLIENT_MARK, STAY_MARK].map(|mark| vec![Marked(mark), Tcp, Untracked]);
    let chains = [
        (TO_LISTENER, Hook::Raw, there.into_iter().flatten().collect()),
        (FROM_PROCESS, Hook::RawOutput, own.to_vec()),
    ];
    let mut requests = vec![clients::table()];
    for (name, hook, rules) in chains {
        let chain = Chain {
            name: name.to_owned(),
            hook: Some(hook),
            rules,
        };
        requests.push(chain.new_in(clients::TABLE));
        requests.extend(
            chain
                .rules
                .iter()
                .map(|rule| new_rule_of(clients::TABLE, name, rule)),
        );
    }
    requests
}

/// Whether a process of this network namespace leads connections on.
pub(crate) fn is_led() -> Result<bool, Errno> {
    crate::filter::has_in(clients::TABLE, TO_LISTENER)
}

/// The rules of a network whose members' connections are led on, for what comes by its bridge.
pub(crate) fn of_bridge(bridge: &Bridge<'_>) -> Vec<Vec<Expression>> {
    let from = || From(bridge.name.to_owned());
    let first = |protocol, source| {
        vec![
            protocol,
            Tcp,
            Begins,
            from(),
            source,
            LeadsBy(UPLINK),
            Tell(GROUP),
            Drop,
        ]
    };
    let mut rules = Vec::new();
    if bridge.masquerade && !bridge.internal {
        rules.push(first(Ipv4, Source(bridge.subnet)));
        rules.extend(bridge.ipv6.map(|ipv6| first(Ipv6, Source6(ipv6.subnet))));
    }
    rules.push(vec![Tcp, from(), OfOthers, Mark(BACK_MARK), Untracked, Accept]);
    rules
}

impl HeldBack {
    /// Takes the packets that have come, without waiting.
    #[must_use]
    pub fn take(&self) -> Vec<Attempt> {
        self.told.take()
    }

    /// Sends a packet again, to the socket that listens if the connection is led on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn repeat(&self, attempt: &Attempt, is_led: bool) -> Result<(), Errno> {
        let packet = attempt.with_checksum().ok_or(Errno::INVAL)?;
        self.send(
            &packet,
            attempt.destination.ip(),
            if is_led { STAY_MARK } else { 0 },
        )
    }

    /// Tells a container that the destination has refused the connection.
    ///
    /// # Errors
    /// The kernel's.
    pub fn refuse(&self, attempt: &Attempt) -> Result<(), Errno> {
        let packet = attempt.refusal().ok_or(Errno::INVAL)?;
        self.send(&packet, attempt.source.ip(), 0)
    }

    fn send(&self, packet: &[u8], to: IpAddr, mark: u32) -> Result<(), Errno> {
        let sender = self
            .senders
            .get(usize::from(to.is_ipv6()))
            .and_then(Option::as_ref);
        let sender = sender.ok_or(Errno::AFNOSUPPORT)?;
        tote_sys::set_mark(sender.as_fd(), mark)?;
        // A raw socket takes the port for a protocol.
        rustix::net::sendto(sender, packet, SendFlags::DONTWAIT, &SocketAddr::new(to, 0)).map(drop)
    }
}

impl AsFd for HeldBack {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_takes_the_rules() {
        let Ok(network) = tote_sys::network_namespace(None) else {
            println!("skipped: needs root, for a network namespace");
            return;
        };
        let (held, listeners) = hold_back(network.as_fd()).unwrap();
        assert!(!listeners.is_empty() && held.take().is_empty());
    }
}
