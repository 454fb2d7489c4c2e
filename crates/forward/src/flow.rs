//! A connection: the client's socket, and one to the program inside.

use crate::port::Forward;
use crate::pump::Pump;
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
}

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
        })
    }

    pub(crate) fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.client.as_fd(), self.inside.as_fd()]
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

    /// Passes what can be passed at once.
    pub(crate) fn advance(&mut self) -> After {
        match self.try_advance() {
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

    fn try_advance(&mut self) -> Result<bool, Errno> {
        if !self.connected {
            sockopt::socket_error(&self.inside)??;
            match rustix::net::getpeername(&self.inside) {
                Ok(_) => self.connected = true,
                Err(Errno::NOTCONN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        let there = self.there.advance(self.client.as_fd(), self.inside.as_fd())?;
        let back = self.back.advance(self.inside.as_fd(), self.client.as_fd())?;
        Ok(there || back)
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
