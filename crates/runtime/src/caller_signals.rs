//! Signals that the caller gets while a container runs.

use crate::RuntimeError;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::Signal;
use tote_sys::{SignalFd, SignalSet};

/// Signals that the container gets as well.
const FORWARDED: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// Counter of requests to end, since a container may ignore them: a first process without handlers does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Insistence(u8);

impl Insistence {
    /// Words of docker for a caller that has insisted.
    pub const WORDS: &'static str = "got 3 SIGTERM/SIGINTs, forcefully exiting";

    /// Counts a signal; true for the third one that asks for the end.
    pub fn note(&mut self, signal: i32) -> bool {
        if signal == Signal::INT.as_raw() || signal == Signal::TERM.as_raw() {
            self.0 = self.0.saturating_add(1);
        }
        self.0 >= 3
    }
}

/// The purpose of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// The terminal has another size.
    Resize,
    /// The container gets the signal.
    Forward(Signal),
    /// The signal is the third one that asks for the end.
    Insist,
}

/// Signals, kept from the moment in which this is made.
#[derive(Debug)]
pub(crate) struct CallerSignals {
    fd: SignalFd,
    insistence: Insistence,
}

impl CallerSignals {
    /// Keeps the signals; `sizes` includes the one for a new terminal size.
    ///
    /// # Errors
    /// [`RuntimeError::Wait`].
    pub(crate) fn new(sizes: bool) -> Result<Self, RuntimeError> {
        let mut signals = FORWARDED
            .iter()
            .fold(SignalSet::empty(), |set, signal| set.with(signal.as_raw()))
            .without_ignored_hangup();
        if sizes {
            signals = signals.with(Signal::WINCH.as_raw());
        }
        Ok(Self {
            fd: SignalFd::new(&signals).map_err(RuntimeError::Wait)?,
            insistence: Insistence::default(),
        })
    }

    /// Returns the next signal that has come.
    ///
    /// # Errors
    /// [`RuntimeError::Wait`].
    pub(crate) fn next(&mut self) -> Result<Option<Wish>, RuntimeError> {
        while let Some(signo) = self.fd.next().map_err(RuntimeError::Wait)? {
            if signo == Signal::WINCH.as_raw() {
                return Ok(Some(Wish::Resize));
            }
            if self.insistence.note(signo) {
                return Ok(Some(Wish::Insist));
            }
            if let Some(signal) = Signal::from_named_raw(signo) {
                return Ok(Some(Wish::Forward(signal)));
            }
        }
        Ok(None)
    }
}

impl AsFd for CallerSignals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_third_that_asks_for_the_end_insists() {
        let mut insistence = Insistence::default();
        for (signal, expected) in [
            (Signal::INT, false),
            (Signal::USR1, false),
            (Signal::TERM, false),
            (Signal::HUP, false),
            (Signal::INT, true),
        ] {
            assert_eq!(insistence.note(signal.as_raw()), expected, "{signal:?}");
        }
    }
}
