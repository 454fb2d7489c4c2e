//! Connections that programs of another network namespace begin, which go on from this process's.
//!
//! The first packet of such a connection is held back by the owner, which says whose it is. When the destination has answered, the
//! owner sends that packet to a socket that listens for every address (tproxy), so that the program is told what the destination has said.

use crate::flow::reset;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};
use tote_sys::{Errno, best_effort};

/// How long a destination that has answered waits for the program, whose next packet tells that it is still there.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most connections whose destination has not answered.
const MOST_BEGUN: usize = 1024;

/// Both ends of a connection: the program's, and the destination's.
pub type Ends = (SocketAddr, SocketAddr);

/// State of a connection on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begun {
    /// The destination has not answered; it will be among [`Forwarder::answers`](crate::Forwarder::answers).
    Waits,
    /// The destination has taken the connection, and the program has not been told.
    Answered,
}

/// Answer of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Destination that takes the connection.
    Takes,
    /// Destination that refuses the connection.
    Refuses,
    /// No answer, or no way there.
    Silent,
}

/// Connections on their way to a destination.
#[derive(Debug, Default)]
pub(crate) struct Onward {
    /// Sockets by number, whose destination has not answered.
    begun: BTreeMap<u64, (Ends, OwnedFd)>,
    /// Sockets whose program has not been told yet, and since when.
    answered: BTreeMap<Ends, (OwnedFd, Instant)>,
    answers: Vec<(Ends, Answer)>,
}

impl Onward {
    /// State of a connection whose first packet has come again; `None` of a new one.
    pub(crate) fn find(&self, ends: Ends) -> Option<Begun> {
        if self.answered.contains_key(&ends) {
            return Some(Begun::Answered);
        }
        let mut begun = self.begun.values();
        begun.any(|(of, _)| *of == ends).then_some(Begun::Waits)
    }

    /// Forgets destinations whose program does not come.
    pub(crate) fn forget_old(&mut self) {
        self.answered.retain(|_, (_, since)| since.elapsed() < PATIENCE);
    }

    /// Begins to connect to a destination, and gives the socket, which is to be watched; `None` if the answer is there at once.
    pub(crate) fn begin(&mut self, number: u64, ends: Ends) -> Result<Option<&OwnedFd>, Errno> {
        let (_, destination) = ends;
        if self.begun.len() >= MOST_BEGUN || !is_elsewhere(destination.ip()) {
            return Err(Errno::ADDRNOTAVAIL);
        }
        let family = match destination {
            SocketAddr::V4(_) => AddressFamily::INET,
            SocketAddr::V6(_) => AddressFamily::INET6,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
        // Small parts are not to wait for the destination's word on former ones.
        best_effort(sockopt::set_tcp_nodelay(&socket, true));
        match tote_sys::connect_at_once(&socket, &destination) {
            // The event of the socket says what has become of it.
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(errno) => {
                self.answers.push((ends, of(errno)));
                return Ok(None);
            }
        }
        if is_own(&socket, destination.ip()) {
            reset(socket.as_fd());
            self.answers.push((ends, Answer::Refuses));
            return Ok(None);
        }
        let (_, socket) = self.begun.entry(number).or_insert((ends, socket));
        Ok(Some(socket))
    }

    /// Looks what has become of the socket of that number. Gives whether there is one.
    pub(crate) fn look(&mut self, number: u64) -> bool {
        let Some((ends, socket)) = self.begun.get(&number) else {
            return false;
        };
        let answer = match sockopt::socket_error(socket) {
            Ok(Ok(())) if rustix::net::getpeername(socket).is_err() => return true,
            Ok(Ok(())) => Answer::Takes,
            Ok(Err(errno)) | Err(errno) => of(errno),
        };
        self.answers.push((*ends, answer));
        if let Some((ends, socket)) = self.begun.remove(&number)
            && answer == Answer::Takes
        {
            self.answered.insert(ends, (socket, Instant::now()));
        }
        true
    }

    /// Gives the connection of a program that has been told.
    pub(crate) fn take(&mut self, ends: Ends) -> Option<OwnedFd> {
        self.answered.remove(&ends).map(|(socket, _)| socket)
    }

    pub(crate) fn answers(&mut self) -> Vec<(Ends, Answer)> {
        std::mem::take(&mut self.answers)
    }

    /// Adds that number of destinations, which have answered then.
    #[cfg(test)]
    pub(crate) fn fill(&mut self, number: usize, since: Instant) {
        let flags = SocketFlags::CLOEXEC;
        for port in (1..).take(number) {
            let socket = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None);
            let ends = (
                SocketAddr::from(([10, 0, 0, 9], port)),
                SocketAddr::from(([192, 0, 2, 1], 80)),
            );
            self.answered.insert(ends, (socket.unwrap(), since));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.begun.len() + self.answered.len()
    }
}

fn of(errno: Errno) -> Answer {
    match errno {
        Errno::CONNREFUSED | Errno::CONNRESET => Answer::Refuses,
        _ => Answer::Silent,
    }
}

/// Whether a socket calls from the address that it calls, which is one of this machine then. The owner lets no packets for such an address come
/// here; the machine may have got the address a moment ago.
fn is_own(socket: &OwnedFd, destination: IpAddr) -> bool {
    let own = rustix::net::getsockname(socket).and_then(SocketAddr::try_from);
    own.is_ok_and(|own| own.ip() == destination)
}

/// Whether an address may be a program's destination: none of this machine's loopback device, by whatever name.
fn is_elsewhere(to: IpAddr) -> bool {
    match to {
        IpAddr::V4(to) => {
            let first = to.octets()[0];
            !(first == 0 || first >= 224 || to.is_loopback() || to.is_link_local())
        }
        IpAddr::V6(to) => {
            let is_embedded = to.to_ipv4().is_some();
            !(is_embedded || to.is_unspecified() || to.is_multicast() || to.is_unicast_link_local())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, TcpListener, UdpSocket};

    #[test]
    fn a_program_of_this_machine_is_no_destination() {
        // Nothing is sent: the kernel says by which address it would be.
        let asked = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        if asked.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).is_err() {
            println!("skipped: needs a default route");
            return;
        }
        let own = asked.local_addr().unwrap().ip();
        let listener = TcpListener::bind((own, 0)).unwrap();
        let ends = (
            SocketAddr::new(Ipv4Addr::new(192, 0, 2, 7).into(), 7),
            listener.local_addr().unwrap(),
        );
        let mut onward = Onward::default();
        assert!(onward.begin(1, ends).unwrap().is_none());
        assert_eq!(onward.answers(), [(ends, Answer::Refuses)]);
        assert_eq!((onward.find(ends), onward.len()), (None, 0));
    }

    #[test]
    fn no_name_of_the_loopback_device_is_a_destination() {
        for inward in [
            "0.0.0.0",
            "0.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::127.0.0.1",
            "fe80::1",
            "ff02::1",
        ] {
            assert!(!is_elsewhere(inward.parse().unwrap()), "{inward}");
        }
        for outward in ["192.0.2.9", "10.1.2.3", "2001:db8::1", "fd00::1"] {
            assert!(is_elsewhere(outward.parse().unwrap()), "{outward}");
        }
    }
}
