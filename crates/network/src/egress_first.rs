//! The first attempt to reach a destination that an egress policy refuses, which tells who attempts it.
//!
//! A connection that the kernel resets at once is over before another process could look at its socket. So the rules hold the
//! first packet of TCP to such a destination back, and tell the process that watches the container. That process finds the socket,
//! which waits meanwhile, and sends the packet again from inside: now the rules refuse it as all that follow. If that process does not
//! listen, the container's kernel sends the packet again after a second. Of UDP the rules only tell: a socket outlives its refusal.

use crate::Transport;
use crate::egress::{Egress, MOST_NOTED, NOTED, REFUSED};
use crate::egress_rule::{self as rule, Family};
use crate::egress_verdict as verdict;
use crate::filter::{self, HEADER, NFT_MSG_NEWRULE, header, transaction};
use crate::netlink::{Attribute, NLM_F_CREATE, Request, Socket, messages, number};
use crate::nft_table::{self as nft, NETDEV, Set};
use crate::rule::expression;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};
use std::cell::OnceCell;
use std::net::{IpAddr, SocketAddr};
use tote_sys::{Errno, best_effort};

/// The destinations whose first packet has been told of.
const TOLD: &str = "told";
/// Messages of nfnetlink_log.
const NFULNL_MSG_PACKET: u16 = 4 << 8;
const NFULNL_MSG_CONFIG: u16 = 4 << 8 | 1;
const NFULA_PAYLOAD: u16 = 9;
const NFULA_CFG_CMD: u16 = 1;
const NFULA_CFG_MODE: u16 = 2;
const NFULA_CFG_QTHRESH: u16 = 5;
const NFULNL_CFG_CMD_BIND: u8 = 1;
const NFULNL_COPY_PACKET: u8 = 2;
const NFTA_LOG_GROUP: u16 = 1;
const NFTA_LOG_QTHRESHOLD: u16 = 4;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// The place of the inode in a `struct inet_diag_msg`.
const INODE: usize = 68;
/// The most bytes of a packet that are told.
const MOST_BYTES: u32 = 2048;
/// Groups below these are for people's own loggers, and a container begins to look for a free one at a place that follows from its id.
const FIRST_GROUP: u16 = 0x8000;
const TRIES: u16 = 64;
/// Where the header of TCP has its checksum.
const TCP_CHECKSUM: usize = 16;
const TCP_HEADER: usize = 20;
/// The flags by which a connection is refused.
const RST_ACK: u8 = 0x14;

/// A socket that is told of first attempts, in the caller's network namespace.
#[derive(Debug)]
pub struct FirstAttempts {
    socket: Socket,
    group: u16,
}

/// An attempt to reach a destination that was not attempted before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The protocol: TCP or UDP.
    pub transport: Transport,
    /// The container's side.
    pub source: SocketAddr,
    /// The destination that is refused.
    pub destination: SocketAddr,
    /// The packet, which is held back if it is TCP's.
    packet: Vec<u8>,
}

impl FirstAttempts {
    /// A socket for the container of that id, which is told of nothing before [`Egress::tell`].
    ///
    /// # Errors
    /// The kernel's; [`Errno::BUSY`] where others have all groups that were tried.
    pub fn new(id: &str) -> Result<Self, Errno> {
        let socket = Socket::of_filter()?;
        let digits = id
            .get(..4)
            .and_then(|digits| u16::from_str_radix(digits, 16).ok());
        let begin = digits.unwrap_or_default();
        for place in 0..TRIES {
            let group = FIRST_GROUP | begin.wrapping_add(place);
            match socket.acknowledged(bind(group)) {
                Err(Errno::BUSY) => {}
                Err(errno) => return Err(errno),
                Ok(()) => return Ok(Self { socket, group }),
            }
        }
        Err(Errno::BUSY)
    }

    /// A socket that is told of what rules log to that group, in the network namespace that the socket belongs to.
    pub(crate) fn of_group(socket: Socket, group: u16) -> Result<Self, Errno> {
        socket.acknowledged(bind(group))?;
        Ok(Self { socket, group })
    }

    /// Takes the attempts that have been told, without waiting.
    #[must_use]
    pub fn take(&self) -> Vec<Attempt> {
        let (mut buffer, mut attempts) = (vec![0; 16384], Vec::new());
        loop {
            match rustix::net::recv(&self.socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => {
                    let told = messages(buffer.get(..length).unwrap_or_default());
                    let packets = told.iter().filter(|one| one.kind == NFULNL_MSG_PACKET);
                    attempts.extend(packets.filter_map(|one| Attempt::read(&one.body)));
                }
                // Told too much at a time: the container's kernel sends again what was lost.
                Err(Errno::INTR | Errno::NOBUFS) => {}
                Err(_) => return attempts,
            }
        }
    }
}

