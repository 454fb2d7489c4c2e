//! The ports that lead inside, and what passes by them.

use crate::datagrams::{self, IDLE, Peer};
use crate::event::{BESIDE, Side, side_of, told};
use crate::flow::{After, Flow};
use crate::port::{Forward, Kind};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tote_sys::Errno;

/// The most connections at a time; more wait in the kernel's queues.
const MOST_FLOWS: usize = 4096;
/// The most clients of ports for datagrams; the one that was silent for the longest time is forgotten for one more.
const MOST_PEERS: usize = 1024;
/// How many clients may wait to be accepted; the kernel's own limit is `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Ports of this process's network namespace that lead into another one.
#[derive(Debug)]
pub struct Forwarder {
    network: OwnedFd,
    mark: Option<u32>,
    epoll: OwnedFd,
    ports: BTreeMap<Forward, (u64, OwnedFd)>,
    flows: BTreeMap<u64, Flow>,
    peers: BTreeMap<u64, (Forward, Peer)>,
    /// Numbers of what is served before anything is waited for.
    ready: BTreeSet<u64>,
    next: u64,
}

impl Forwarder {
    /// A forwarder into a network namespace, without ports. With a `mark`, which the network namespace leads back, programs
    /// there see the addresses of their clients; otherwise they see one of the namespace's own.
    ///
    /// # Errors
    /// epoll_create(2)'s.
    pub fn new(network: OwnedFd, mark: Option<u32>) -> Result<Self, Errno> {
        Ok(Self {
            network,
            mark,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            ports: BTreeMap::new(),
            flows: BTreeMap::new(),
            peers: BTreeMap::new(),
            ready: BTreeSet::new(),
            next: 0,
        })
    }

    /// Leads exactly these ports inside. Connections of ports that are led no more go on.
    ///
    /// # Errors
    /// The first port that cannot be had, and why; the others are led.
    pub fn lead(&mut self, wanted: &BTreeSet<Forward>) -> Result<(), (Forward, Errno)> {
        self.ports.retain(|port, _| wanted.contains(port));
        let ports = &self.ports;
        self.peers.retain(|_, (port, _)| ports.contains_key(port));
        let mut failed = Ok(());
        for port in wanted {
            if self.ports.contains_key(port) {
                continue;
            }
            if let Err(errno) = self.open(port)
                && failed.is_ok()
            {
                failed = Err((*port, errno));
            }
        }
        failed
    }

    /// Ends connections to addresses of the other namespace that are gone. What has come from there still reaches the clients.
    pub fn cut_off(&mut self, addresses: &BTreeSet<IpAddr>) {
        for (number, flow) in &mut self.flows {
            if addresses.contains(&flow.to()) {
                flow.cut_off();
                self.ready.insert(*number);
            }
        }
    }

    /// The addresses inside that connections lead to and ports no more.
    #[must_use]
    pub fn outlived(&self) -> BTreeSet<IpAddr> {
        let led: BTreeSet<_> = self.ports.keys().map(|port| port.to.ip()).collect();
        let flows = self.flows.values().filter(|flow| !flow.is_cut_off());
        flows.map(Flow::to).filter(|to| !led.contains(to)).collect()
    }

