//! A signal that asks for an end: what was begun is finished and taken away first.
//!
//! It is looked at between steps. What runs on the clock is in the terminal's process group and ends by a ^C itself; what
//! makes and removes things, and the daemons, is in groups of its own and does not.

use anyhow::{Result, bail};

const INTERRUPT: i32 = rustix::process::Signal::INT.as_raw();
const TERMINATE: i32 = rustix::process::Signal::TERM.as_raw();

/// From now on SIGINT and SIGTERM end nothing at once; the same one again does.
pub(crate) fn prepare() {
    tote_sys::note_signals(&[INTERRUPT, TERMINATE]);
}

/// Whether one has come.
pub(crate) fn pending() -> bool {
    tote_sys::noted_signal().is_some()
}

/// An error where one has come.
pub(crate) fn check() -> Result<()> {
    match tote_sys::noted_signal() {
        Some(INTERRUPT) => bail!("interrupted"),
        Some(_) => bail!("terminated"),
        None => Ok(()),
    }
}

/// The exit code of what a signal ended.
pub(crate) fn exit_code() -> Option<u8> {
    u8::try_from(128 + tote_sys::noted_signal()?).ok()
}
