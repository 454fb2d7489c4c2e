//! pidfd_send_signal(2) by number: rustix takes named signals only, and real-time ones have no names.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd, BorrowedFd};

/// Sends a signal to the process of a pidfd.
///
/// # Errors
/// `ESRCH` when the process has ended, `EINVAL` for an invalid signal number.
pub fn send_signal(pidfd: BorrowedFd<'_>, signo: i32) -> Result<(), Errno> {
    let no_details = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: a null pointer for the details asks the kernel to fill them in; the rest are numbers.
    match unsafe {
        libc::syscall(
            libc::SYS_pidfd_send_signal,
            pidfd.as_raw_fd(),
            signo,
            no_details,
            0,
        )
    } {
        0 => Ok(()),
        _ => Err(errno()),
    }
}
