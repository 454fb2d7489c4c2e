//! netlink(7), blocking: messages as bytes, and a socket that sends one and reads what comes back.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tote_sys::Errno;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
/// The kernel is not to change what is there.
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
const NLA_F_NESTED: u16 = 0x8000;
/// The bits of an attribute's type that are no flags.
const NLA_TYPE_MASK: u16 = 0x3fff;
/// Lengths in bytes of `struct nlmsghdr` and `struct rtattr`.
const HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;

/// A message to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A message of that type; `body` is the type's own header.
    pub(crate) fn new(kind: u16, body: &[u8]) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes.extend(body);
        Self { bytes }
    }

    /// Adds flags to those that every message of its kind of call has.
    pub(crate) fn flags(mut self, flags: u16) -> Self {
        let old = u16::from_ne_bytes([self.bytes[6], self.bytes[7]]);
        self.bytes[6..8].copy_from_slice(&(old | flags).to_ne_bytes());
        self
    }

    /// Appends an attribute. All that is ever appended here is short.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(ATTRIBUTE_HEADER + value.len()).unwrap_or(u16::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }

    /// Appends a name, with the zero byte that ends it.
    pub(crate) fn name(&mut self, kind: u16, name: &str) {
        self.attribute(kind, &[name.as_bytes(), &[0]].concat());
    }

    /// Appends an attribute whose value is attributes, and before those perhaps a header of its own.
    pub(crate) fn nest(&mut self, kind: u16, header: &[u8], fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.attribute(kind | NLA_F_NESTED, header);
        fill(self);
        let length = u16::try_from(self.bytes.len() - start).unwrap_or(u16::MAX);
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// Takes what [`Request::as_bytes`] has returned; `None` if there is no room for a header in it.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() >= HEADER).then_some(Self { bytes })
    }

    /// Returns the message as far as it is decided; its length is not.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn finish(self, flags: u16) -> Vec<u8> {
        let mut bytes = self.flags(NLM_F_REQUEST | flags).bytes;
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }
}

/// Everything in netlink begins at a multiple of four.
fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

/// A message that came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    /// The number of the request that it answers.
    sequence: u32,
    pub(crate) body: Vec<u8>,
}

/// Takes a datagram apart; what is cut off at its end is left out.
pub(crate) fn messages(mut bytes: &[u8]) -> Vec<Message> {
    let mut found = Vec::new();
    while let Some(header) = bytes.get(..HEADER) {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]);
        let Some(body) = usize::try_from(length)
            .ok()
            .and_then(|end| bytes.get(HEADER..end))
        else {
            break;
        };
        found.push(Message {
            kind: u16::from_ne_bytes([header[4], header[5]]),
            sequence: u32::from_ne_bytes([header[8], header[9], header[10], header[11]]),
            body: body.to_vec(),
        });
        bytes = bytes.get(aligned(HEADER + body.len())..).unwrap_or_default();
    }
    found
}

/// An attribute of a message.
pub(crate) struct Attribute<'a> {
    pub(crate) kind: u16,
    pub(crate) value: &'a [u8],
}

impl<'a> Attribute<'a> {
    /// All attributes in these bytes, up to one that is cut off.
    pub(crate) fn all(mut bytes: &'a [u8]) -> impl Iterator<Item = Self> {
        std::iter::from_fn(move || {
            let header = bytes.get(..ATTRIBUTE_HEADER)?;
            let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
            let value = bytes.get(ATTRIBUTE_HEADER..length)?;
            let kind = u16::from_ne_bytes([header[2], header[3]]) & NLA_TYPE_MASK;
            bytes = bytes.get(aligned(length)..).unwrap_or_default();
            Some(Self { kind, value })
        })
    }
}

/// A request of a batch that the kernel did not carry out: its place in the batch, and why.
pub(crate) type Refused = (usize, Errno);

/// The bit of the group that is told of changes of the packet filter.
const NFTABLES_GROUP: u32 = 1 << 6;

/// The bits of the groups that are told of addresses of IPv4 and of IPv6.
const ADDRESS_GROUPS: u32 = 1 << 4 | 1 << 8;