impl AsFd for FirstAttempts {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The request to be told what rules log to a group, each packet at once.
fn bind(group: u16) -> Request {
    let mut body = [0; HEADER];
    body[2..].copy_from_slice(&group.to_be_bytes());
    let mut request = Request::new(NFULNL_MSG_CONFIG, &body);
    request.attribute(NFULA_CFG_CMD, &[NFULNL_CFG_CMD_BIND]);
    let mut mode = [0; 6];
    mode[..4].copy_from_slice(&MOST_BYTES.to_be_bytes());
    mode[4] = NFULNL_COPY_PACKET;
    request.attribute(NFULA_CFG_MODE, &mode);
    request.attribute(NFULA_CFG_QTHRESH, &1u32.to_be_bytes());
    request
}

impl Attempt {
    /// Reads a message of nfnetlink_log.
    fn read(body: &[u8]) -> Option<Self> {
        let mut attributes = Attribute::all(body.get(HEADER..)?);
        let packet = attributes.find(|one| one.kind == NFULA_PAYLOAD)?.value;
        let (number, from, to, rest) = if packet.first()? >> 4 == 4 {
            let address = |at: usize| Some(IpAddr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
            (*packet.get(9)?, address(12)?, address(16)?, packet.get(20..)?)
        } else {
            let address =
                |at: usize| Some(IpAddr::from(<[u8; 16]>::try_from(packet.get(at..at + 16)?).ok()?));
            (*packet.get(6)?, address(8)?, address(24)?, packet.get(40..)?)
        };
        let port = |at: usize| {
            Some(u16::from_be_bytes(
                <[u8; 2]>::try_from(rest.get(at..at + 2)?).ok()?,
            ))
        };
        Some(Self {
            transport: Transport::of_number(number)?,
            source: SocketAddr::new(from, port(0)?),
            destination: SocketAddr::new(to, port(2)?),
            packet: packet.to_vec(),
        })
    }

    /// The question for the socket of TCP with both addresses.
    fn question(&self) -> Request {
        let family = if self.destination.is_ipv4() {
            AF_INET
        } else {
            AF_INET6
        };
        let mut body = vec![family, Transport::Tcp.number(), 0, 0];
        body.extend([0xff; 4]);
        body.extend(self.source.port().to_be_bytes());
        body.extend(self.destination.port().to_be_bytes());
        for side in [self.source, self.destination] {
            let mut address = rule::octets(side.ip());
            address.resize(16, 0);
            body.extend(address);
        }
        // Of any link, and with any cookie.
        body.extend([0; 4]);
        body.extend([0xff; 8]);
        Request::new(SOCK_DIAG_BY_FAMILY, &body)
    }

    /// The packet with the checksum that the link would have filled in.
    pub(crate) fn with_checksum(&self) -> Option<Vec<u8>> {
        self.filled_in(self.packet.clone())
    }

    /// The answer of a destination that refuses the connection.
    pub(crate) fn refusal(&self) -> Option<Vec<u8>> {
        let (addresses, length, head) = match self.destination {
            SocketAddr::V4(_) => (12, 4, 20),
            SocketAddr::V6(_) => (8, 16, 40),
        };
        let mut packet = self.packet.get(..head + TCP_HEADER)?.to_vec();
        // The kernel fills in the length and the checksum of a header of IPv4.
        if self.destination.is_ipv6() {
            packet
                .get_mut(4..6)?
                .copy_from_slice(&(TCP_HEADER as u16).to_be_bytes());
        } else {
            *packet.get_mut(0)? = 0x45;
            packet
                .get_mut(2..4)?
                .copy_from_slice(&((head + TCP_HEADER) as u16).to_be_bytes());
        }
        let (from, to) = packet
            .get_mut(addresses..addresses + 2 * length)?
            .split_at_mut(length);
        from.swap_with_slice(to);
        let tcp = packet.get_mut(head..)?;
        let (from, to) = tcp.get_mut(..4)?.split_at_mut(2);
        from.swap_with_slice(to);
        let sequence = u32::from_be_bytes(tcp.get(4..8)?.try_into().ok()?);
        tcp.get_mut(4..8)?.fill(0);
        tcp.get_mut(8..12)?
            .copy_from_slice(&sequence.wrapping_add(1).to_be_bytes());
        tcp.get_mut(12..20)?
            .copy_from_slice(&[0x50, RST_ACK, 0, 0, 0, 0, 0, 0]);
        self.filled_in(packet)
    }

    fn filled_in(&self, mut packet: Vec<u8>) -> Option<Vec<u8>> {
        let (addresses, head) = match self.destination {
            SocketAddr::V4(_) => (12..20, 20),
            SocketAddr::V6(_) => (8..40, 40),
        };
        let length = u16::try_from(packet.len().checked_sub(head)?).ok()?;
        if usize::from(length) < TCP_HEADER {
            return None;
        }
        packet
            .get_mut(head + TCP_CHECKSUM..head + TCP_CHECKSUM + 2)?
            .fill(0);
        let pseudo = u64::from(length) + u64::from(Transport::Tcp.number());
        let sum = folded(pseudo + words(packet.get(addresses)?) + words(packet.get(head..)?));
        packet
            .get_mut(head + TCP_CHECKSUM..head + TCP_CHECKSUM + 2)?
            .copy_from_slice(&(!sum).to_be_bytes());
        Some(packet)
    }
}

/// A container's network namespace, as far as first attempts are looked at there.
#[derive(Debug)]
pub struct Inside {
    network: OwnedFd,
    /// Socket that tells of sockets, and those that send packets of IPv4 and of IPv6. Each is made once, at the first need or before it.
    teller: OnceCell<Socket>,
    senders: [OnceCell<OwnedFd>; 2],
}

impl Inside {
    /// A namespace that nothing is done with yet.
    #[must_use]
    pub fn new(network: OwnedFd) -> Self {
        Self {
            network,
            teller: OnceCell::new(),
            senders: Default::default(),
        }
    }

