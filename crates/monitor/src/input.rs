//! The container's standard input, and the one message of a client that it has not taken yet.

use crate::clients::INPUT;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ops::Range;
use tote_sys::{Errno, Pages};

/// Where input goes; without a descriptor it goes nowhere.
#[derive(Debug)]
pub(crate) struct Input {
    fd: Option<OwnedFd>,
    pub(crate) buffer: Pages,
    pending: Range<usize>,
    /// Whether it is to be closed after what is pending.
    ends: bool,
}

impl Input {
    /// The descriptor is made non-blocking.
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

    /// Whether a message more can be taken.
    pub(crate) fn has_room(&self) -> bool {
        self.pending.is_empty()
    }

    /// What to wait for.
    pub(crate) fn wanted(&self) -> Option<BorrowedFd<'_>> {
        self.fd
            .as_ref()
            .filter(|_| !self.pending.is_empty())
            .map(AsFd::as_fd)
    }

    /// So many bytes are in the buffer, behind its first.
    pub(crate) fn take(&mut self, length: usize) {
        self.pending = 1..1 + length;
        self.flush();
    }

    /// Writes what it takes.
    pub(crate) fn flush(&mut self) {
        while let Some(fd) = self.fd.as_ref().filter(|_| !self.pending.is_empty()) {
            match rustix::io::write(fd, &self.buffer[self.pending.clone()]) {
                Ok(length) => self.pending.start += length,
                Err(Errno::AGAIN) => return,
                Err(Errno::INTR) => {}
                // Nobody reads it any more.
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

    /// Gives the buffer's memory back, where nothing is in it.
    pub(crate) fn rest(&mut self) {
        if self.pending.is_empty() {
            self.buffer.discard();
        }
    }
}
