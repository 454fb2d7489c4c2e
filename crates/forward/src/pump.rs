//! Directions of connections. What comes in small parts is copied, which takes less time than to lead it through a pipe; much at a time
//! passes through a pipe, without being copied.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::{RecvFlags, SendFlags, Shutdown, recv, send};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
use tote_sys::{Errno, best_effort};

/// How much passes at a time, which is the size of a pipe.
const AT_ONCE: usize = 65536;
/// With less than this a source probably has no more, and is not asked again at once.
pub(crate) const LITTLE: usize = 16384;
/// How often a direction is served before others have their turn.
const ROUNDS: usize = 32;

/// Bytes from one socket to another one.
#[derive(Debug)]
pub(crate) struct Pump {
    /// The pipe's end that is read, and the one that is written; `None` until much has come at a time.
    pipe: Option<(OwnedFd, OwnedFd)>,
    /// Bytes in the pipe.
    held: usize,
    /// Bytes that were copied and that the destination has not taken yet.
    rest: Vec<u8>,
    /// Whether the source had much the last time.
    much: bool,
    /// Whether the source has ended.
    ended: bool,
    /// Whether the destination was told.
    told: bool,
}

impl Pump {
    pub(crate) fn new() -> Self {
        Self {
            pipe: None,
            held: 0,
            rest: Vec::new(),
            much: false,
            ended: false,
            told: false,
        }
    }

    /// Whether everything has passed.
    pub(crate) fn is_over(&self) -> bool {
        self.told
    }

    /// Whether nothing of the source waits for the destination.
    pub(crate) fn is_empty(&self) -> bool {
        self.held == 0 && self.rest.is_empty()
    }

    /// Whether it waits for the source: nothing is on the way, and the source goes on.
    pub(crate) fn waits_for_source(&self) -> bool {
        self.is_empty() && !self.ended
    }

    /// Passes what can be passed at once; of a source that has little, what it has now, and not what comes meanwhile, unless it is to be
    /// `drained`. `room` has [`LITTLE`] bytes and is anybody's between two calls. Gives whether it has been stopped so that others
    /// have their turn.
    ///
    /// # Errors
    /// A socket's.
    pub(crate) fn advance(
        &mut self,
        (from, to): (BorrowedFd<'_>, BorrowedFd<'_>),
        room: &mut [u8],
        drained: bool,
    ) -> Result<bool, Errno> {
        let mut is_little = false;
        for _ in 0..ROUNDS {
            if self.waits_for_source() {
                if is_little && !drained {
                    return Ok(false);
                }
                match self.take((from, to), room) {
                    Ok(0) => self.ended = true,
                    Ok(length) => {
                        is_little = length < LITTLE;
                        self.much = !is_little;
                    }
                    Err(Errno::INTR) => continue,
                    Err(Errno::AGAIN) => return Ok(false),
                    Err(errno) => return Err(errno),
                }
            }
            match self.give(to) {
                Ok(()) => {}
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
            if self.ended && self.is_empty() {
                if !self.told {
                    self.told = true;
                    best_effort(rustix::net::shutdown(to, Shutdown::Write));
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes bytes from the source; those that are copied have passed already, but for the rest. Gives their number.
    fn take(
        &mut self,
        (from, to): (BorrowedFd<'_>, BorrowedFd<'_>),
        room: &mut [u8],
    ) -> Result<usize, Errno> {
        if self.much {
            if self.pipe.is_none() {
                // Without a descriptor that is left, bytes are copied.
                self.pipe = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok();
            }
            if let Some((_, into)) = &self.pipe {
                self.held = splice(from, None, into, None, AT_ONCE, flags())?;
                return Ok(self.held);
            }
        }
        let (length, _) = recv(from, &mut *room, RecvFlags::DONTWAIT)?;
        let taken = room.get(..length).unwrap_or_default();
        if length == 0 {
            return Ok(0);
        }
        let passed = match send(to, taken, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(passed) => passed,
            Err(Errno::INTR | Errno::AGAIN) => 0,
            Err(errno) => return Err(errno),
        };
        self.rest.extend(taken.get(passed..).unwrap_or_default());
        Ok(length)
    }

    /// Gives the destination what is on the way.
    fn give(&mut self, to: BorrowedFd<'_>) -> Result<(), Errno> {
        if !self.rest.is_empty() {
            let passed = send(to, &self.rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
            self.rest.drain(..passed);
        }
        if let Some((out, _)) = self.pipe.as_ref().filter(|_| self.held > 0) {
            self.held -= splice(out, None, to, None, self.held, flags())?;
        }
        Ok(())
    }
}

const fn flags() -> SpliceFlags {
    SpliceFlags::MOVE.union(SpliceFlags::NONBLOCK)
}
