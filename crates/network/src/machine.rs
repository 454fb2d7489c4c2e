//! The machine's addresses, in a namespace for a user's networks: there they end, so that nothing of the machine's is reached by them.
//!
//! The namespace has the addresses of one link of the machine's, by pasta(1). A route of its own for each of the others has the kernel answer for them
//! as well. So all that looks at a destination agrees about it: the rules that hold connections back, those of egress policies, and pasta, to which
//! no packet for such an address comes.

use crate::link::{LinkError, failed};
use crate::link_state::{UPLINK, index_of};
use crate::netlink::{Attribute, Message, Request, Socket, number};
use crate::route::{ends_here, own_networks, own_route};
use crate::subnet::{Address, LINK_LOCAL, LOOPBACK, Prefix};
use rustix::fd::{AsFd, BorrowedFd};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use tote_sys::Errno;

const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
/// Length in bytes of `struct ifaddrmsg`.
const ADDRESS_HEADER: usize = 8;

/// IPv4 in addresses of IPv6, which a socket of both takes for the former.
const MAPPED: (Ipv6Addr, u8) = (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96);

/// The first bits of the addresses that end in the namespace by a route of its own.
type Closed = BTreeSet<(IpAddr, u8)>;

/// The machine's addresses, kept in step in a network namespace.
#[derive(Debug)]
pub struct MachineAddresses {
    /// Sockets that hear of changes, here and in the namespace.
    told: [Socket; 2],
    /// Sockets that ask and change, here and in the namespace.
    here: Socket,
    inside: Socket,
    closed: Closed,
}

impl MachineAddresses {
    /// Hears of the addresses of this process's network namespace from now on. The other one gets its routes by
    /// [`MachineAddresses::close`].
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn of(network: BorrowedFd<'_>) -> Result<Self, LinkError> {
        let open = || {
            let told = [
                Socket::new()?.hear_addresses()?,
                Socket::inside(network)?.hear_addresses()?,
            ];
            Ok(Self {
                told,
                here: Socket::new()?,
                inside: Socket::inside(network)?,
                closed: Closed::new(),
            })
        };
        open().map_err(failed("listen for the machine's addresses"))
    }

    /// Descriptors that can be read when addresses have changed.
    #[must_use]
    pub fn fds(&self) -> [BorrowedFd<'_>; 2] {
        [self.told[0].as_fd(), self.told[1].as_fd()]
    }

    /// Whether addresses have changed since the last call, here or in the namespace.
    #[must_use]
    pub fn have_changed(&self) -> bool {
        // Both are to be read.
        self.told[0].drain() | self.told[1].drain()
    }

    /// Has exactly the present addresses of the machine end in the namespace, but for those of networks that are there.
    ///
    /// # Errors
    /// [`LinkError`]: some may still lead to the machine.
    pub fn close(&mut self) -> Result<(), LinkError> {
        let change = || failed("close the machine's addresses to containers");
        let mut wanted = Closed::new();
        self.wanted::<Ipv4Addr>(LOOPBACK, &mut wanted).map_err(change())?;
        self.wanted::<Ipv6Addr>(LINK_LOCAL, &mut wanted)
            .map_err(change())?;
        wanted.insert((MAPPED.0.into(), MAPPED.1));
        for gone in self.closed.difference(&wanted) {
            self.route(*gone, false).map_err(change())?;
        }
        for new in wanted.difference(&self.closed) {
            self.route(*new, true).map_err(change())?;
        }
        self.closed = wanted;
        Ok(())
    }

    /// Adds the machine's own networks, but for `never`, that are in no network of the namespace.
    fn wanted<A: Address>(&self, never: Prefix<A>, wanted: &mut Closed) -> Result<(), Errno> {
        // A namespace without that link leads nowhere.
        let uplink = index_of(&self.inside, UPLINK).ok();
        let inside = addresses::<A>(&self.inside)?;
        let is_inside = |own: Prefix<A>| {
            inside.iter().any(|there| match there.network {
                Some(network) if Some(there.link) != uplink => network.overlaps(own),
                _ => own == Prefix::of_one(there.address),
            })
        };
        let addresses = addresses::<A>(&self.here)?.into_iter();
        let own = addresses
            .map(|own| Prefix::of_one(own.address))
            .chain(own_networks::<A>(&self.here)?);
        let own = own.filter(|own| !never.overlaps(*own) && !is_inside(*own));
        wanted.extend(own.map(|own| (own.address().into(), own.prefix())));
        Ok(())
    }

