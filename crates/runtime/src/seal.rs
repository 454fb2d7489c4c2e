//! Keeping this program's file out of the reach of containers (CVE-2019-5736).
//!
//! A container that a process of this program enters, or is born from, sees the program's file as `/proc/PID/exe` until
//! the process has become the container's program, and for good with an init of ours or where it brings the process to
//! execute `/proc/self/exe`. A file that is being executed cannot be written to, but its mode, its owner and its attributes
//! can be changed. So nothing is born but from a process whose executable is a read-only mount of the file.

use crate::RuntimeError;
use std::sync::atomic::{AtomicBool, Ordering};
use tote_sys::Errno;

/// Makes sure of it, where a container could change the file at all: a user who may not change it has no container that
/// may. Where that takes another start of the program, this does not come back; so it is for the beginning of a command.
///
/// # Errors
/// [`RuntimeError::Seal`].
pub fn seal() -> Result<(), RuntimeError> {
    unless_needless(tote_sys::seal)
}

/// The same in the midst of a command, where the program cannot be started again.
///
/// # Errors
/// [`RuntimeError::Seal`]: the command has not called [`seal`], and its user is not root.
pub(crate) fn check() -> Result<(), RuntimeError> {
    unless_needless(tote_sys::seal_in_place)
}

/// Whether this process, or the one that it was forked from, has been through this. It is not asked again: in a user
/// namespace that has been entered meanwhile everybody is root.
static DONE: AtomicBool = AtomicBool::new(false);

fn unless_needless(seal: fn() -> Result<(), Errno>) -> Result<(), RuntimeError> {
    if DONE.load(Ordering::Relaxed) {
        return Ok(());
    }
    if !tote_sys::is_sealed() && tote_sys::may_change_executable().map_err(RuntimeError::Seal)? {
        seal().map_err(RuntimeError::Seal)?;
    }
    DONE.store(true, Ordering::Relaxed);
    Ok(())
}
