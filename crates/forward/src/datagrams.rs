//! Clients of a port for datagrams: each has a socket inside, so that the answers find their way back.

use crate::flow::connect_inside;
use crate::place::Place;
use crate::port::Forward;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags, SocketType};
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tote_sys::{Errno, best_effort};

/// How long a client is remembered that neither asks nor is answered.
pub(crate) const IDLE: Duration = Duration::from_secs(60);
/// How many datagrams are taken at a time.
const AT_ONCE: usize = 64;
/// The longest datagram.
const LONGEST: usize = 65536;

/// A client of a port.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    inside: OwnedFd,
    pub(crate) last: Instant,
}

impl Peer {
    pub(crate) fn begin(place: &Place<'_>, forward: &Forward, address: SocketAddr) -> Result<Self, Errno> {
        Ok(Self {
            address,
            inside: connect_inside(place, SocketType::DGRAM, forward, address)?,
            last: Instant::now(),
        })
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.inside.as_fd()
    }

    /// Passes a datagram on; one that no program takes is lost, as datagrams are.
    pub(crate) fn ask(&mut self, bytes: &[u8]) {
        self.last = Instant::now();
        best_effort(rustix::net::send(&self.inside, bytes, SendFlags::NOSIGNAL));
    }

    /// Passes answers back by the port's socket. Gives whether there may be more.
    pub(crate) fn answer(&mut self, port: BorrowedFd<'_>, room: &mut [u8]) -> bool {
        for _ in 0..AT_ONCE {
            match rustix::net::recv(&self.inside, &mut *room, RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    self.last = Instant::now();
                    let bytes = room.get(..length).unwrap_or_default();
                    best_effort(rustix::net::sendto(
                        port,
                        bytes,
                        SendFlags::NOSIGNAL,
                        &self.address,
                    ));
                }
                // No program listens inside.
                Err(Errno::CONNREFUSED | Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }
}

/// Takes what came to a port, for at most a number of datagrams. Gives whether there may be more.
pub(crate) fn take(port: BorrowedFd<'_>, mut each: impl FnMut(SocketAddr, &[u8])) -> bool {
    let mut room = vec![0; LONGEST];
    for _ in 0..AT_ONCE {
        match rustix::net::recvfrom(port, &mut room[..], RecvFlags::DONTWAIT) {
            Ok((length, _, Some(from))) => {
                if let Ok(from) = SocketAddr::try_from(from) {
                    each(from, room.get(..length).unwrap_or_default());
                }
            }
            Ok(_) | Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(_) => return false,
        }
    }
    true
}

pub(crate) fn room() -> Vec<u8> {
    vec![0; LONGEST]
}
