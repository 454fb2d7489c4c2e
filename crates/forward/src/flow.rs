//! A connection: the client's socket, and one to the program inside.

use crate::event::{Side, told};
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
    /// The program's address.
    to: IpAddr,
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
    /// Begins to connect a client inside.
    pub(crate) fn begin(
        client: OwnedFd,
        network: (BorrowedFd<'_>, Option<u32>),
        (forward, peer): (&Forward, SocketAddr),
    ) -> Result<Self, Errno> {
        let begun = connect_inside(network, SocketType::STREAM, forward, peer);
        let begun = begun.and_then(|inside| Ok((inside, Pump::new()?, Pump::new()?)));
        let (inside, there, back) = match begun {
            Ok(begun) => begun,
            Err(errno) => {
                reset(client.as_fd());
                return Err(errno);
            }
        };
        for socket in [&client, &inside] {
            best_effort(sockopt::set_tcp_nodelay(socket, true));
            // A peer that is gone without a word would be waited for for ever.
            best_effort(sockopt::set_socket_keepalive(socket, true));
        }
        Ok(Self {
            client,
            inside,
            to: forward.to.ip(),
            connected: false,
            cut_off: false,
            there,
            back,
            watched: [None, None],
        })
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

    pub(crate) fn to(&self) -> IpAddr {
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
    pub(crate) fn advance(&mut self, happened: Option<(Side, EventFlags)>) -> After {
        match self.try_advance(happened) {
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

    fn try_advance(&mut self, mut happened: Option<(Side, EventFlags)>) -> Result<bool, Errno> {
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
        let there = is_there && self.there.advance((client, inside), self.cut_off)?;
        let back = is_back && self.back.advance((inside, client), self.cut_off)?;
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
fn reset(socket: BorrowedFd<'_>) {
    best_effort(sockopt::set_socket_linger(socket, Some(Duration::ZERO)));
}

/// A socket inside that is connected, or about to be.
pub(crate) fn connect_inside(
    (network, mark): (BorrowedFd<'_>, Option<u32>),
    kind: SocketType,
    forward: &Forward,
    peer: SocketAddr,
) -> Result<OwnedFd, Errno> {
    let family = match forward.to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = tote_sys::socket_in(network, (family, kind, None))?;
    rustix::io::ioctl_fionbio(&socket, true)?;
    if let Some(mark) = mark.filter(|_| forward.may_see(peer.ip())) {
        // Without it the program sees an address of the other namespace.
        best_effort(take_address(&socket, peer, mark));
    }
    match rustix::net::connect(&socket, &forward.to) {
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
