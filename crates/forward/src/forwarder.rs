//! The ports that lead inside, and what passes by them.

use crate::alert::Alertness;
use crate::datagrams::{self, IDLE, Peer};
use crate::event::{Side, side_of, told};
use crate::flow::{After, Flow, reset};
use crate::onward::{Answer, Begun, Ends, Onward};
use crate::place::{Place, Places};
use crate::port::{Forward, Kind};
use crate::pump::LITTLE;
use rustix::event::epoll::{self, EventFlags};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tote_sys::{ACCEPT_AGAIN, Accepted, Errno, best_effort};

/// The most connections at a time; more wait in the kernel's queues.
const MOST_FLOWS: usize = 4096;
/// With as many connections none goes on that a program inside begins, so that clients of ports find room.
const MANY_FLOWS: usize = MOST_FLOWS / 2;
/// The most clients of ports for datagrams; the one that was silent for the longest time is forgotten for one more.
const MOST_PEERS: usize = 1024;
/// How many clients may wait to be accepted; the kernel's own limit is `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// Ports of this process's network namespace that lead into another one.
#[derive(Debug)]
pub struct Forwarder<P> {
    network: OwnedFd,
    mark: Option<u32>,
    places: P,
    epoll: OwnedFd,
    alertness: Alertness,
    ports: BTreeMap<Forward, (u64, OwnedFd)>,
    flows: BTreeMap<u64, Flow>,
    peers: BTreeMap<u64, (Forward, Peer)>,
    onward: Onward,
    /// Sockets that listen for connections that go on, by number.
    listeners: BTreeMap<u64, OwnedFd>,
    /// Numbers of what is served before anything is waited for.
    ready: BTreeSet<u64>,
    /// Numbers of listeners whose next client had no room.
    crowded: BTreeSet<u64>,
    /// Clients that were accepted with the last descriptor, by the number of their listener.
    early: BTreeMap<u64, (OwnedFd, SocketAddr)>,
    next: u64,
    /// For bytes that are copied.
    room: Vec<u8>,
}

/// Reasons why [`Forwarder::advance`] has ended, beside sockets of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// A descriptor of [`Forwarder::wait_beside`] can be read, which has this number.
    pub beside: [bool; BESIDE],
    /// A destination has answered.
    pub answered: bool,
}

/// How many descriptors of the owner's may be waited for.
pub const BESIDE: usize = 2;

impl<P: Places> Forwarder<P> {
    /// A forwarder into a network namespace, without ports. With a `mark`, which the network namespace leads back, programs
    /// there see the addresses of their clients; otherwise they see one of the namespace's own. To programs that have a place of
    /// their own among `places` connections begin there.
    ///
    /// # Errors
    /// epoll_create(2)'s.
    pub fn new(network: OwnedFd, mark: Option<u32>, places: P) -> Result<Self, Errno> {
        Ok(Self {
            network,
            mark,
            places,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            alertness: Alertness::default(),
            ports: BTreeMap::new(),
            flows: BTreeMap::new(),
            peers: BTreeMap::new(),
            onward: Onward::default(),
            listeners: BTreeMap::new(),
            ready: BTreeSet::new(),
            crowded: BTreeSet::new(),
            early: BTreeMap::new(),
            next: BESIDE as u64,
            room: vec![0; LITTLE],
        })
    }

    /// Places of programs.
    pub fn places(&mut self) -> &mut P {
        &mut self.places
    }

