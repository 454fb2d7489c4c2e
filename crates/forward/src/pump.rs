//! Directions of connections: bytes that pass through a pipe, without being copied.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
use tote_sys::{Errno, best_effort};

/// How much passes at a time, which is the size of a pipe.
const AT_ONCE: usize = 65536;
/// How often a direction is served before others have their turn.
const ROUNDS: usize = 32;

/// Bytes from one socket to another one.
#[derive(Debug)]
pub(crate) struct Pump {
    out: OwnedFd,
    into: OwnedFd,
    /// Bytes in the pipe.
    held: usize,
    /// Whether the source has ended.
    ended: bool,
    /// Whether the destination was told.
    told: bool,
}

impl Pump {
    pub(crate) fn new() -> Result<Self, Errno> {
        let (out, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self {
            out,
            into,
            held: 0,
            ended: false,
            told: false,
        })
    }

    /// Whether everything has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.told
    }

    /// Whether nothing of the source waits for the destination.
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0
    }

    /// Passes what can be passed at once. Gives whether there may be more.
    ///
    /// # Errors
    /// A socket's.
    pub(crate) fn advance(&mut self, from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<bool, Errno> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        for _ in 0..ROUNDS {
            let mut passed = false;
            if !self.ended && self.held < AT_ONCE {
                match splice(from, None, &self.into, None, AT_ONCE - self.held, flags) {
                    Ok(0) => self.ended = true,
                    Ok(length) => {
                        self.held += length;
                        passed = true;
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            if self.held > 0 {
                match splice(&self.out, None, to, None, self.held, flags) {
                    Ok(length) => {
                        self.held -= length;
                        passed |= length > 0;
                    }
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    Err(errno) => return Err(errno),
                }
            }
            if self.ended && self.held == 0 && !self.told {
                self.told = true;
                best_effort(rustix::net::shutdown(to, Shutdown::Write));
            }
            if !passed {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
