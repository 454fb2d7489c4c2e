//! Protocols that have ports, and whether a port of the host's is free.

use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::time::Duration;
use tote_sys::Errno;

/// A protocol that has ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Transport {
    /// Every one of them.
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Udp, Self::Sctp];

    /// `tcp` and its like.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }

    /// The protocol of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str() == name)
    }

    /// The number in an IP header.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
            Self::Sctp => 132,
        }
    }

    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.number() == number)
    }
}

/// Asks the kernel whether a program of the host could have this port now: `false` where one has it. Nothing keeps the port.
///
/// # Errors
/// [`Errno::ADDRNOTAVAIL`] where the host has no such address. Other failures say nothing of the port, and count as `true`:
/// a kernel without SCTP, or a caller without rights over low ports.
pub fn is_free(transport: Transport, address: SocketAddr) -> Result<bool, Errno> {
    let (kind, protocol) = match transport {
        Transport::Tcp => (SocketType::STREAM, ipproto::TCP),
        Transport::Udp => (SocketType::DGRAM, ipproto::UDP),
        Transport::Sctp => (SocketType::STREAM, ipproto::SCTP),
    };
    let family = if address.is_ipv6() {
        AddressFamily::INET6
    } else {
        AddressFamily::INET
    };
    let bound =
        rustix::net::socket_with(family, kind, SocketFlags::CLOEXEC, Some(protocol)).and_then(|socket| {
            if address.is_ipv6() {
                sockopt::set_ipv6_v6only(&socket, true)?;
            }
            if transport == Transport::Tcp {
                // Connections that have ended do not count, only a socket that listens.
                sockopt::set_socket_reuseaddr(&socket, true)?;
            }
            rustix::net::bind(&socket, &address)
        });
    match bound {
        Err(Errno::ADDRINUSE) => Ok(false),
        Err(Errno::ADDRNOTAVAIL) => Err(Errno::ADDRNOTAVAIL),
        Ok(()) | Err(_) => Ok(true),
    }
}

/// Time for an answer of this machine's own.
const ANSWER: Duration = Duration::from_millis(50);

/// Whether connections of TCP to a port of this machine, at which no program listens, are taken all the same: a packet filter leads them
/// elsewhere, whose rules the caller may not read. What they lead to sees a connection that ends at once.
#[must_use]
pub fn is_led_elsewhere(address: SocketAddr) -> bool {
    let local: IpAddr = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let connected = TcpStream::connect_timeout(&SocketAddr::new(local, address.port()), ANSWER);
    // A socket whose own port is that one by chance is connected with itself.
    connected.is_ok_and(|socket| {
        socket
            .local_addr()
            .is_ok_and(|own| Ok(own) != socket.peer_addr().map_err(drop))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn a_port_is_free_unless_somebody_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let any = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port());
        let any6 = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
        assert_eq!(is_free(Transport::Tcp, address), Ok(false));
        assert_eq!(is_free(Transport::Tcp, any), Ok(false));
        assert_eq!(is_free(Transport::Tcp, any6), Ok(true));
        drop(listener);
        assert_eq!(is_free(Transport::Tcp, address), Ok(true));
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap();
        assert_eq!(is_free(Transport::Udp, address), Ok(false));
        let foreign = "192.0.2.77:80".parse().unwrap();
        assert_eq!(is_free(Transport::Tcp, foreign), Err(Errno::ADDRNOTAVAIL));
    }
}