    /// Leads exactly these ports inside. Connections of ports that are led no more go on.
    ///
    /// # Errors
    /// The first port that cannot be had, and why; the others are led.
    pub fn lead(&mut self, wanted: &BTreeSet<Forward>) -> Result<(), (Forward, Errno)> {
        self.ports.retain(|port, _| wanted.contains(port));
        let numbers: BTreeSet<u64> = self.ports.values().map(|(number, _)| *number).collect();
        self.early.retain(|number, _| numbers.contains(number));
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
            if flow.to().is_some_and(|to| addresses.contains(&to)) {
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
        flows
            .filter_map(Flow::to)
            .filter(|to| !led.contains(to))
            .collect()
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
        let again = (!self.crowded.is_empty()).then_some(ACCEPT_AGAIN);
        let oldest = self.peers.values().map(|(_, peer)| peer.last).min();
        let oldest = oldest.map(|oldest| IDLE.saturating_sub(oldest.elapsed()));
        again.into_iter().chain(oldest).min()
    }

    /// Has [`Forwarder::advance`] wait for another descriptor of the owner's as well, with a number below [`BESIDE`].
    ///
    /// # Errors
    /// epoll_ctl(2)'s.
    pub fn wait_beside(&self, other: BorrowedFd<'_>, number: usize) -> Result<(), Errno> {
        epoll::add(
            &self.epoll,
            other,
            told(number as u64, Side::Client),
            EventFlags::IN,
        )
    }

    /// Serves a socket that listens for connections that go on to the address that the program has called.
    ///
    /// # Errors
    /// epoll_ctl(2)'s.
    pub fn lead_onward(&mut self, listener: OwnedFd) -> Result<(), Errno> {
        let number = self.number();
        epoll::add(&self.epoll, &listener, told(number, Side::Client), EDGES)?;
        self.listeners.insert(number, listener);
        Ok(())
    }

    /// Begins to connect to a destination for a program. What becomes of it, [`Forwarder::answers`] says.
    ///
    /// # Errors
    /// A reason why this process does not connect to that destination.
    pub fn begin_onward(&mut self, ends: Ends) -> Result<Begun, Errno> {
        if let Some(begun) = self.onward.find(ends) {
            return Ok(begun);
        }
        self.onward.forget_old();
        if self.flows.len() + self.onward.len() >= MANY_FLOWS {
            return Err(Errno::MFILE);
        }
        let number = self.number();
        let flags = EventFlags::OUT | EventFlags::ET;
        if let Some(socket) = self.onward.begin(number, ends)? {
            epoll::add(&self.epoll, socket, told(number, Side::Client), flags)?;
        }
        Ok(Begun::Waits)
    }

    /// Takes the answers that destinations have given.
    pub fn answers(&mut self) -> Vec<(Ends, Answer)> {
        self.onward.answers()
    }

    /// Waits until something happens, for that long at most, and passes what can be passed at once.
    pub fn advance(&mut self, longest: Option<Duration>) -> Woken {
        let mut events = [epoll::Event {
            flags: EventFlags::empty(),
            data: told(0, Side::Client),
        }; 64];
        let longest = [longest, self.patience()].into_iter().flatten().min();
        let mut woken = Woken::default();
        let epoll = &self.epoll;
        let happened = (self.alertness).wait(longest, |wait| wait.epoll(epoll, &mut events).unwrap_or(0));
        for event in events.iter().take(happened) {
            let data = event.data.u64();
            let beside = usize::try_from(data >> 1).ok();
            match beside.and_then(|beside| woken.beside.get_mut(beside)) {
                Some(beside) => *beside = true,
                None => woken.answered |= self.serve(data >> 1, Some((side_of(data), event.flags))),
            }
        }
        let crowded = std::mem::take(&mut self.crowded);
        for number in std::mem::take(&mut self.ready).into_iter().chain(crowded) {
            woken.answered |= self.serve(number, None);
        }
        if !self.peers.is_empty() {
            let now = Instant::now();
            self.peers
                .retain(|_, (_, peer)| now.saturating_duration_since(peer.last) < IDLE);
        }
        woken
    }

    /// Serves what has that number. Gives whether a destination may have answered.
    fn serve(&mut self, number: u64, happened: Option<(Side, EventFlags)>) -> bool {
        if let Some(flow) = self.flows.get_mut(&number) {
            let after = flow.advance(happened, &mut self.room);
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
        } else if self.listeners.contains_key(&number) {
            self.accept_onward(number);
        } else {
            return self.onward.look(number);
        }
        false
    }

    /// Takes programs whose destination has answered.
    fn accept_onward(&mut self, number: u64) {
        while let Some(listener) = self.listeners.get(&number) {
            let (program, peer) = match tote_sys::accept(listener) {
                Accepted::Client(program, Some(peer)) => (program, peer),
                Accepted::Client(_, None) => continue,
                Accepted::NoMore => return,
                Accepted::NoRoom => {
                    self.crowded.insert(number);
                    return;
                }
            };
            let called = rustix::net::getsockname(&program).and_then(SocketAddr::try_from);
            let ends = SocketAddr::try_from(peer).and_then(|peer| Ok((peer, called?)));
            let destination = ends.ok().and_then(|ends| self.onward.take(ends));
            let Some(destination) = destination else {
                reset(program.as_fd());
                continue;
            };
            // The flow waits for other events.
            best_effort(epoll::delete(&self.epoll, &destination));
            if let Some(mark) = self.mark {
                best_effort(tote_sys::set_mark(program.as_fd(), mark));
            }
            let number = self.number();
            self.flows.insert(number, Flow::onward(program, destination));
            self.ready.insert(number);
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
        while self.flows.len() < MOST_FLOWS {
            let Some((listener, socket)) = self.ports.get(port) else {
                return false;
            };
            let listener = *listener;
            let (client, peer) = match self.early.remove(&listener) {
                Some(early) => early,
                None => match tote_sys::accept(socket) {
                    Accepted::Client(client, Some(peer)) => match SocketAddr::try_from(peer) {
                        Ok(peer) => (client, peer),
                        Err(_) => continue,
                    },
                    Accepted::Client(_, None) => continue,
                    Accepted::NoMore => return false,
                    Accepted::NoRoom => {
                        self.crowded.insert(listener);
                        return false;
                    }
                },
            };
            let place = self.places.place(port.to.ip());
            let place = place.unwrap_or(Place::of_links(self.network.as_fd(), self.mark));
            match Flow::begin(client, &place, (port, peer)) {
                Ok(flow) => {
                    let number = self.number();
                    self.flows.insert(number, flow);
                    self.ready.insert(number);
                }
                Err(None) => {}
                Err(Some(client)) => {
                    self.early.insert(listener, (client, peer));
                    self.crowded.insert(listener);
                    return false;
                }
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
            let place = Place::of_links(self.network.as_fd(), self.mark);
            let Ok(mut peer) = Peer::begin(&place, port, from) else {
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
