//! A process that keeps a terminal open which no command attends any more: without it the program would be hung up
//! on.

use crate::RuntimeError;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType};
use std::io::IoSlice;
use tote_sys::Errno;

/// Process that waits for a terminal to hold; it ends when this value is dropped before.
///
/// It is made before its maker joins namespaces of a container: a process forked inside a user namespace would be
/// born among the container's processes, which could look into it.
#[derive(Debug)]
pub struct Holder(OwnedFd);

impl Holder {
    /// Makes the process.
    ///
    /// # Errors
    /// socketpair(2)'s and fork(2)'s.
    pub fn new() -> Result<Self, RuntimeError> {
        let failed = |source| RuntimeError::Terminal {
            attempt: "make a process that holds the terminal",
            source,
        };
        let flags = SocketFlags::CLOEXEC;
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) = pair.map_err(failed)?;
        // process: holder of a terminal
        tote_sys::fork_apart(theirs, hold).map_err(failed)?;
        Ok(Self(ours))
    }

    /// Hands the master of the terminal to the process.
    ///
    /// # Errors
    /// sendmsg(2)'s.
    pub fn give(self, master: &OwnedFd) -> Result<(), RuntimeError> {
        let sent = tote_sys::send_with(self.0.as_fd(), &[IoSlice::new(b"T")], &[master.as_fd()]);
        sent.map(drop).map_err(|source| RuntimeError::Terminal {
            attempt: "hand the terminal to the process that holds it",
            source,
        })
    }
}

/// Waits for a terminal, and reads it until the other end is closed.
fn hold(socket: OwnedFd) {
    let Some(master) = receive(&socket) else { return };
    drop(socket);
    // The master was non-blocking for the command that attended.
    if rustix::io::ioctl_fionbio(&master, false).is_ok() {
        let mut bytes = [0; 4096];
        while matches!(rustix::io::read(&master, &mut bytes), Ok(1..) | Err(Errno::INTR)) {}
    }
}

fn receive(socket: &OwnedFd) -> Option<OwnedFd> {
    let received = tote_sys::receive_with(socket.as_fd(), &mut [0], RecvFlags::empty());
    received.ok()?.1.into_iter().next()
}
