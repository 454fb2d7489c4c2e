//! Copies between the caller's descriptors and the container's.

use crate::allowance::Allowance;
use crate::{BrokenStream, DetachKeys};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::FileType;
use rustix::io::Errno;
use tote_sys::{Endless, Wait};

/// Bytes of one read at first: enough for typed input and for a few lines of output.
const NARROW: usize = 16 * 1024;

/// Bytes of one read after a full narrow one, and of the pipe from then on: the limit for unprivileged users. With
/// fewer waits between writer and reader, a busy machine slows them down less.
const WIDE: usize = 1024 * 1024;

#[derive(Debug)]
pub(crate) enum End {
    /// Standard descriptor of the caller.
    Borrowed(i32),
    /// Other end of a pipe or terminal.
    Owned(OwnedFd),
}

impl End {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Borrowed(0) => rustix::stdio::stdin(),
            Self::Borrowed(1) => rustix::stdio::stdout(),
            Self::Borrowed(_) => rustix::stdio::stderr(),
            Self::Owned(fd) => fd.as_fd(),
        }
    }

    /// Returns the failure of a descriptor of the caller, unless a terminal has hung up, where no user would see a
    /// report.
    fn failed(&self, errno: Errno) -> Option<BrokenStream> {
        let Self::Borrowed(number) = *self else {
            return None;
        };
        let is_device = rustix::fs::fstat(self.fd())
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice);
        (!is_device || errno != Errno::IO).then_some(BrokenStream { number, errno })
    }
}

/// Copy in one direction. An end that is gone is `None`; the copy is over when both are.
///
/// It uses read(2) and write(2), not splice(2): that writes at the position of an open file without the lock by which
/// other processes share that position, as in `(tote run A & tote run B) > file`, and it refuses files opened for
/// appending.
#[derive(Debug)]
pub(crate) struct Copy {
    from: Option<End>,
    to: Option<End>,
    pending: Vec<u8>,
    /// Number of pending bytes that are written already.
    gone: usize,
    is_wide: bool,
    broken: Option<BrokenStream>,
    /// Keys by which the user at the terminal leaves.
    keys: Option<DetachKeys>,
    left: bool,
    /// Limit of what comes from the container.
    allowance: Option<Allowance>,
}

impl Copy {
    pub(crate) fn new(from: End, to: End) -> Self {
        Self {
            from: Some(from),
            to: Some(to),
            pending: Vec::new(),
            gone: 0,
            is_wide: false,
            broken: None,
            keys: None,
            left: false,
            allowance: None,
        }
    }

    pub(crate) fn with_keys(self, keys: Option<DetachKeys>) -> Self {
        Self { keys, ..self }
    }

    pub(crate) fn within(self, allowance: Option<Allowance>) -> Self {
        Self { allowance, ..self }
    }

    /// True if the keys were typed and all input before them has been passed on.
    pub(crate) fn left(&self) -> bool {
        self.left && self.is_empty()
    }

    /// Forgets that the keys were typed: the caller stays.
    pub(crate) fn stay(&mut self) {
        self.left = false;
    }

    /// Returns the failure of the caller's end.
    pub(crate) fn broken(&self) -> Option<BrokenStream> {
        self.broken
    }

    /// True if no bytes are pending.
    pub(crate) fn is_empty(&self) -> bool {
        self.gone == self.pending.len()
    }

