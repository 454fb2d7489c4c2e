//! prctl(2), for the options that are needed by number.

use crate::Errno;
use crate::outcome::errno;

/// Upper bound of the capability numbers that are asked about; more than any kernel has.
pub(crate) const CAPABILITIES: u32 = 64;

/// Calls prctl(2) with plain numbers.
pub(crate) fn prctl(option: i32, two: u64, three: u64) -> Result<i32, Errno> {
    // SAFETY: the options used in this crate take numbers only, no pointer.
    match unsafe { libc::prctl(option, two, three, 0u64, 0u64) } {
        -1 => Err(errno()),
        value => Ok(value),
    }
}

/// Asks for SIGKILL when the parent ends. Every change of ids clears this setting, so the call has to come after it.
///
/// # Errors
/// prctl(2)'s.
pub fn die_with_parent() -> Result<(), Errno> {
    prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as u64, 0).map(drop)
}

/// Takes [`die_with_parent`] back.
///
/// # Errors
/// prctl(2)'s.
pub(crate) fn outlive_parent() -> Result<(), Errno> {
    prctl(libc::PR_SET_PDEATHSIG, 0, 0).map(drop)
}

/// Allows or forbids other processes to look into this one: `/proc/PID/exe`, `mem` and `fd`, ptrace(2), core dumps.
///
/// # Errors
/// prctl(2)'s.
pub fn set_dumpable(dumpable: bool) -> Result<(), Errno> {
    prctl(libc::PR_SET_DUMPABLE, dumpable.into(), 0).map(drop)
}

/// Returns the caller's bounding set as a bit mask: a capability that root lacks here cannot be had by any
/// descendant.
#[must_use]
pub fn bounding_capabilities() -> u64 {
    let mut set = 0;
    for capability in 0..CAPABILITIES {
        match prctl(libc::PR_CAPBSET_READ, capability.into(), 0) {
            Ok(1) => set |= 1 << capability,
            Ok(_) => {}
            Err(_) => break, // past the last capability that this kernel knows
        }
    }
    set
}
