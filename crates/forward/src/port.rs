//! A port that leads inside.

use std::net::{IpAddr, SocketAddr};

/// Which protocol a port is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// TCP.
    Stream,
    /// UDP.
    Datagram,
}

/// A port that leads inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Forward {
    /// The protocol.
    pub kind: Kind,
    /// The address and port where clients come; 0.0.0.0 and :: are each address of that protocol.
    pub from: SocketAddr,
    /// The address and port inside, of the same protocol.
    pub to: SocketAddr,
    /// Clients that the program would answer by another way, by the first bits of their addresses: it does not see these.
    pub beside: Option<(IpAddr, u8)>,
}

impl Forward {
    /// Whether the program may see a client of that address.
    pub(crate) fn may_see(&self, client: IpAddr) -> bool {
        let is_beside = match (self.beside, client) {
            (Some((IpAddr::V4(of), bits)), IpAddr::V4(client)) => {
                let differing = of.to_bits() ^ client.to_bits();
                differing.leading_zeros() >= u32::from(bits)
            }
            (Some((IpAddr::V6(of), bits)), IpAddr::V6(client)) => {
                let differing = of.to_bits() ^ client.to_bits();
                differing.leading_zeros() >= u32::from(bits)
            }
            _ => false,
        };
        !is_beside && !client.is_loopback()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_the_program_are_not_shown() {
        let port = |beside: &str, bits| {
            let to = "192.0.2.1:80".parse().unwrap();
            Forward {
                kind: Kind::Stream,
                from: to,
                to,
                beside: Some((beside.parse().unwrap(), bits)),
            }
        };
        let sees = |port: &Forward, client: &str| port.may_see(client.parse().unwrap());
        let port4 = port("10.210.0.0", 16);
        assert!(!sees(&port4, "10.210.7.7") && sees(&port4, "10.211.7.7") && sees(&port4, "fd00::1"));
        assert!(!sees(&port4, "127.0.0.1") && !sees(&port4, "::1"));
        let port6 = port("fd00:7::", 64);
        assert!(!sees(&port6, "fd00:7::9") && sees(&port6, "fd00:8::9"));
        assert!(!sees(&port("0.0.0.0", 0), "192.0.2.1"));
    }
}
