//! Output stream of the container: read once, sent to the clients, and cut into entries of the log.

use crate::entry::Line;
use crate::log::LogFile;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ops::Range;
use tote_calendar::Time;
use tote_sys::{Errno, Pages};

/// Longest entry of a log, in bytes of output; docker's limit.
pub(crate) const LONGEST: usize = 16 * 1024;

/// Kind of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Standard output, or a terminal.
    Stdout,
    /// Standard error.
    Stderr,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// Rest of what a container may write to all of its streams.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    left: Option<u64>,
    is_exceeded: bool,
}

impl Quota {
    /// Begins with that many bytes; `None` is without end.
    pub(crate) fn new(left: Option<u64>) -> Self {
        Self {
            left,
            is_exceeded: false,
        }
    }

    /// Takes bytes that were read; returns how many of them are within the quota.
    fn take(&mut self, length: usize) -> usize {
        let Some(left) = &mut self.left else { return length };
        let taken = usize::try_from(*left).map_or(length, |left| left.min(length));
        *left -= taken as u64;
        self.is_exceeded |= taken < length;
        taken
    }

    /// True if more was read than it has.
    pub(crate) fn is_exceeded(self) -> bool {
        self.is_exceeded
    }
}

/// Stream with the last bytes that were read from it.
#[derive(Debug)]
pub(crate) struct Output {
    pub(crate) kind: Kind,
    fd: Option<OwnedFd>,
    buffer: Pages,
    /// Range of the buffer that is not in an entry yet.
    unlogged: Range<usize>,
    /// Range that was read last, as long as a client has not received it.
    chunk: Range<usize>,
    /// Time of the first entry of a line that is longer than one entry.
    begun: Option<Time>,
}

impl Output {
    /// Wraps a descriptor and makes it non-blocking.
    pub(crate) fn new(kind: Kind, fd: OwnedFd) -> Result<Self, Errno> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self {
            kind,
            fd: Some(fd),
            buffer: Pages::new(LONGEST)?,
            unlogged: 0..0,
            chunk: 0..0,
            begun: None,
        })
    }

    /// Returns what to wait for: nothing while a client has not received the last chunk.
    pub(crate) fn wanted(&self) -> Option<BorrowedFd<'_>> {
        self.fd
            .as_ref()
            .filter(|_| self.chunk.is_empty())
            .map(AsFd::as_fd)
    }

    /// Returns how many bytes may be waiting in it at most.
    pub(crate) fn capacity(&self) -> usize {
        let pipe = self
            .fd
            .as_ref()
            .and_then(|fd| rustix::pipe::fcntl_getpipe_size(fd).ok());
        pipe.unwrap_or(64 * 1024)
    }

    /// Reads once, after the last chunk has been released. True if anything came that is within the quota.
    pub(crate) fn read(&mut self, quota: &mut Quota, log: Option<&mut LogFile>) -> bool {
        let Some(fd) = &self.fd else { return false };
        if self.unlogged.start > 0 {
            self.buffer.copy_within(self.unlogged.clone(), 0);
            self.unlogged = 0..self.unlogged.len();
        }
        let start = self.unlogged.end;
        match rustix::io::read(fd, &mut self.buffer[start..]) {
            // Without memory for the call the bytes stay where they are, for the next one.
            Err(Errno::AGAIN | Errno::INTR | Errno::NOMEM) => false,
            Ok(length @ 1..) => {
                let length = quota.take(length);
                self.chunk = start..start + length;
                self.unlogged.end = self.chunk.end;
                self.cut(log);
                length > 0
            }
            // This is the end, or EIO of a terminal that no process has open.
            Ok(_) | Err(_) => {
                self.close(log);
                false
            }
        }
    }

    /// Returns the bytes read last.
    pub(crate) fn chunk(&self) -> &[u8] {
        &self.buffer[self.chunk.clone()]
    }

    /// Releases the chunk, which all clients have received.
    pub(crate) fn release(&mut self) {
        self.chunk = 0..0;
    }

    /// Makes entries of the unlogged bytes: of lines, and of a full buffer without a line's end.
    fn cut(&mut self, log: Option<&mut LogFile>) {
        let Some(log) = log else {
            self.unlogged = 0..0;
            return;
        };
        while let Some(length) = self.buffer[self.unlogged.clone()]
            .iter()
            .position(|byte| *byte == b'\n')
        {
            let start = self.unlogged.start;
            let time = self.begun.take().unwrap_or_else(Time::now);
            log.write(&Line {
                bytes: &self.buffer[start..start + length],
                ends: true,
                stream: self.kind.name(),
                time,
            });
            self.unlogged.start = start + length + 1;
        }
        if self.unlogged.len() == self.buffer.len() {
            self.cut_short(log);
        } else if self.unlogged.is_empty() {
            self.unlogged = 0..0;
        }
    }

    /// Makes an entry of a line that has not ended.
    fn cut_short(&mut self, log: &mut LogFile) {
        let time = *self.begun.get_or_insert_with(Time::now);
        log.write(&Line {
            bytes: &self.buffer[self.unlogged.clone()],
            ends: false,
            stream: self.kind.name(),
            time,
        });
        self.unlogged = 0..0;
    }

    /// Closes the stream and logs the rest.
    pub(crate) fn close(&mut self, log: Option<&mut LogFile>) {
        self.fd = None;
        if let Some(log) = log.filter(|_| !self.unlogged.is_empty()) {
            self.cut_short(log);
        }
    }

    /// Gives the buffer's memory back if it is empty.
    pub(crate) fn rest(&mut self) {
        if self.unlogged.is_empty() && self.chunk.is_empty() {
            self.buffer.discard();
        }
    }
}
