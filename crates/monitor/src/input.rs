//! Standard input of the container, and the one message of a client that it has not taken yet.

use crate::clients::INPUT;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ops::Range;
use tote_sys::{Errno, Pages};

/// Writer of input; without a descriptor the input is dropped.
#[derive(Debug)]
pub(crate) struct Input {
    fd: Option<OwnedFd>,
    pub(crate) buffer: Pages,
    pending: Range<usize>,
    /// True if it has to be closed once the pending bytes are written.
    ends: bool,
}

impl Input {
    /// Wraps a descriptor and makes it non-blocking.
    pub(crate) fn new(fd: Option<OwnedFd>) -> Result<Self, Errno> {
        if let Some(fd) = &fd {
            rustix::io::ioctl_fionbio(fd, true)?;
        }
        Ok(Self {
            fd,
            buffer: Pages::new(INPUT)?,
            pending: 0..0,
            ends: false,
        })
    }

    /// True if another message can be taken.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.is_empty()
    }

    /// Returns what to wait for.
    pub(crate) fn wanted(&self) -> Option<BorrowedFd<'_>> {
        self.fd
            .as_ref()
            .filter(|_| !self.pending.is_empty())
            .map(AsFd::as_fd)
    }

    /// Takes `length` bytes that are in the buffer, after its first one.
    pub(crate) fn take(&mut self, length: usize) {
        self.pending = 1..1 + length;
        self.flush();
    }

    /// Writes as much as the descriptor takes.
    pub(crate) fn flush(&mut self) {
        while let Some(fd) = self.fd.as_ref().filter(|_| !self.pending.is_empty()) {
            match rustix::io::write(fd, &self.buffer[self.pending.clone()]) {
                Ok(length) => self.pending.start += length,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // The input has no reader any more.
                Err(_) => self.fd = None,
            }
        }
        self.pending = 0..0;
        if self.ends {
            self.fd = None;
        }
    }

    /// Closes it once everything is written.
    pub(crate) fn end(&mut self) {
        self.ends = true;
        self.flush();
    }

    /// Gives the buffer's memory back if it is empty.
    pub(crate) fn rest(&mut self) {
        if self.pending.is_empty() {
            self.buffer.discard();
        }
    }
}
