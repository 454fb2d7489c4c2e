//! Terminal of the caller.

use crate::RuntimeError;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::time::Duration;
use tote_sys::{Wait, best_effort};

/// Raw mode of the caller's terminal; dropping this restores the former modes.
#[derive(Debug)]
pub struct RawMode {
    before: Termios,
}

impl RawMode {
    /// Switches standard input's terminal to raw mode.
    ///
    /// # Errors
    /// `ENOTTY` if standard input is not a terminal.
    pub fn enter() -> Result<Self, RuntimeError> {
        let failed = |attempt| move |source| RuntimeError::Terminal { attempt, source };
        let before = tcgetattr(rustix::stdio::stdin()).map_err(failed("read the terminal's modes"))?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(rustix::stdio::stdin(), OptionalActions::Drain, &raw)
            .map_err(failed("switch the terminal to raw mode"))?;
        Ok(Self { before })
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs no restoring.
        best_effort(tcsetattr(
            rustix::stdio::stdin(),
            OptionalActions::Drain,
            &self.before,
        ));
    }
}

/// Waits for this time, or until standard output has no reader any more or a signal comes.
pub fn wait_while_read(time: Duration) {
    let mut fds = [PollFd::from_borrowed_fd(
        rustix::stdio::stdout(),
        PollFlags::empty(),
    )];
    // If poll(2) fails or ends early, the caller notices the reason itself.
    best_effort(Wait::within(time).poll(&mut fds));
}

/// Returns rows and columns of the caller's terminal, whichever standard descriptor is one.
#[must_use]
pub fn size() -> Option<(u16, u16)> {
    [
        rustix::stdio::stdin(),
        rustix::stdio::stdout(),
        rustix::stdio::stderr(),
    ]
    .iter()
    .find_map(|fd| size_of(*fd))
}

fn size_of(fd: BorrowedFd<'_>) -> Option<(u16, u16)> {
    tcgetwinsize(fd.as_fd())
        .ok()
        .map(|size| (size.ws_row, size.ws_col))
        .filter(|size| *size != (0, 0))
}
