//! accept(2) for relays that are told once of each client.

use crate::Errno;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{SocketAddrAny, SocketFlags, acceptfrom_with};
use std::time::Duration;

/// Time after which a relay tries again to accept a client for which there was no room: no event tells that there is some.
pub const ACCEPT_AGAIN: Duration = Duration::from_millis(10);

/// Result of an attempt to accept a client.
#[derive(Debug)]
pub enum Accepted {
    /// A client, and the client's address.
    Client(OwnedFd, Option<SocketAddrAny>),
    /// No client waits; the next one is an event.
    NoMore,
    /// A client may wait for which this process or the machine has no room, such as a descriptor. An edge-triggered epoll(7) has told of
    /// that client already, so the listener has to be served again after [`ACCEPT_AGAIN`].
    NoRoom,
}

/// Accepts a client without waiting.
pub fn accept(listener: impl AsFd) -> Accepted {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    loop {
        match acceptfrom_with(&listener, flags) {
            Ok((client, address)) => return Accepted::Client(client, address),
            Err(Errno::AGAIN) => return Accepted::NoMore,
            // A client that is gone, and errors of its network, which accept(2) hands on.
            Err(
                Errno::INTR
                | Errno::CONNABORTED
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::NETDOWN
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH,
            ) => {}
            Err(_) => return Accepted::NoRoom,
        }
    }
}
