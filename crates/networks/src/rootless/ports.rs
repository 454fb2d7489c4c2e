//! Ports of the machine that lead to a user's networks.
//!
//! The packet filter of the networks says which ports lead to which containers, as root's does; connections between containers
//! find them there. The holder has the same ports of the machine, and leads what comes by them into the network namespace. It
//! reads them from the packet filter, so that nothing else has to be right after a command was killed.

use super::super::{NetworkFault, PublishFault, RootlessFault, listener};
use super::{place::is_inside, socket};
use crate::{EngineError, Home};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;
use tote_forward::{Forward, Forwarder, Kind};
use tote_network::{PublishedPort, Transport};
use tote_sys::Errno;

/// Request to lead exactly those ports in that the packet filter has.
const LEAD: &str = "lead";
/// Request to say whether a port of the machine is free; protocol, address and port follow.
const FREE: &str = "free";
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
    let answer = socket::ask(home, &request).map_err(RootlessFault::Enter)?;
    match answer.split_once(' ') {
        None if answer == YES => Ok(None),
        Some((TAKEN, holder)) => Ok(Some(holder.to_owned())),
        _ => Err(refusal(transport, host, errno(&answer))),
    }
}

/// Has the ports of the machine lead where the packet filter says.
///
/// # Errors
/// [`NetworkFault`] for a port that this user may not have, or that a program has taken meanwhile.
pub(crate) fn lead(home: &Home) -> Result<(), EngineError> {
    if !is_inside(home) {
        return Ok(());
    }
    let answer = socket::ask(home, LEAD).map_err(RootlessFault::Enter)?;
    if answer == YES {
        return Ok(());
    }
    let mut words = answer.split(' ');
    let transport = words.next().and_then(Transport::named);
    let host = words.next().and_then(|host| host.parse().ok());
    let (Some(transport), Some(host)) = (transport, host) else {
        return Err(RootlessFault::Enter(Errno::PROTO).into());
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

/// The holder's side.
pub(crate) struct Published {
    network: OwnedFd,
    forwarder: Forwarder,
}

impl Published {
    pub(crate) fn new(network: &OwnedFd) -> Result<Self, Errno> {
        let copy = || rustix::io::fcntl_dupfd_cloexec(network, 3);
        // A kernel may be without these rules; clients have an address of the networks then.
        let keeps = tote_network::keep_clients(network.as_fd()).is_ok();
        let mark = keeps.then_some(tote_network::CLIENT_MARK);
        Ok(Self {
            network: copy()?,
            forwarder: Forwarder::new(copy()?, mark)?,
        })
    }

    pub(crate) fn advance(&mut self) {
        self.forwarder.advance();
    }

    pub(crate) fn patience(&self) -> Option<Duration> {
        self.forwarder.patience()
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

    fn lead(&mut self) -> String {
        let published = match tote_network::published_in(self.network.as_fd()) {
            Ok(published) => published.unwrap_or_default(),
            Err(_) => return String::new(),
        };
        let wanted: BTreeSet<_> = published.iter().filter_map(|(port, _)| forward(port)).collect();
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
        Ok(()) => YES.to_owned(),
        Err(Errno::ADDRINUSE) => format!("{TAKEN} {}", listener::holder(transport, host.port())),
        Err(errno) => errno.raw_os_error().to_string(),
    }
}

fn forward(port: &PublishedPort) -> Option<Forward> {
    let kind = match port.transport {
        Transport::Tcp => Kind::Stream,
        Transport::Udp => Kind::Datagram,
        Transport::Sctp => return None,
    };
    Some(Forward {
        kind,
        from: port.host,
        to: port.container,
    })
}

fn transport(kind: Kind) -> Transport {
    match kind {
        Kind::Stream => Transport::Tcp,
        Kind::Datagram => Transport::Udp,
    }
}

impl AsFd for Published {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.forwarder.as_fd()
    }
}
