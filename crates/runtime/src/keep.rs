//! Keeping of a parked sandbox: the process beside it, its parent, watches for the taker and for the end.

use crate::{Aside, Created, Outcome, RuntimeError};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::AsFd;
use rustix::process::{Signal, pidfd_send_signal};
use tote_sys::{
    Child, Endless, Errno, Event, ExitStatus, Footprint, SignalFd, SignalSet, Taker, Wait, Wish, best_effort,
};

/// Event of a sandbox while it is kept.
#[derive(Debug)]
pub enum Kept {
    /// A taker has taken it.
    Taken,
    /// The taker sends this record.
    Noted(Vec<u8>),
}

/// Keeps a sandbox whose process waits at [`tote_sys::Park`] to its end; returns how it ended, and its taker.
///
/// The sandbox ends with its taker. Until it is taken, this process sleeps with next to nothing in memory, and looks after
/// `aside`.
///
/// # Errors
/// poll(2)'s and waitid(2)'s; the sandbox's process has been killed then.
pub fn keep(
    created: &Created,
    footprint: &Footprint,
    aside: &mut dyn Aside,
    happened: &mut dyn FnMut(Kept),
) -> Result<(Outcome, Option<Taker>), RuntimeError> {
    let signals = [Signal::HUP, Signal::INT, Signal::TERM]
        .iter()
        .fold(SignalSet::empty(), |set, signal| set.with(signal.as_raw()));
    let signals = SignalFd::new(&signals).map_err(RuntimeError::Wait)?;
    let mut keeper = Keeper {
        child: &created.child,
        taker: None,
        listens: true,
        note: Vec::new(),
    };
    let watched = keeper.watch((&signals, aside), footprint, happened);
    if watched.is_err() {
        keeper.kill();
    }
    let outcome = keeper.reap()?;
    watched.map(|()| (outcome, keeper.taker))
}

struct Keeper<'a> {
    child: &'a Child,
    taker: Option<Taker>,
    /// True if the process may still send messages.
    listens: bool,
    /// Received part of the record.
    note: Vec<u8>,
}

impl Keeper<'_> {
    fn watch(
        &mut self,
        (signals, aside): (&SignalFd, &mut dyn Aside),
        footprint: &Footprint,
        happened: &mut dyn FnMut(Kept),
    ) -> Result<(), RuntimeError> {
        loop {
            let mut fds = vec![
                PollFd::new(&self.child.pidfd, PollFlags::IN),
                PollFd::new(signals, PollFlags::IN),
            ];
            if self.listens {
                // Only the end of its channel wakes the keeper, which means that it has become its program or ended:
                // no process may be woken before.
                fds.push(PollFd::from_borrowed_fd(self.child.channel(), PollFlags::empty()));
            }
            if let Some(taker) = &self.taker {
                fds.push(PollFd::from_borrowed_fd(taker.as_fd(), PollFlags::IN));
            }
            let asides = aside.fds().into_iter();
            fds.extend(asides.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
            match footprint.sleep(&mut fds, Wait::endless(Endless::Calls)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(RuntimeError::Wait(errno)),
            }
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
            let (ended, signal) = (ready.next() == Some(true), ready.next() == Some(true));
            let said = self.listens && ready.next() == Some(true);
            let wished = self.taker.is_some() && ready.next() == Some(true);
            let asked = ready.any(|is_ready| is_ready);
            drop(fds);
            if said {
                self.hear(happened)?;
            }
            if wished {
                self.grant(happened)?;
            }
            if asked {
                aside.advance();
            }
            if signal && signals.next().map_err(RuntimeError::Wait)?.is_some() {
                self.kill();
            }
            // Messages from before the end are read first.
            if ended && !said {
                return Ok(());
            }
        }
    }

    fn hear(&mut self, happened: &mut dyn FnMut(Kept)) -> Result<(), RuntimeError> {
        match self.child.event().map_err(RuntimeError::Wait)? {
            Event::Taken(connection) => {
                let taker = Taker::new(connection);
                if taker.is_foreign() {
                    self.kill();
                }
                self.taker = Some(taker);
                happened(Kept::Taken);
            }
            Event::Exec => {
                self.listens = false;
                if let Some(taker) = &self.taker {
                    taker.began();
                }
            }
            // The end of the process follows.
            _ => {}
        }
        Ok(())
    }

    fn grant(&mut self, happened: &mut dyn FnMut(Kept)) -> Result<(), RuntimeError> {
        let Some(taker) = &self.taker else { return Ok(()) };
        match taker.wish().map_err(RuntimeError::Wait)? {
            Wish::Signal(signo) => {
                if let Some(signal) = Signal::from_named_raw(signo) {
                    // A process that has just ended needs no signal.
                    best_effort(pidfd_send_signal(&self.child.pidfd, signal));
                }
            }
            Wish::Note(text, last) => {
                self.note.extend(text);
                if last {
                    happened(Kept::Noted(std::mem::take(&mut self.note)));
                }
            }
            Wish::Unknown => {}
            Wish::Gone => {
                self.taker = None;
                self.kill();
            }
        }
        Ok(())
    }

    fn kill(&self) {
        // ESRCH: the process has ended already.
        best_effort(pidfd_send_signal(&self.child.pidfd, Signal::KILL));
    }

    fn reap(&self) -> Result<Outcome, RuntimeError> {
        let status = ExitStatus::of(self.child.pidfd.as_fd()).map_err(RuntimeError::Wait)?;
        Ok(status.into())
    }
}