    /// Whether no port leads inside, and no connection but those that are cut off.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.ports.is_empty() && self.flows.values().all(Flow::is_cut_off)
    }

    fn open(&mut self, port: &Forward) -> Result<(), Errno> {
        let socket = listen(port)?;
        let number = self.number();
        epoll::add(&self.epoll, &socket, told(number, Side::Client), EDGES)?;
        self.ports.insert(*port, (number, socket));
        // Clients may have come before.
        self.ready.insert(number);
        Ok(())
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// How long nothing has to be done if nothing happens; `None` for any time.
    fn patience(&self) -> Option<Duration> {
        if !self.ready.is_empty() {
            return Some(Duration::ZERO);
        }
        let oldest = self.peers.values().map(|(_, peer)| peer.last).min()?;
        Some(IDLE.saturating_sub(oldest.elapsed()))
    }

    /// Has [`Forwarder::advance`] wait for another descriptor of the owner's as well.
    ///
    /// # Errors
    /// epoll_ctl(2)'s.
    pub fn wait_beside(&self, other: BorrowedFd<'_>) -> Result<(), Errno> {
        epoll::add(&self.epoll, other, EventData::new_u64(BESIDE), EventFlags::IN)
    }

    /// Waits until something happens, for that long at most, and passes what can be passed at once. Gives whether the descriptor of
    /// [`Forwarder::wait_beside`] can be read.
    pub fn advance(&mut self, longest: Option<Duration>) -> bool {
        let mut events = [const { std::mem::MaybeUninit::uninit() }; 64];
        let longest = [longest, self.patience()].into_iter().flatten().min();
        let longest = longest.and_then(|longest| Timespec::try_from(longest).ok());
        let mut beside = false;
        let happened = epoll::wait(&self.epoll, &mut events, longest.as_ref());
        for event in happened.iter().flat_map(|(happened, _)| happened.iter()) {
            let data = event.data.u64();
            beside |= data == BESIDE;
            self.serve(data >> 1, Some((side_of(data), event.flags)));
        }
        for number in std::mem::take(&mut self.ready) {
            self.serve(number, None);
        }
        if !self.peers.is_empty() {
            let now = Instant::now();
            self.peers
                .retain(|_, (_, peer)| now.saturating_duration_since(peer.last) < IDLE);
        }
        beside
    }

    fn serve(&mut self, number: u64, happened: Option<(Side, EventFlags)>) {
        if let Some(flow) = self.flows.get_mut(&number) {
            let after = flow.advance(happened);
            if after == After::Over || flow.watch(&self.epoll, number).is_err() {
                self.end(number);
            } else if after == After::More {
                self.ready.insert(number);
            }
        } else if let Some((port, peer)) = self.peers.get_mut(&number) {
            let mut room = datagrams::room();
            if let Some((_, socket)) = self.ports.get(port)
                && peer.answer(socket.as_fd(), &mut room)
            {
                self.ready.insert(number);
            }
        } else if let Some(port) = self.port(number) {
            let more = match port.kind {
                Kind::Stream => self.accept(&port),
                Kind::Datagram => self.take(&port),
            };
            if more {
                self.ready.insert(number);
            }
        }
    }

    fn port(&self, number: u64) -> Option<Forward> {
        let mut ports = self.ports.iter();
        ports.find(|(_, (own, _))| *own == number).map(|(port, _)| *port)
    }

    /// Forgets a connection. Clients may have waited for its room.
    fn end(&mut self, number: u64) {
        let was_full = self.flows.len() >= MOST_FLOWS;
        self.flows.remove(&number);
        if was_full {
            self.ready.extend(self.ports.values().map(|(number, _)| *number));
        }
    }

    /// Accepts clients. Gives whether more may wait.
    fn accept(&mut self, port: &Forward) -> bool {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while self.flows.len() < MOST_FLOWS {
            let Some((_, socket)) = self.ports.get(port) else {
                return false;
            };
            let (client, peer) = match rustix::net::acceptfrom_with(socket, flags) {
                Ok((client, Some(peer))) => (client, peer),
                Err(Errno::INTR | Errno::CONNABORTED) => continue,
                // With a descriptor for each connection, another one's end makes room.
                Ok((_, None)) | Err(_) => return false,
            };
            let Ok(peer) = SocketAddr::try_from(peer) else {
                continue;
            };
            if let Ok(flow) = Flow::begin(client, (self.network.as_fd(), self.mark), (port, peer)) {
                let number = self.number();
                self.flows.insert(number, flow);
                self.ready.insert(number);
            }
        }
        false
    }

    /// Takes datagrams of clients. Gives whether there may be more.
    fn take(&mut self, port: &Forward) -> bool {
        let Some((_, socket)) = self.ports.get(port) else {
            return false;
        };
        let mut taken = Vec::new();
        let more = datagrams::take(socket.as_fd(), |from, bytes| taken.push((from, bytes.to_vec())));
        for (from, bytes) in taken {
            let known = self
                .peers
                .values_mut()
                .find(|(of, peer)| of == port && peer.address == from);
            if let Some((_, peer)) = known {
                peer.ask(&bytes);
                continue;
            }
            self.make_room();
            let Ok(mut peer) = Peer::begin((self.network.as_fd(), self.mark), port, from) else {
                continue;
            };
            peer.ask(&bytes);
            let number = self.number();
            if epoll::add(&self.epoll, peer.as_fd(), told(number, Side::Client), EDGES).is_ok() {
                self.peers.insert(number, (*port, peer));
                self.ready.insert(number);
            }
        }
        more
    }

    fn make_room(&mut self) {
        if self.peers.len() < MOST_PEERS {
            return;
        }
        let oldest = self.peers.iter().min_by_key(|(_, (_, peer))| peer.last);
        if let Some(number) = oldest.map(|(number, _)| *number) {
            self.peers.remove(&number);
        }
    }
}

/// Everything that happens, told once.
const EDGES: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::ET);

/// Asks the kernel whether this process could have a port now. Nothing keeps the port.
///
/// # Errors
/// [`Errno::ADDRINUSE`] where another process has it, [`Errno::ADDRNOTAVAIL`] where there is no such address, and
/// [`Errno::ACCESS`] where the caller may not have it.
pub fn is_free(kind: Kind, from: SocketAddr) -> Result<(), Errno> {
    let port = Forward {
        kind,
        from,
        to: from,
        beside: None,
    };
    listen(&port).map(drop)
}

/// The socket of a port in this process's network namespace.
fn listen(port: &Forward) -> Result<OwnedFd, Errno> {
    let family = match port.from {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let kind = match port.kind {
        Kind::Stream => SocketType::STREAM,
        Kind::Datagram => SocketType::DGRAM,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, kind, flags, None)?;
    if port.from.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if port.kind == Kind::Stream {
        // Connections that have ended do not count, only a socket that listens.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    rustix::net::bind(&socket, &port.from)?;
    if port.kind == Kind::Stream {
        rustix::net::listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}

#[cfg(test)]
mod tests;
