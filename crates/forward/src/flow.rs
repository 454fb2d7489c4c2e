//! A connection: the client's socket, and one to the program inside.

use crate::event::{Side, told};
use crate::place::Place;
use crate::port::Forward;
use crate::pump::Pump;
use rustix::event::epoll::{self, EventFlags};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketType, sockopt};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tote_sys::{Errno, best_effort};

#[derive(Debug)]
pub(crate) struct Flow {
    client: OwnedFd,
    inside: OwnedFd,
    /// The program's address; `None` of a connection that a container has begun.
    to: Option<IpAddr>,
    connected: bool,
    /// Whether nothing more comes from inside, nor gets there.
    cut_off: bool,
    there: Pump,
    back: Pump,
    /// Events that the client's socket and the one inside are watched for; `None` for one that is not watched yet.
    watched: [Option<EventFlags>; 2],
}

/// Events that a direction waits for at its source; and at its destination.
const COMES: EventFlags = EventFlags::IN.union(EventFlags::RDHUP);
const GOES: EventFlags = EventFlags::OUT;
/// Events that concern both directions.
const FAILS: EventFlags = EventFlags::ERR.union(EventFlags::HUP);

/// State of a connection after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Waiting: one of its sockets has to be waited for.
    Waits,
    /// More can be passed at once.
    More,
    /// Both directions have ended, or one has failed.
    Over,
}

impl Flow {
    /// Begins to connect a client inside, by that port. Returns the client where that has to be tried again when there is room for
    /// another socket; any other client that has no way inside is reset.
    pub(crate) fn begin(
        client: OwnedFd,
        place: &Place<'_>,
        (forward, peer): (&Forward, SocketAddr),
    ) -> Result<Self, Option<OwnedFd>> {
        match connect_inside(place, SocketType::STREAM, forward, peer) {
            Ok(inside) => Ok(Self::of((client, inside), Some(forward.to.ip()))),
            Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => Err(Some(client)),
            Err(_) => {
                reset(client.as_fd());
                Err(None)
            }
        }
    }

    /// A connection that a container has begun, and the one to its destination, which is there already.
    pub(crate) fn onward(container: OwnedFd, destination: OwnedFd) -> Self {
        let flow = Self::of((container, destination), None);
        Self {
            connected: true,
            ..flow
        }
    }

    fn of((client, inside): (OwnedFd, OwnedFd), to: Option<IpAddr>) -> Self {
        for socket in [&client, &inside] {
            best_effort(sockopt::set_tcp_nodelay(socket, true));
            // A peer that is gone without a word would be waited for for ever.
            best_effort(sockopt::set_socket_keepalive(socket, true));
        }
        Self {
            client,
            inside,
            to,
            connected: false,
            cut_off: false,
            there: Pump::new(),
            back: Pump::new(),
            watched: [None, None],
        }
    }

    /// Has its sockets watched for what it waits for now; events name it by that number.
    pub(crate) fn watch(&mut self, epoll: &OwnedFd, number: u64) -> Result<(), Errno> {
        let wanted = if self.connected {
            let client = wanted(&self.there, &self.back);
            [Some(client), Some(wanted(&self.back, &self.there))]
        } else {
            [None, Some(GOES)]
        };
        let sockets = [(&self.client, Side::Client), (&self.inside, Side::Inside)].into_iter();
        for ((socket, side), (wanted, watched)) in sockets.zip(wanted.into_iter().zip(&mut self.watched)) {
            let data = told(number, side);
            match (wanted, &watched) {
                (Some(flags), None) => epoll::add(epoll, socket, data, flags)?,
                (Some(flags), Some(before)) if flags != *before => epoll::modify(epoll, socket, data, flags)?,
                _ => {}
            }
            *watched = wanted;
        }
        Ok(())
    }

    pub(crate) fn to(&self) -> Option<IpAddr> {
        self.to
    }

