//! The numbers by which events name what they are about.

use rustix::event::epoll::EventData;

/// Which of a connection's sockets something has happened to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Inside,
}

/// The number of a socket: that of what is served, and for a connection which of its sockets it is.
pub(crate) fn told(number: u64, side: Side) -> EventData {
    EventData::new_u64(number << 1 | u64::from(side == Side::Inside))
}

pub(crate) fn side_of(data: u64) -> Side {
    if data & 1 == 1 { Side::Inside } else { Side::Client }
}
