//! Clients that a session's sockets answer: processes of the session.
//!
//! A socket in the session's root has a path beside the session as well, `/proc/PID/root`, for processes of the container with the
//! session's rights. They have another mount namespace than the session, and cannot join the session's without CAP_SYS_ADMIN.

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, fstat, open, stat};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// A mount namespace, by its file in nsfs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct MountNamespace {
    device: u64,
    inode: u64,
}

/// Number of bytes of [`MountNamespace::to_bytes`].
pub(super) const LENGTH: usize = 16;

impl MountNamespace {
    /// Finds that of a process, with a descriptor by which its number stays its own.
    pub(super) fn of(pid: u32) -> Result<(Self, OwnedFd), Errno> {
        let held = open(path(pid), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let found = fstat(&held)?;
        let (device, inode) = (found.st_dev, found.st_ino);
        Ok((Self { device, inode }, held))
    }

    pub(super) fn to_bytes(self) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        bytes[..8].copy_from_slice(&self.device.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.inode.to_ne_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: [u8; LENGTH]) -> Self {
        let number = |half: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[8 * half..8 * half + 8]);
            u64::from_ne_bytes(number)
        };
        Self {
            device: number(0),
            inode: number(1),
        }
    }

    /// True if the process that made this connection is in it. A process that has ended meanwhile is in none.
    pub(super) fn has(self, client: BorrowedFd<'_>) -> bool {
        let Ok(peer) = socket_peercred(client) else {
            return false;
        };
        let Some(pidfd) = pidfd_of(client, peer.pid) else {
            return false;
        };
        let pid = peer.pid.as_raw_nonzero().get().cast_unsigned();
        let found = stat(path(pid));
        // The number is that of this process for as long as no process has waited for its end.
        found.is_ok_and(|found| (found.st_dev, found.st_ino) == (self.device, self.inode))
            && is_there(pidfd.as_fd())
    }
}

fn path(pid: u32) -> String {
    format!("/proc/{pid}/ns/mnt")
}

/// Returns a pidfd of the process at the other end. Before Linux 6.5 it is that of the process which has its number now.
fn pidfd_of(client: BorrowedFd<'_>, pid: Pid) -> Option<OwnedFd> {
    match tote_sys::peer_pidfd(client) {
        Err(Errno::NOPROTOOPT) => pidfd_open(pid, PidfdFlags::empty()).ok(),
        pidfd => pidfd.ok(),
    }
}

/// True unless a process has waited for the end of this one.
fn is_there(pidfd: BorrowedFd<'_>) -> bool {
    // No signal is sent by the number 0.
    tote_sys::send_signal(pidfd, 0) != Err(Errno::SRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_client_of_another_mount_namespace_is_not_the_sessions() {
        let (client, _server) = UnixStream::pair().unwrap();
        let (own, _held) = MountNamespace::of(std::process::id()).unwrap();
        assert!(own.has(client.as_fd()));
        let other = MountNamespace {
            inode: own.inode + 1,
            ..own
        };
        assert!(!other.has(client.as_fd()));
        assert_eq!(MountNamespace::from_bytes(other.to_bytes()), other);
    }
}