    /// Makes the sockets that a look at an attempt over IPv4 takes: each takes a process for a moment, and the program whose attempt is held back
    /// waits for it, on a busy machine for several milliseconds. Where that fails, the first need tries again.
    pub fn prepare(&self) {
        let [v4, _] = &self.senders;
        best_effort(self.teller().and(self.sender(v4, AddressFamily::INET)));
    }

    fn teller(&self) -> Result<&Socket, Errno> {
        once(&self.teller, || Socket::of_sockets_inside(self.network.as_fd()))
    }

    fn sender<'a>(&self, place: &'a OnceCell<OwnedFd>, family: AddressFamily) -> Result<&'a OwnedFd, Errno> {
        let kind = (family, SocketType::RAW, Some(ipproto::RAW));
        once(place, || tote_sys::socket_in(self.network.as_fd(), kind))
    }

    /// The inode of the socket of TCP from which an attempt comes.
    ///
    /// # Errors
    /// The kernel's: [`Errno::NOENT`] if the socket is gone, or if the kernel does not tell of sockets.
    pub fn socket_of(&self, attempt: &Attempt) -> Result<u32, Errno> {
        let answers = self.teller()?.ask(attempt.question(), false)?;
        let inode = |body: &[u8]| number(body.get(INODE..INODE + 4)?);
        answers
            .iter()
            .find_map(|one| inode(&one.body))
            .ok_or(Errno::NOENT)
    }

    /// Sends a packet that was held back again, and so has it refused.
    ///
    /// # Errors
    /// The kernel's.
    pub fn repeat(&self, attempt: &Attempt) -> Result<(), Errno> {
        if attempt.transport != Transport::Tcp {
            return Ok(());
        }
        let [v4, v6] = &self.senders;
        let (place, family) = match attempt.destination {
            SocketAddr::V4(_) => (v4, AddressFamily::INET),
            SocketAddr::V6(_) => (v6, AddressFamily::INET6),
        };
        let sender = self.sender(place, family)?;
        // A raw socket takes the port for a protocol.
        let to = SocketAddr::new(attempt.destination.ip(), 0);
        let packet = attempt.with_checksum().ok_or(Errno::INVAL)?;
        rustix::net::sendto(sender, &packet, SendFlags::DONTWAIT, &to).map(drop)
    }
}

fn once<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T, Errno>) -> Result<&T, Errno> {
    match cell.get() {
        Some(made) => Ok(made),
        None => make().map(|made| cell.get_or_init(|| made)),
    }
}

/// The sum of the words of 16 bits.
fn words(bytes: &[u8]) -> u64 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low));
    bytes.chunks(2).map(word).sum()
}

fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

impl Egress {
    /// Has first attempts told to this socket, and those of TCP held back, from now on until the rules are made again. Families of
    /// addresses of which they are told already stay as they are.
    ///
    /// # Errors
    /// The kernel's: [`Errno::NOENT`] where it cannot log packets, or where another program has flushed the rules.
    pub fn tell(&self, told: &FirstAttempts) -> Result<(), Errno> {
        let mut requests = Vec::new();
        for family in self.families {
            let (name, key) = (family.set(TOLD), family.note_key());
            if nft::has_set(&self.table, &name)? {
                continue;
            }
            let set = Set {
                name: &name,
                key: &key,
                key_len: family.key_len(&key),
                is_dynamic: true,
                size: MOST_NOTED,
            };
            requests.push(nft::set(&self.table, &set));
            for transport in [Transport::Udp, Transport::Tcp] {
                requests.push(self.first(family, transport, told.group));
            }
        }
        if requests.is_empty() {
            return Ok(());
        }
        transaction(requests)
    }

    /// The rule, which comes before the others that refuse. Where the set is full, it ends, and the next ones refuse at once.
    fn first(&self, family: &Family, transport: Transport, group: u16) -> Request {
        let mut request = Request::new(NFT_MSG_NEWRULE, &header(NETDEV)).flags(NLM_F_CREATE);
        request.name(filter::NFTA_RULE_TABLE, &self.table);
        request.name(filter::NFTA_RULE_CHAIN, &family.chain(REFUSED));
        request.nest(filter::NFTA_RULE_EXPRESSIONS, &[], |list| {
            rule::protocol(list, transport.number());
            if transport == Transport::Tcp {
                rule::begins_connection(list);
            }
            family.note_service(list);
            rule::is_not_in(list, &family.set(TOLD));
            rule::remember(list, &family.set(TOLD), NOTED);
            expression(list, "log", |data| {
                data.attribute(NFTA_LOG_GROUP, &group.to_be_bytes());
                data.attribute(NFTA_LOG_QTHRESHOLD, &1u16.to_be_bytes());
            });
            if transport == Transport::Tcp {
                verdict::drop(list);
            }
        });
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(packet: &[u8]) -> Vec<u8> {
        let mut request = Request::new(NFULNL_MSG_PACKET, &[0; HEADER]);
        request.attribute(1, &[0; 4]);
        request.attribute(NFULA_PAYLOAD, packet);
        messages(&request.finish(0))[0].body.clone()
    }

    #[test]
    fn a_packet_is_read_and_gets_its_checksum() {
        let mut packet = vec![
            0x45, 0, 0, 40, 0, 7, 0x40, 0, 64, 6, 0, 0, 10, 210, 0, 2, 198, 51, 100, 8,
        ];
        packet.extend([
            0x9c, 0x40, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 2, 4, 0, 0xab, 0xcd, 0, 0,
        ]);
        let attempt = Attempt::read(&told(&packet)).unwrap();
        assert_eq!(attempt.transport, Transport::Tcp);
        assert_eq!(attempt.source, "10.210.0.2:40000".parse().unwrap());
        assert_eq!(attempt.destination, "198.51.100.8:80".parse().unwrap());
        let sent = attempt.with_checksum().unwrap();
        // The sum over a segment with its checksum is all ones.
        assert_eq!(folded(20 + 6 + words(&sent[12..])), 0xffff);
        assert_eq!(sent[..36], packet[..36]);
        let refusal = attempt.refusal().unwrap();
        assert_eq!(folded(20 + 6 + words(&refusal[12..])), 0xffff);
        assert_eq!(refusal[12..20], [198, 51, 100, 8, 10, 210, 0, 2]);
        assert_eq!(
            refusal[20..34],
            [0, 80, 0x9c, 0x40, 0, 0, 0, 0, 0, 0, 0, 2, 0x50, RST_ACK]
        );
    }

    #[test]
    fn cut_and_hostile_packets_do_not_panic() {
        for first in [0x45, 0x60, 0xff, 0] {
            for number in [6, 17, 132, 255] {
                let mut packet = [number; 64];
                packet[0] = first;
                for length in 0..packet.len() {
                    if let Some(attempt) = Attempt::read(&told(&packet[..length])) {
                        attempt.with_checksum();
                        attempt.refusal();
                    }
                }
            }
        }
        assert_eq!(Attempt::read(&[]), None);
        assert_eq!(words(&[1]), 256);
    }
}
