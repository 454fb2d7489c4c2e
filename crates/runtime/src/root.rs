//! Root directory of another process.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use tote_sys::{Errno, Wait};

/// Opens the root directory of the process with this pid and this pidfd. The pid alone may belong to another process
/// by the time of the look-up, and that process's root may be the host's.
///
/// # Errors
/// open(2)'s on `/proc/PID/root`; `ESRCH` if the process has ended.
pub fn root_of(pid: u32, pidfd: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(format!("/proc/{pid}/root"), flags, Mode::empty())?;
    // The check comes afterwards: as long as the process has not been reaped, the pid was its own.
    match Wait::now().readable(pidfd)? {
        false => Ok(root),
        true => Err(Errno::SRCH),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;
    use rustix::process::{Pid, PidfdFlags, pidfd_open};

    #[test]
    #[expect(
        clippy::disallowed_methods,
        reason = "any program that waits will do, and tests have a PATH"
    )]
    fn a_number_counts_for_as_long_as_its_process_lives() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).unwrap();
        assert!(root_of(child.id(), pidfd.as_fd()).is_ok());
        drop(child.stdin.take());
        child.wait().unwrap();
        // The pid of another living process stands for one that was given out again.
        let again = root_of(std::process::id(), pidfd.as_fd());
        assert_eq!(again.map(drop), Err(Errno::SRCH));
    }
}
