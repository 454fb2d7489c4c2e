//! Messages over a connection: each has its length in two bytes before it (RFC 1035, 4.2.2).

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use tote_sys::Errno;

/// A connection that never waits: what is not there yet, or finds no room, is left for later.
#[derive(Debug)]
pub(crate) struct Framed {
    socket: OwnedFd,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    written: usize,
    /// The longest message that is taken.
    longest: usize,
}

/// State of a connection after a read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing more can be done now.
    Waits,
    /// A whole message has come.
    Message(Vec<u8>),
    /// The connection is over, or its peer breaks the protocol.
    Gone,
}

impl Framed {
    pub(crate) fn new(socket: OwnedFd, longest: usize) -> Self {
        Self {
            socket,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            written: 0,
            longest,
        }
    }

    /// Puts a message on its way, which [`Framed::flush`] sends.
    pub(crate) fn put(&mut self, message: &[u8]) {
        let Ok(length) = u16::try_from(message.len()) else {
            return;
        };
        self.outgoing.extend(length.to_be_bytes());
        self.outgoing.extend(message);
    }

    /// Whether something is on its way.
    pub(crate) fn has_more(&self) -> bool {
        self.written < self.outgoing.len()
    }

    /// Sends what there is room for.
    ///
    /// # Errors
    /// send(2)'s.
    pub(crate) fn flush(&mut self) -> Result<(), Errno> {
        while self.has_more() {
            match send(&self.socket, &self.outgoing[self.written..], SendFlags::NOSIGNAL) {
                Ok(count) => self.written += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(errno),
            }
        }
        (self.outgoing, self.written) = (Vec::new(), 0);
        Ok(())
    }

    /// Reads up to the end of the next message and not further, so that a client has one question under way.
    pub(crate) fn read(&mut self) -> Progress {
        loop {
            let wanted = match self.incoming.first_chunk::<2>() {
                None => 2,
                Some(length) => 2 + usize::from(u16::from_be_bytes(*length)),
            };
            if wanted > 2 && self.incoming.len() == wanted {
                let message = self.incoming.split_off(2);
                self.incoming = Vec::new();
                return Progress::Message(message);
            }
            if wanted - 2 > self.longest || (wanted == 2 && self.incoming.len() == 2) {
                return Progress::Gone;
            }
            // No more memory is taken than has come.
            let mut piece = [0; 4096];
            let most = (wanted - self.incoming.len()).min(piece.len());
            match recv(&self.socket, &mut piece[..most], RecvFlags::empty()) {
                Ok((_, 0)) => return Progress::Gone,
                Ok((_, count)) => self.incoming.extend(&piece[..count]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Progress::Waits,
                Err(_) => return Progress::Gone,
            }
        }
    }
}

impl AsFd for Framed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    #[test]
    fn messages_come_in_pieces_and_one_by_one() {
        let (mut far, near) = UnixStream::pair().unwrap();
        near.set_nonblocking(true).unwrap();
        let mut framed = Framed::new(near.into(), 100);
        assert_eq!(framed.read(), Progress::Waits);
        far.write_all(&[0]).unwrap();
        assert_eq!(framed.read(), Progress::Waits);
        far.write_all(&[3, b'a', b'b']).unwrap();
        assert_eq!(framed.read(), Progress::Waits);
        far.write_all(&[b'c', 0, 1, b'd']).unwrap();
        assert_eq!(framed.read(), Progress::Message(b"abc".to_vec()));
        assert_eq!(framed.read(), Progress::Message(b"d".to_vec()));
        framed.put(b"xyz");
        assert!(framed.has_more());
        framed.flush().unwrap();
        let mut got = [0; 5];
        far.read_exact(&mut got).unwrap();
        assert_eq!(&got, b"\0\x03xyz");
        drop(far);
        assert_eq!(framed.read(), Progress::Gone);
    }

    #[test]
    fn messages_of_no_length_or_too_much_end_the_connection() {
        for bytes in [[0, 0], [0, 101], [0xff, 0xff]] {
            let (mut far, near) = UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            far.write_all(&bytes).unwrap();
            assert_eq!(Framed::new(near.into(), 100).read(), Progress::Gone, "{bytes:?}");
        }
    }
}
