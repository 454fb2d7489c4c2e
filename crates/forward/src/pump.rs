//! Directions of connections: bytes that pass through a pipe, without being copied.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
use tote_sys::{Errno, best_effort};

/// How much passes at a time, which is the size of a pipe.
const AT_ONCE: usize = 65536;
/// With less than this a source probably has no more, and is not asked again at once.
const LITTLE: usize = 16384;
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

    /// Whether it waits for the source: nothing is on the way, and the source goes on.
    pub(crate) fn waits_for_source(&self) -> bool {
        self.held == 0 && !self.ended
    }

    /// Passes what can be passed at once; of a source that has little, what it has now, and not what comes meanwhile, unless it is to be
    /// `drained`. Gives whether it has been stopped so that others have their turn.
    ///
    /// # Errors
    /// A socket's.
    pub(crate) fn advance(
        &mut self,
        (from, to): (BorrowedFd<'_>, BorrowedFd<'_>),
        drained: bool,
    ) -> Result<bool, Errno> {
        let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
        let mut is_little = false;
        for _ in 0..ROUNDS {
            if self.waits_for_source() {
                if is_little && !drained {
                    return Ok(false);
                }
                match splice(from, None, &self.into, None, AT_ONCE, flags) {
                    Ok(0) => self.ended = true,
                    Ok(length) => {
                        self.held = length;
                        is_little = length < LITTLE;
                    }
                    Err(Errno::INTR) => continue,
                    Err(Errno::AGAIN) => return Ok(false),
                    Err(errno) => return Err(errno),
                }
            }
            if self.held > 0 {
                match splice(&self.out, None, to, None, self.held, flags) {
                    Ok(length) => self.held -= length,
                    Err(Errno::INTR) => continue,
                    Err(Errno::AGAIN) => return Ok(false),
                    Err(errno) => return Err(errno),
                }
            }
            if self.ended && self.held == 0 {
                if !self.told {
                    self.told = true;
                    best_effort(rustix::net::shutdown(to, Shutdown::Write));
                }
                return Ok(false);
            }
        }
        Ok(true)
    }
}
