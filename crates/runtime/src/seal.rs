//! Protection of this program's file from containers (CVE-2019-5736).
//!
//! A container that a process of this program enters, or is born from, sees the program's file as `/proc/PID/exe`
//! until the process has become the container's program, and for good with tote's own init or if the container makes
//! the process execute `/proc/self/exe`. A file that is being executed cannot be written to, but its mode, its owner
//! and its attributes can be changed. So containers are born only from processes whose executable is a read-only
//! mount of the file.

use crate::RuntimeError;
use crate::join::NEW_PID;
use std::sync::atomic::{AtomicBool, Ordering};
use tote_sandbox::Plan;
use tote_sys::{Errno, Sealing};

/// Makes sure that [`seal_in_place`] will work, if the user may change the file at all: otherwise no container of the
/// user can. If that takes another start of the program, this call does not return, so it belongs at the beginning of
/// a command.
///
/// # Errors
/// [`RuntimeError::Seal`].
pub fn prepare() -> Result<(), RuntimeError> {
    unless_done(|| tote_sys::open_seal().or_else(|_| seal_now(tote_sys::seal))).map(drop)
}

/// Seals at once, for a process that is already close to a container.
///
/// # Errors
/// [`RuntimeError::Seal`].
pub fn seal() -> Result<(), RuntimeError> {
    unless_done(|| seal_now(tote_sys::seal)).map(drop)
}

/// Seals in the midst of a command, where the program cannot be started again.
///
/// # Errors
/// [`RuntimeError::Seal`]: the command has not called [`prepare`], and its user is not root.
pub fn seal_in_place() -> Result<(), RuntimeError> {
    unless_done(|| seal_now(tote_sys::seal_in_place)).map(drop)
}

/// Prepares sealing for the process of a plan. A process that no other one sees can seal itself, in parallel with its
/// parent and faster: hardly anything of the program is in its memory yet.
///
/// # Errors
/// [`RuntimeError::Seal`].
pub(crate) fn for_newborn(plan: &Plan) -> Result<Option<Sealing>, RuntimeError> {
    if plan.pid_namespace.is_some() || plan.namespaces & u64::from(NEW_PID) == 0 {
        return seal_in_place().map(|()| None);
    }
    unless_done(Sealing::new)
}

/// Does [`for_newborn`] for a plan that joins a container. A process that only descends into the container's PID
/// namespace once it has all but become its program is not visible there before ([`tote_sys::Op::Descend`]).
///
/// # Errors
/// [`RuntimeError::Seal`].
pub(crate) fn for_joining(plan: &Plan, user_namespace: bool) -> Result<Option<Sealing>, RuntimeError> {
    // This process enters the user namespace itself, where it no longer has the rights that sealing takes.
    if user_namespace || !plan.descends() {
        return seal_in_place().map(|()| None);
    }
    unless_done(Sealing::new)
}

/// True once this process, or the one that it was forked from, has checked this. The check is not repeated, because
/// in a user namespace entered meanwhile every process may look like root.
static DONE: AtomicBool = AtomicBool::new(false);

fn unless_done<T>(act: impl FnOnce() -> Result<T, Errno>) -> Result<Option<T>, RuntimeError> {
    if DONE.load(Ordering::Relaxed) {
        return Ok(None);
    }
    if tote_sys::may_change_executable().map_err(RuntimeError::Seal)? {
        act().map(Some).map_err(RuntimeError::Seal)
    } else {
        DONE.store(true, Ordering::Relaxed);
        Ok(None)
    }
}

fn seal_now(seal: fn() -> Result<(), Errno>) -> Result<(), Errno> {
    seal()?;
    DONE.store(true, Ordering::Relaxed);
    Ok(())
}
