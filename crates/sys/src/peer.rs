//! Process at the other end of a Unix socket.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// `SO_PEERPIDFD`, since Linux 6.5, which libc lacks.
const PEER_PIDFD: libc::c_int = 77;

/// Returns a pidfd of the process that made the connection, even if another process has its number by now.
///
/// # Errors
/// `ENOPROTOOPT` before Linux 6.5; `ESRCH` or `EINVAL`, depending on the kernel, for a process that is gone.
pub fn peer_pidfd(socket: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut pidfd: libc::c_int = -1;
    let mut length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, the size of the number.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            PEER_PIDFD,
            (&raw mut pidfd).cast(),
            &raw mut length,
        )
    };
    match done {
        // SAFETY: the kernel has just made this descriptor for the caller, and nothing else refers to it.
        0 if pidfd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(pidfd) }),
        0 => Err(Errno::SRCH),
        _ => Err(errno()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;

    #[test]
    fn a_peer_is_the_process_that_made_the_connection() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        match peer_pidfd(one.as_fd()) {
            Err(Errno::NOPROTOOPT) => println!("skipped: needs Linux 6.5"),
            pidfd => {
                let pidfd = pidfd.unwrap();
                let shown =
                    std::fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).unwrap();
                let own = format!("Pid:\t{}\n", std::process::id());
                assert!(shown.contains(&own), "{shown}");
            }
        }
    }
}
