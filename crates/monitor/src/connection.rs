//! Client's end of a container's socket.

use crate::frame::{Head, MOST, Report, Request};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, sendmsg};
use std::io::IoSlice;
use std::ops::Range;
use std::time::Duration;
use tote_sys::{Errno, Pages};

/// A connection to a container's monitor.
#[derive(Debug)]
pub struct Connection {
    socket: OwnedFd,
    buffer: Pages,
}

impl Connection {
    /// Wraps a connected socket: from [`crate::connect`] or [`crate::pair`].
    ///
    /// # Errors
    /// mmap(2)'s.
    pub fn new(socket: OwnedFd) -> Result<Self, Errno> {
        Ok(Self {
            socket,
            buffer: Pages::new(MOST + 8)?,
        })
    }

    /// Limits the time for which each request and report is waited for.
    ///
    /// # Errors
    /// setsockopt(2)'s.
    pub fn limit(&self, time: Duration) -> Result<(), Errno> {
        set_socket_timeout(&self.socket, Timeout::Send, Some(time))?;
        set_socket_timeout(&self.socket, Timeout::Recv, Some(time))
    }

    /// Sends a request; waits for room, unless the socket is non-blocking.
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

    /// Returns the next report of the monitor; `None` after the last one.
    ///
    /// # Errors
    /// recvmsg(2)'s: `EAGAIN` of a non-blocking socket; `EPROTO` for an invalid message.
    pub fn hear(&mut self) -> Result<Option<Report<'_>>, Errno> {
        let length = loop {
            match rustix::net::recv(&self.socket, &mut *self.buffer, RecvFlags::TRUNC) {
                // The monitor has closed its end without reading all; its own messages are still there.
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

    /// Returns bytes of the last message as it came: a letter, then its contents.
    pub(crate) fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.buffer[range]
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