    /// Returns what to wait for: input while the buffer is empty, room while it is not.
    pub(crate) fn poll_fd(&self) -> Option<PollFd<'_>> {
        let (end, flags) = if self.is_empty() {
            (&self.from, PollFlags::IN)
        } else {
            (&self.to, PollFlags::OUT)
        };
        end.as_ref().map(|end| PollFd::from_borrowed_fd(end.fd(), flags))
    }

    /// Continues after poll(2) has reported that it can.
    pub(crate) fn advance(&mut self) {
        if self.is_empty() {
            self.fill();
        }
        self.flush();
    }

    /// Copies what the container wrote before this call; a process that it left behind may go on writing.
    pub(crate) fn drain(&mut self) {
        let mut rest = WIDE;
        while let Some(End::Borrowed(_)) = self.to {
            if self.is_empty() {
                if rest == 0 || !self.fill() {
                    return;
                }
                rest = rest.saturating_sub(self.pending.len());
            }
            if !self.flush() && !self.wait_for_room() {
                return;
            }
        }
    }

    /// Waits until the caller's end takes more; `false` if it never will.
    fn wait_for_room(&self) -> bool {
        let Some(to) = &self.to else { return false };
        let mut fds = [PollFd::from_borrowed_fd(to.fd(), PollFlags::OUT)];
        matches!(
            Wait::endless(Endless::Reader).poll(&mut fds),
            Ok(_) | Err(Errno::INTR)
        )
    }

    /// Reads once; true if anything came.
    fn fill(&mut self) -> bool {
        let Some(from) = &self.from else { return false };
        if self.allowance.as_ref().is_some_and(Allowance::is_exceeded) {
            return false;
        }
        let room = if self.is_wide { WIDE } else { NARROW };
        self.pending.clear();
        self.gone = 0;
        self.pending.reserve(room);
        match rustix::io::read(from.fd(), rustix::buffer::spare_capacity(&mut self.pending)) {
            Err(Errno::AGAIN | Errno::INTR) => false,
            Ok(length) if length > 0 => {
                if let Some(keys) = &mut self.keys {
                    let complete;
                    (self.pending, complete) = keys.pass(&self.pending);
                    self.left |= complete;
                }
                if let Some(allowance) = &self.allowance {
                    allowance.spend(&mut self.pending);
                }
                if length >= room && !self.is_wide {
                    self.widen();
                }
                true
            }
            ended => {
                // This is the end, or EIO of a terminal that no process has open.
                if let Err(errno) = ended {
                    self.broken = from.failed(errno).or_else(|| self.lost(errno));
                }
                self.from = None;
                self.close_when_done();
                false
            }
        }
    }

    /// Returns the failure to read the container's output, which the caller therefore does not get.
    fn lost(&self, errno: Errno) -> Option<BrokenStream> {
        match (&self.from, &self.to) {
            (Some(End::Owned(pipe)), Some(End::Borrowed(number))) => {
                // A terminal returns EIO when no process has it open any more.
                let is_terminal = rustix::fs::fstat(pipe)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice);
                let number = *number;
                (!is_terminal || errno != Errno::IO).then_some(BrokenStream { number, errno })
            }
            _ => None,
        }
    }

    /// Enlarges buffer and pipe for a process that writes much.
    fn widen(&mut self) {
        self.is_wide = true;
        for end in [&self.from, &self.to].into_iter().flatten() {
            if let End::Owned(pipe) = end {
                // A terminal has no such size, and a user may have too many large pipes already.
                tote_sys::best_effort(rustix::pipe::fcntl_setpipe_size(pipe, WIDE));
            }
        }
    }

    /// Writes once; true if anything was written.
    fn flush(&mut self) -> bool {
        let wrote = match &self.to {
            _ if self.is_empty() => false,
            None => {
                self.gone = self.pending.len(); // the reader has gone
                false
            }
            Some(to) => match rustix::io::write(to.fd(), &self.pending[self.gone..]) {
                Err(Errno::AGAIN | Errno::INTR) => false,
                Ok(length) => {
                    self.gone += length;
                    true
                }
                Err(errno) => {
                    self.broken = to.failed(errno);
                    (self.from, self.to) = (None, None);
                    self.gone = self.pending.len();
                    false
                }
            },
        };
        self.close_when_done();
        wrote
    }

    fn close_when_done(&mut self) {
        if self.from.is_none() && self.is_empty() {
            self.to = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pipe::PipeFlags;

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
    fn output_that_cannot_be_read_is_not_its_end() {
        let (_input, feed) = pipe();
        // read(2) fails on the writing end.
        let mut copy = Copy::new(End::Owned(feed), End::Borrowed(1));
        copy.advance();
        let broken = copy.broken().map(|broken| (broken.number, broken.errno));
        assert_eq!(broken, Some((1, Errno::BADF)));
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
