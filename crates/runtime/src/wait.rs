//! Wait of an attendant of a process: until the process, the caller's signals, one of the caller's streams or a descriptor
//! beside them has something to say.

use crate::relay::Copy;
use crate::{RuntimeError, Stdio};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;
use tote_sys::{Endless, Errno, Wait, best_effort};

/// Descriptors that an attendant waits for beside the caller's streams.
pub(crate) struct Waiting<'a> {
    /// Readable when the process has ended, or when its keeper says something.
    pub process: BorrowedFd<'a>,
    /// Readable when the caller has got a signal.
    pub signals: BorrowedFd<'a>,
    /// Descriptors of everything else that the attendant looks after.
    pub asides: &'a [BorrowedFd<'a>],
    /// Channel of a process whose program does not run yet.
    pub channel: Option<BorrowedFd<'a>>,
    /// Moment at which the wait ends in any case.
    pub until: Option<Instant>,
}

/// Result of a wait: which of its descriptors are ready. None is if the time was over first.
pub(crate) struct Woken {
    pub process: bool,
    pub signal: bool,
    /// True if at least one of the asides has something to say.
    pub aside: bool,
    pub channel: bool,
    copies: Vec<bool>,
}

impl Stdio {
    /// Sleeps until one of the descriptors or a stream has something to say.
    ///
    /// # Errors
    /// poll(2)'s.
    pub(crate) fn wait(&self, waiting: &Waiting<'_>) -> Result<Woken, RuntimeError> {
        let copies: Vec<_> = self.copies.iter().map(Copy::poll_fd).collect();
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = Vec::with_capacity(3 + waiting.asides.len() + copies.len());
        fds.extend([waiting.process, waiting.signals].map(readable));
        fds.extend(waiting.asides.iter().copied().map(readable));
        fds.extend(copies.iter().flatten().cloned());
        fds.extend(waiting.channel.map(readable));
        match Wait::until_or(waiting.until, Endless::Program).poll(&mut fds) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(RuntimeError::Wait(errno)),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let (process, signal) = (ready.next() == Some(true), ready.next() == Some(true));
        let asides = ready.by_ref().take(waiting.asides.len());
        let aside = asides.fold(false, |any, one| any | one);
        let copies = copies
            .iter()
            .map(|copy| copy.is_some() && ready.next() == Some(true))
            .collect();
        let channel = ready.next() == Some(true);
        Ok(Woken {
            process,
            signal,
            aside,
            channel,
            copies,
        })
    }

    /// Advances the streams that have something to say.
    pub(crate) fn advance(&mut self, woken: &Woken) {
        for (copy, ready) in self.copies.iter_mut().zip(&woken.copies) {
            if *ready {
                copy.advance();
            }
        }
    }

    /// True if the user at the console has typed the keys to leave.
    pub(crate) fn is_left(&self) -> bool {
        self.copies.iter().any(Copy::left)
    }
}

/// Gives a console the size of the caller's terminal.
pub(crate) fn follow_size(console: Option<&OwnedFd>) {
    if let Some(console) = console
        && let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdin())
    {
        // A console that is gone has no size.
        best_effort(rustix::termios::tcsetwinsize(console, size));
    }
}
