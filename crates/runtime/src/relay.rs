//! Copies between the caller's descriptors and the container's.
//!
//! The container gets the caller's files and pipes as they are. A terminal it never gets: with a descriptor of the
//! caller's terminal it could read what is typed there for others, so a pipe stands between.

use crate::DetachKeys;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::pipe::PipeFlags;
use std::collections::VecDeque;
use tote_sys::Op;

/// How the container's standard descriptors are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StdioMode {
    /// Whether standard input is passed on (`--interactive`).
    pub interactive: bool,
    /// Whether a pseudo-terminal takes the place of all three (`--tty`).
    pub terminal: bool,
}

/// The caller's ends of what stands between it and the container.
#[derive(Debug, Default)]
pub struct Stdio {
    pub(crate) copies: Vec<Copy>,
}

impl Stdio {
    /// Decides for each descriptor; the steps that the new process needs for it are put before the last ones.
    ///
    /// # Errors
    /// pipe2(2)'s.
    pub fn new(mode: StdioMode) -> Result<(Self, Vec<Op>), Errno> {
        let (mut stdio, mut ops) = (Self::default(), Vec::new());
        if mode.terminal {
            return Ok((stdio, ops));
        }
        if mode.interactive && rustix::termios::isatty(rustix::stdio::stdin()) {
            let (theirs, ours) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(&ours, true)?;
            stdio.copies.push(Copy::new(End::Borrowed(0), End::Owned(ours)));
            ops.push(Op::Stdio {
                fd: theirs,
                number: 0,
            });
        }
        for number in [1, 2] {
            if rustix::termios::isatty(End::Borrowed(number).fd()) {
                let (ours, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
                rustix::io::ioctl_fionbio(&ours, true)?;
                stdio
                    .copies
                    .push(Copy::new(End::Owned(ours), End::Borrowed(number)));
                ops.push(Op::Stdio { fd: theirs, number });
            }
        }
        Ok((stdio, ops))
    }

    /// Puts the master of the container's console between it and the caller.
    pub(crate) fn console(
        &mut self,
        master: &OwnedFd,
        interactive: bool,
        keys: Option<DetachKeys>,
    ) -> Result<(), Errno> {
        rustix::io::ioctl_fionbio(master, true)?;
        self.copies.push(Copy::new(
            End::Owned(rustix::io::fcntl_dupfd_cloexec(master, 3)?),
            End::Borrowed(1),
        ));
        if interactive {
            let master = rustix::io::fcntl_dupfd_cloexec(master, 3)?;
            self.copies.push(Copy {
                keys,
                ..Copy::new(End::Borrowed(0), End::Owned(master))
            });
        }
        Ok(())
    }

    /// Copies what is left of the container's output after its end.
    pub(crate) fn drain(&mut self) {
        for copy in self
            .copies
            .iter_mut()
            .filter(|copy| matches!(copy.from, Some(End::Owned(_))))
        {
            while copy.fill() | copy.flush() {}
        }
    }
}

#[derive(Debug)]
pub(crate) enum End {
    /// One of the caller's standard descriptors.
    Borrowed(i32),
    /// A pipe's or terminal's other end.
    Owned(OwnedFd),
}

impl End {
    fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Borrowed(0) => rustix::stdio::stdin(),
            Self::Borrowed(1) => rustix::stdio::stdout(),
            Self::Borrowed(_) => rustix::stdio::stderr(),
            Self::Owned(fd) => fd.as_fd(),
        }
    }
}

/// One direction. An end that is gone is `None`; the copy is over when both are.
#[derive(Debug)]
pub(crate) struct Copy {
    from: Option<End>,
    to: Option<End>,
    pending: VecDeque<u8>,
    /// The keys by which whoever types leaves.
    keys: Option<DetachKeys>,
    left: bool,
}

impl Copy {
    fn new(from: End, to: End) -> Self {
        Self {
            from: Some(from),
            to: Some(to),
            pending: VecDeque::new(),
            keys: None,
            left: false,
        }
    }

