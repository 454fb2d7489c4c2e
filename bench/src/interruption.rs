//! Signals that ask for an end: the present step is completed and cleaned up first.
//!
//! The signals are checked between steps. A command on the clock is in the terminal's process group, so ^C ends it
//! directly; commands that prepare and clean up, and daemons, have groups of their own and are not affected.

use anyhow::{Result, bail};

const INTERRUPT: i32 = rustix::process::Signal::INT.as_raw();
const TERMINATE: i32 = rustix::process::Signal::TERM.as_raw();

/// Makes SIGINT and SIGTERM pending instead of fatal; a second one of the same kind is fatal again.
pub fn prepare() {
    tote_sys::note_signals(&[INTERRUPT, TERMINATE]);
}

/// True if a signal is pending.
pub fn pending() -> bool {
    tote_sys::noted_signal().is_some()
}

/// Returns an error if a signal is pending.
pub fn check() -> Result<()> {
    match tote_sys::noted_signal() {
        Some(INTERRUPT) => bail!("interrupted"),
        Some(_) => bail!("terminated"),
        None => Ok(()),
    }
}

/// Returns the exit code for the pending signal.
pub fn exit_code() -> Option<u8> {
    u8::try_from(128 + tote_sys::noted_signal()?).ok()
}
