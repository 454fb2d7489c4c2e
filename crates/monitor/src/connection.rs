//! A client's end of a container's socket.

use crate::frame::{Head, MOST, Report, Request};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags, sendmsg};
use std::io::IoSlice;
use std::ops::Range;
use tote_sys::{Errno, Pages};

/// A connection to a container's monitor.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    buffer: Pages,
}

impl Connection {
    /// Of a socket that is connected: by [`crate::connect`] or [`crate::pair`].
    ///
    /// # Errors
    /// mmap(2)'s.
    pub fn new(socket: OwnedFd) -> Result<Self, Errno> {
        Ok(Self {
            socket,
            buffer: Pages::new(MOST + 8)?,
        })
    }

    /// Says something; waits for room, unless the socket is non-blocking.
    ///
    /// # Errors
    /// sendmsg(2)'s: `EPIPE` when the monitor is gone.
    pub fn say(&self, request: Request<'_>) -> Result<(), Errno> {
        let (head, rest): (Head, &[u8]) = request.encode();
        let pieces = [IoSlice::new(head.bytes()), IoSlice::new(rest)];
        loop {
            match sendmsg(
                &self.socket,
                &pieces,
                &mut Default::default(),
                SendFlags::NOSIGNAL,
            ) {
                Err(Errno::INTR) => {}
                other => return other.map(drop),
            }
        }
    }

    /// The next thing that the monitor says; `None` when it says nothing more.
    ///
    /// # Errors
    /// recvmsg(2)'s: `EAGAIN` of a non-blocking socket; `EPROTO` for what no monitor says.
    pub fn hear(&mut self) -> Result<Option<Report<'_>>, Errno> {
        let length = loop {
            match rustix::net::recv(&self.socket, &mut *self.buffer, RecvFlags::TRUNC) {
                // The monitor has gone without reading all that it was sent; what it has said is there nevertheless.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(errno) => return Err(errno),
                Ok((_, 0)) => return Ok(None),
                Ok((read, length)) if read == length => break length,
                Ok(_) => return Err(Errno::PROTO),
            }
        };
        Report::parse(&self.buffer[..length])
            .map(Some)
            .ok_or(Errno::PROTO)
    }

    /// Of the last thing that it said, as it came: a letter, then what belongs to it.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