    /// Whether the keys were typed and all that came before them has gone on.
    pub(crate) fn left(&self) -> bool {
        self.left && self.pending.is_empty()
    }

    /// What to wait for: input while there is room, room while there is output.
    pub(crate) fn poll_fd(&self) -> Option<PollFd<'_>> {
        if self.pending.is_empty() {
            self.from
                .as_ref()
                .map(|end| PollFd::from_borrowed_fd(end.fd(), PollFlags::IN))
        } else {
            self.to
                .as_ref()
                .map(|end| PollFd::from_borrowed_fd(end.fd(), PollFlags::OUT))
        }
    }

    /// Goes on after poll(2) said that it can.
    pub(crate) fn advance(&mut self) {
        if self.pending.is_empty() {
            self.fill();
        }
        self.flush();
    }

    /// Reads once; whether anything came.
    fn fill(&mut self) -> bool {
        let Some(from) = &self.from else { return false };
        let mut bytes = [0u8; 16 * 1024];
        match rustix::io::read(from.fd(), &mut bytes) {
            Err(Errno::AGAIN | Errno::INTR) => false,
            Ok(length) if length > 0 => {
                match &mut self.keys {
                    None => self.pending.extend(&bytes[..length]),
                    Some(keys) => {
                        let (passed, complete) = keys.pass(&bytes[..length]);
                        self.pending.extend(passed);
                        self.left |= complete;
                    }
                }
                true
            }
            _ => {
                self.from = None; // its end, or EIO of a terminal that nobody has open
                self.close_when_done();
                false
            }
        }
    }

    /// Writes once; whether anything went.
    fn flush(&mut self) -> bool {
        let wrote = match &self.to {
            _ if self.pending.is_empty() => false,
            None => {
                self.pending.clear(); // nobody wants it any more
                false
            }
            Some(to) => match rustix::io::write(to.fd(), self.pending.as_slices().0) {
                Err(Errno::AGAIN | Errno::INTR) => false,
                Ok(length) => {
                    self.pending.drain(..length);
                    true
                }
                Err(_) => {
                    (self.from, self.to) = (None, None);
                    self.pending.clear();
                    false
                }
            },
        };
        self.close_when_done();
        wrote
    }

    fn close_when_done(&mut self) {
        if self.from.is_none() && self.pending.is_empty() {
            self.to = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipe() -> (OwnedFd, OwnedFd) {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        (read, write)
    }

    #[test]
    fn everything_arrives_and_the_end_is_passed_on() {
        let (input, feed) = pipe();
        let (output, sink) = pipe();
        let mut copy = Copy::new(End::Owned(input), End::Owned(sink));
        let sent: Vec<u8> = (0..100_000u32).map(|number| (number % 251) as u8).collect();
        let (mut rest, mut got, mut feed) = (&sent[..], Vec::new(), Some(feed));
        while copy.to.is_some() {
            if let Some(open) = &feed {
                match rustix::io::write(open, rest) {
                    Ok(length) => rest = &rest[length..],
                    Err(errno) => assert_eq!(errno, Errno::AGAIN),
                }
                if rest.is_empty() {
                    feed = None;
                }
            }
            copy.advance();
            let mut bytes = [0; 4096];
            if let Ok(length) = rustix::io::read(&output, &mut bytes) {
                got.extend_from_slice(&bytes[..length]);
            }
        }
        let mut bytes = [0; 65536];
        while let Ok(length @ 1..) = rustix::io::read(&output, &mut bytes) {
            got.extend_from_slice(&bytes[..length]);
        }
        assert!(got == sent, "{} of {} bytes", got.len(), sent.len());
    }

    #[test]
    fn a_reader_that_is_gone_ends_the_copy() {
        let (input, feed) = pipe();
        let (output, sink) = pipe();
        drop(output);
        let mut copy = Copy::new(End::Owned(input), End::Owned(sink));
        rustix::io::write(&feed, b"x").unwrap();
        copy.advance();
        assert!(copy.poll_fd().is_none());
    }
}