    fn route(&self, (address, prefix): (IpAddr, u8), is_new: bool) -> Result<(), Errno> {
        let request = match address {
            IpAddr::V4(address) => Prefix::around(address, prefix).map(|to| own_route(to, is_new)),
            IpAddr::V6(address) => Prefix::around(address, prefix).map(|to| own_route(to, is_new)),
        };
        let refused = self.inside.batch(request.into_iter().collect())?;
        match refused.first() {
            // The namespace has the address by another way, or had.
            None | Some((_, Errno::EXIST | Errno::SRCH)) => Ok(()),
            // A kernel or a namespace without IPv6 leads nothing there.
            Some((_, Errno::OPNOTSUPP | Errno::AFNOSUPPORT | Errno::ACCESS)) if address.is_ipv6() => Ok(()),
            Some((_, errno)) => Err(*errno),
        }
    }
}

/// Whether packets for an address end in this process's network namespace; false where the kernel does not say.
#[must_use]
pub fn is_own(address: IpAddr) -> bool {
    let ends = Socket::new().and_then(|socket| match address {
        IpAddr::V4(address) => ends_here(&socket, address),
        IpAddr::V6(address) => ends_here(&socket, address),
    });
    ends.unwrap_or(false)
}

/// An address of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Own<A> {
    link: u32,
    address: A,
    /// The network of the address; `None` for one that is alone.
    network: Option<Prefix<A>>,
}

impl<A: Address> Own<A> {
    /// Reads an RTM_NEWADDR; `None` for one of another protocol.
    fn read(message: &Message) -> Option<Self> {
        let (header, rest) = message.body.split_at_checked(ADDRESS_HEADER)?;
        let [family, prefix, ..] = header.get(..4)? else {
            return None;
        };
        if message.kind != RTM_NEWADDR || *family != A::FAMILY {
            return None;
        }
        let (mut own, mut other) = (None, None);
        for attribute in Attribute::all(rest) {
            match attribute.kind {
                // The other end's address where there is one, and the own one otherwise.
                IFA_ADDRESS => other = A::from_bytes(attribute.value),
                IFA_LOCAL => own = A::from_bytes(attribute.value),
                _ => {}
            }
        }
        Some(Self {
            link: number(header.get(4..8)?)?,
            address: own.or(other)?,
            network: other.and_then(|other| Prefix::around(other, *prefix)),
        })
    }
}

/// The addresses of all links of one protocol, in the namespace of the socket.
fn addresses<A: Address>(socket: &Socket) -> Result<Vec<Own<A>>, Errno> {
    let mut header = [0; ADDRESS_HEADER];
    header[0] = A::FAMILY;
    let messages = socket.ask(Request::new(RTM_GETADDR, &header), true)?;
    Ok(messages.iter().filter_map(Own::read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::messages;

    #[test]
    fn hostile_messages_are_read_as_far_as_they_are_right() {
        let mut request = Request::new(RTM_NEWADDR, &[[2, 24, 0, 0], 7u32.to_ne_bytes()].concat());
        request.attribute(IFA_ADDRESS, &[10, 0, 0, 1]);
        request.attribute(IFA_LOCAL, &[10, 0, 0, 2]);
        let bytes = request.finish(0);
        let mut message = messages(&bytes).remove(0);
        let own = Own::<Ipv4Addr>::read(&message).unwrap();
        assert_eq!((own.link, own.address), (7, Ipv4Addr::new(10, 0, 0, 2)));
        assert_eq!(own.network, Some("10.0.0.0/24".parse().unwrap()));
        assert_eq!(Own::<Ipv6Addr>::read(&message), None);
        while message.body.pop().is_some() {
            assert!(Own::<Ipv4Addr>::read(&message).is_none_or(|own| own.link == 7));
        }
    }

    #[test]
    fn own_addresses_are_told_from_others() {
        assert!(is_own("127.0.0.1".parse().unwrap()) && is_own("127.9.8.7".parse().unwrap()));
        assert!(!is_own("192.0.2.1".parse().unwrap()));
    }
}
