//! Attendance of a running process: its standard streams, the caller's signals, its end.

use crate::wait::{Waiting, follow_size};
use crate::{BrokenStream, DetachKeys, Outcome, RuntimeError, Stdio};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Signal, pidfd_send_signal};
use tote_sys::{ExitStatus, SignalFd, SignalSet, best_effort};

/// Caller's side of a process.
#[derive(Debug)]
pub struct Attendance {
    pub(crate) signals: SignalFd,
    pub(crate) stdio: Stdio,
    console: Option<OwnedFd>,
    interactive: bool,
    keys: Option<DetachKeys>,
}

/// Signals that are not passed on: they concern the caller itself, or mean nothing to another process.
const KEPT: [Signal; 8] = [
    Signal::CHILD,
    Signal::PIPE,
    Signal::URG,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::SEGV,
    Signal::BUS,
];

impl Attendance {
    /// Keeps signals from here on for a process that does not exist yet: called before it is made, so that no signal
    /// is lost.
    ///
    /// # Errors
    /// signalfd(2)'s.
    pub fn new(stdio: Stdio) -> Result<Self, RuntimeError> {
        let signals = KEPT
            .iter()
            .fold(SignalSet::full(), |set, signal| set.without(signal.as_raw()))
            .without_ignored_hangup();
        Ok(Self {
            signals: SignalFd::new(&signals).map_err(RuntimeError::Wait)?,
            stdio,
            console: None,
            interactive: true,
            keys: None,
        })
    }

    /// Sets whether input goes to the console, and which keys are looked for in it.
    #[must_use]
    pub fn with_input(self, interactive: bool, keys: Option<DetachKeys>) -> Self {
        Self {
            interactive,
            keys,
            ..self
        }
    }

    /// Gives up the master of the process's console, for another owner.
    pub fn give_console(&mut self) -> Option<OwnedFd> {
        self.console.take()
    }

    /// Returns the caller's stream that has failed, if one has.
    #[must_use]
    pub fn broken(&self) -> Option<BrokenStream> {
        self.stdio.broken()
    }

    /// Takes the master of the process's console.
    ///
    /// # Errors
    /// [`RuntimeError::Terminal`].
    pub fn take_console(&mut self, master: OwnedFd) -> Result<(), RuntimeError> {
        let failed = |source| RuntimeError::Terminal {
            attempt: "use the container's console",
            source,
        };
        self.stdio
            .console(&master, self.interactive, self.keys.take())
            .map_err(failed)?;
        self.console = Some(master);
        follow_size(self.console.as_ref());
        Ok(())
    }

    /// Passes the caller's signals on.
    pub(crate) fn forward(&self, send: &dyn Fn(Signal)) -> Result<(), RuntimeError> {
        while let Some(signo) = self.signals.next().map_err(RuntimeError::Wait)? {
            if signo == Signal::WINCH.as_raw() {
                follow_size(self.console.as_ref());
            } else if let Some(signal) = Signal::from_named_raw(signo) {
                send(signal);
            }
        }
        Ok(())
    }
}

/// Waits for the end of a child of this process, and until its output has been passed on.
///
/// # Errors
/// poll(2)'s and waitid(2)'s.
pub fn attend(mut attendance: Attendance, pidfd: &OwnedFd) -> Result<Outcome, RuntimeError> {
    loop {
        // Without keys the loop ends with the first outcome.
        if let Some(outcome) = attend_or_leave(&mut attendance, pidfd)? {
            return Ok(outcome);
        }
    }
}

/// Does [`attend`], but returns `None` when the keys were typed and the process goes on by itself.
///
/// # Errors
/// Those of [`attend`].
pub fn attend_or_leave(
    attendance: &mut Attendance,
    pidfd: &OwnedFd,
) -> Result<Option<Outcome>, RuntimeError> {
    loop {
        let woken = attendance.stdio.wait(&Waiting {
            process: pidfd.as_fd(),
            signals: attendance.signals.as_fd(),
            asides: &[],
            channel: None,
            until: None,
        })?;
        if woken.signal {
            // A process that has just ended needs no signal.
            attendance.forward(&|signal| best_effort(pidfd_send_signal(pidfd, signal)))?;
        }
        attendance.stdio.advance(&woken);
        if woken.process {
            break;
        }
        if attendance.stdio.is_left() {
            return Ok(None);
        }
    }
    let status = ExitStatus::of(pidfd.as_fd()).map_err(RuntimeError::Wait)?;
    attendance.stdio.drain();
    Ok(Some(status.into()))
}
