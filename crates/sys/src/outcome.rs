//! Outcomes of calls: the errno of a failed one, a failure that does no harm, and the end of a process.

use crate::Errno;

/// Returns the errno of the libc call that just failed.
pub(crate) fn errno() -> Errno {
    std::io::Error::last_os_error()
        .raw_os_error()
        .map_or(Errno::INVAL, Errno::from_raw_os_error)
}

/// Calls exit_group(2), without destructors and exit handlers, which belong to the parent.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(code) }
}

/// Ignores the result of a call that may fail without harm: the line that calls it says why.
pub fn best_effort<T, E>(_result: Result<T, E>) {}