    /// Has the connection end when the client has got what came from inside until now.
    pub(crate) fn cut_off(&mut self) {
        self.cut_off = true;
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.cut_off
    }

    /// Passes what can be passed at once after something has happened to a socket, or whatever has happened.
    pub(crate) fn advance(&mut self, happened: Option<(Side, EventFlags)>, room: &mut [u8]) -> After {
        match self.try_advance(happened, room) {
            Ok(_) if self.there.is_over() && self.back.is_over() => After::Over,
            Ok(true) => After::More,
            Ok(false) if self.cut_off && self.back.is_empty() => {
                if !self.back.is_over() {
                    reset(self.client.as_fd());
                }
                reset(self.inside.as_fd());
                After::Over
            }
            Ok(false) => After::Waits,
            Err(_) => {
                reset(self.client.as_fd());
                reset(self.inside.as_fd());
                After::Over
            }
        }
    }

    fn try_advance(
        &mut self,
        mut happened: Option<(Side, EventFlags)>,
        room: &mut [u8],
    ) -> Result<bool, Errno> {
        if !self.connected {
            sockopt::socket_error(&self.inside)??;
            match rustix::net::getpeername(&self.inside) {
                Ok(_) => self.connected = true,
                Err(Errno::NOTCONN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
            happened = None;
        }
        let concerns = |from, to| match happened.filter(|_| !self.cut_off) {
            Some((side, flags)) if !flags.intersects(FAILS) => {
                (side == from && flags.intersects(COMES)) || (side == to && flags.intersects(GOES))
            }
            _ => true,
        };
        let (is_there, is_back) = (
            concerns(Side::Client, Side::Inside),
            concerns(Side::Inside, Side::Client),
        );
        let (client, inside) = (self.client.as_fd(), self.inside.as_fd());
        let there = is_there && self.there.advance((client, inside), room, self.cut_off)?;
        let back = is_back && self.back.advance((inside, client), room, self.cut_off)?;
        Ok(there || back)
    }
}

/// Events that a socket is watched for that is the source of one direction and the destination of the other one.
fn wanted(out_of: &Pump, into: &Pump) -> EventFlags {
    let goes = if into.is_empty() {
        EventFlags::empty()
    } else {
        GOES
    };
    if out_of.waits_for_source() {
        COMES | goes
    } else {
        // Its end, which is told in any case, is told once: nothing may be done about it now.
        EventFlags::ET | goes
    }
}

/// Has a socket's connection end by a reset when the socket is closed.
pub(crate) fn reset(socket: BorrowedFd<'_>) {
    best_effort(sockopt::set_socket_linger(socket, Some(Duration::ZERO)));
}

/// A socket inside that is connected, or about to be.
pub(crate) fn connect_inside(
    place: &Place<'_>,
    kind: SocketType,
    forward: &Forward,
    peer: SocketAddr,
) -> Result<OwnedFd, Errno> {
    let family = match forward.to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = tote_sys::socket_in(place.network, (family, kind, None))?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    let seen = forward.may_see(peer.ip()).then_some(peer);
    match (place.mark, place.gateway, seen) {
        // Without the client's address the program sees one of the other namespace.
        (Some(mark), None, Some(peer)) => best_effort(take_address(&socket, peer, mark)),
        (Some(mark), Some(gateway), seen) => {
            take_address(&socket, seen.unwrap_or(SocketAddr::new(gateway, 0)), mark)?;
        }
        _ => {}
    }
    match tote_sys::connect_at_once(&socket, &forward.to) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno),
    }
}

/// Gives a socket the address of a client.
fn take_address(socket: &OwnedFd, peer: SocketAddr, mark: u32) -> Result<(), Errno> {
    tote_sys::set_mark(socket.as_fd(), mark)?;
    tote_sys::set_transparent(socket.as_fd(), peer.is_ipv6())?;
    sockopt::set_socket_reuseaddr(socket, true)?;
    rustix::net::bind(socket, &peer)
}