/// A netlink socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// A routing socket of the caller's network namespace.
    pub(crate) fn new() -> Result<Self, Errno> {
        // No protocol is the first one, NETLINK_ROUTE.
        let family = AddressFamily::NETLINK;
        rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None).map(Self)
    }

    /// A socket for the packet filter of the caller's network namespace.
    pub(crate) fn of_filter() -> Result<Self, Errno> {
        let (family, protocol) = (AddressFamily::NETLINK, Some(rustix::net::netlink::NETFILTER));
        rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, protocol).map(Self)
    }

    /// A socket that is told of each change of the packet filter of the caller's network namespace.
    pub(crate) fn of_filter_events() -> Result<Self, Errno> {
        let socket = Self::of_filter()?;
        rustix::net::bind(&socket.0, &SocketAddrNetlink::new(0, NFTABLES_GROUP))?;
        Ok(socket)
    }

    /// Has a routing socket be told of each change of an address.
    pub(crate) fn hear_addresses(self) -> Result<Self, Errno> {
        rustix::net::bind(&self.0, &SocketAddrNetlink::new(0, ADDRESS_GROUPS))?;
        Ok(self)
    }

    /// Takes what has been told, and forgets it. Gives whether there was something.
    pub(crate) fn drain(&self) -> bool {
        let (mut buffer, mut something) = ([0; 4096], false);
        // Told too much at a time, the kernel says so once (ENOBUFS).
        loop {
            match rustix::net::recv(&self.0, &mut buffer, RecvFlags::DONTWAIT) {
                Ok(_) | Err(Errno::NOBUFS) => something = true,
                Err(Errno::INTR) => {}
                Err(_) => return something,
            }
        }
    }

    /// A routing socket of another network namespace.
    pub(crate) fn inside(network: BorrowedFd<'_>) -> Result<Self, Errno> {
        // No protocol is the first one, NETLINK_ROUTE.
        let kind = (AddressFamily::NETLINK, SocketType::RAW, None);
        tote_sys::socket_in(network, kind).map(Self)
    }

    /// A socket for the packet filter of another network namespace.
    pub(crate) fn of_filter_inside(network: BorrowedFd<'_>) -> Result<Self, Errno> {
        let protocol = Some(rustix::net::netlink::NETFILTER);
        let kind = (AddressFamily::NETLINK, SocketType::RAW, protocol);
        tote_sys::socket_in(network, kind).map(Self)
    }

    /// A socket that asks for sockets of another network namespace.
    pub(crate) fn of_sockets_inside(network: BorrowedFd<'_>) -> Result<Self, Errno> {
        let protocol = Some(rustix::net::netlink::SOCK_DIAG);
        let kind = (AddressFamily::NETLINK, SocketType::RAW, protocol);
        tote_sys::socket_in(network, kind).map(Self)
    }

    /// Asks for something to be done.
    pub(crate) fn acknowledged(&self, request: Request) -> Result<(), Errno> {
        self.send(&request.finish(NLM_F_ACK | NLM_F_CREATE))?;
        self.read().map(drop)
    }

    /// Asks for one message, or for all that there are.
    pub(crate) fn ask(&self, request: Request, dump: bool) -> Result<Vec<Message>, Errno> {
        self.send(&request.finish(if dump { NLM_F_DUMP } else { NLM_F_ACK }))?;
        self.read()
    }

    /// Asks for several things by one system call, and gives those that failed. The kernel does them in order, and goes on
    /// after a failure.
    ///
    /// # Errors
    /// Of the socket, and [`Errno::PROTO`] where the kernel did not come to the last request.
    pub(crate) fn batch(&self, requests: Vec<Request>) -> Result<Vec<Refused>, Errno> {
        // The kernel does not answer a batch of nothing.
        match requests.len().checked_sub(1) {
            Some(last) => self.batch_until(requests, last),
            None => Ok(Vec::new()),
        }
    }

    /// Like [`Socket::batch`], where the request at that place is the last one that the kernel answers.
    pub(crate) fn batch_until(&self, requests: Vec<Request>, last: usize) -> Result<Vec<Refused>, Errno> {
        let mut bytes = Vec::new();
        for (place, request) in requests.into_iter().enumerate() {
            let mut message = request.finish(if place == last { NLM_F_ACK } else { 0 });
            message[8..12].copy_from_slice(&u32::try_from(place).unwrap_or(u32::MAX).to_ne_bytes());
            bytes.extend(message);
        }
        self.send(&bytes)?;
        self.answers(last)
    }

    /// The answers to a batch, which are all there: the kernel carries out what it gets before send(2) returns.
    fn answers(&self, last: usize) -> Result<Vec<Refused>, Errno> {
        let mut refused: Vec<Refused> = Vec::new();
        let mut buffer = vec![0; 32768];
        loop {
            let length = match rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::DONTWAIT) {
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => {
                    return if refused.is_empty() {
                        Err(Errno::PROTO)
                    } else {
                        Ok(refused)
                    };
                }
                other => other?.0,
            };
            let answers = messages(&buffer[..length]);
            for answer in answers.iter().filter(|answer| answer.kind == NLMSG_ERROR) {
                let place = usize::try_from(answer.sequence).unwrap_or(usize::MAX);
                let errno = error(&answer.body);
                refused.extend(errno.map(|errno| (place, errno)));
                if place == last {
                    return Ok(refused);
                }
            }
        }
    }

    fn send(&self, bytes: &[u8]) -> Result<(), Errno> {
        rustix::net::send(&self.0, bytes, SendFlags::empty()).map(drop)
    }

    /// Reads until the kernel says that this was all.
    fn read(&self) -> Result<Vec<Message>, Errno> {
        let mut all = Vec::new();
        // The kernel makes its datagrams no larger than this.
        let mut buffer = vec![0; 32768];
        loop {
            let length = match rustix::net::recv(&self.0, &mut buffer[..], RecvFlags::empty()) {
                Err(Errno::INTR) => continue,
                other => other?.0,
            };
            for message in messages(&buffer[..length]) {
                match message.kind {
                    NLMSG_DONE => return Ok(all),
                    NLMSG_ERROR => return error(&message.body).map_or(Ok(all), Err),
                    _ => all.push(message),
                }
            }
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// The errno in an NLMSG_ERROR; `None` for the 0 by which the kernel says that it is done.
fn error(body: &[u8]) -> Option<Errno> {
    let code = body
        .get(..4)
        .map(|code| i32::from_ne_bytes([code[0], code[1], code[2], code[3]]));
    match code {
        Some(0) => None,
        Some(code @ -4095..0) => Some(Errno::from_raw_os_error(-code)),
        _ => Some(Errno::PROTO),
    }
}

/// A number in the order of bytes of this machine.
pub(crate) fn number(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_ne_bytes)
}

/// A text up to its zero byte; invalid UTF-8 is replaced.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_reads_back() {
        let mut request = Request::new(20, &[1, 2, 3, 4]);
        request.attribute(3, b"lo\0");
        request.attribute(4, &[9]);
        let bytes = request.finish(NLM_F_ACK);
        let found = messages(&bytes);
        assert_eq!((found.len(), found[0].kind), (1, 20));
        let attributes: Vec<_> = Attribute::all(&found[0].body[4..])
            .map(|attribute| (attribute.kind, attribute.value))
            .collect();
        assert_eq!(attributes, [(3, &b"lo\0"[..]), (4, &[9])]);
    }

    #[test]
    fn cut_and_hostile_bytes_do_not_panic() {
        let bytes = [0xff; 64];
        for length in 0..bytes.len() {
            assert!(messages(&bytes[..length]).is_empty());
            assert_eq!(Attribute::all(&bytes[..length]).count(), 0);
        }
        let zero = [0; 64];
        assert!(messages(&zero).is_empty());
        assert_eq!(Attribute::all(&zero).count(), 0);
        assert_eq!(error(&[]), Some(Errno::PROTO));
        assert!(error(&i32::MIN.to_ne_bytes()).is_some());
    }

    #[test]
    fn the_loopback_device_is_found() {
        let socket = Socket::new().unwrap();
        let mut request = Request::new(18, &[0; 16]);
        request.attribute(3, b"lo\0");
        assert!(!socket.ask(request, false).unwrap().is_empty());
    }
}
