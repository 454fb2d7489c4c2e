//! netlink(7), blocking: messages as bytes, and a socket that sends one and reads what comes back.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use tote_sys::Errno;

const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_ACK: u16 = 4;
const NLM_F_DUMP: u16 = 0x300;
const NLM_F_CREATE: u16 = 0x400;
/// Of `struct nlmsghdr` and `struct rtattr`.
const HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;

/// A message to be sent.
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

    /// Appends an attribute. All that is ever appended here is short.
    pub(crate) fn attribute(&mut self, kind: u16, value: &[u8]) {
        let length = u16::try_from(ATTRIBUTE_HEADER + value.len()).unwrap_or(u16::MAX);
        self.bytes.extend(length.to_ne_bytes());
        self.bytes.extend(kind.to_ne_bytes());
        self.bytes.extend(value);
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }

    fn finish(mut self, flags: u16) -> Vec<u8> {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[6..8].copy_from_slice(&(NLM_F_REQUEST | flags).to_ne_bytes());
        self.bytes
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
    pub(crate) body: Vec<u8>,
}

/// Takes a datagram apart; what is cut off at its end is left out.
fn messages(mut bytes: &[u8]) -> Vec<Message> {
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
            let kind = u16::from_ne_bytes([header[2], header[3]]);
            bytes = bytes.get(aligned(length)..).unwrap_or_default();
            Some(Self { kind, value })
        })
    }
}

/// A routing socket.
pub(crate) struct Socket(OwnedFd);

impl Socket {
    /// One of the caller's network namespace.
    pub(crate) fn new() -> Result<Self, Errno> {
        // No protocol is the first one, NETLINK_ROUTE.
        let family = AddressFamily::NETLINK;
        rustix::net::socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None).map(Self)
    }

    /// One of another network namespace.
    pub(crate) fn inside(network: BorrowedFd<'_>) -> Result<Self, Errno> {
        tote_sys::socket_in(network).map(Self)
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
