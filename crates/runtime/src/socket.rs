//! Descriptors for the callers of an OCI runtime: `--console-socket`, `--pidfd-socket`, and the agent that
//! answers for a system call filter.

use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io::IoSlice;
use std::path::Path;
use std::time::Duration;
use tote_sys::Wait;

/// Time in which the caller of a runtime accepts what it has asked for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Connects to the listening socket and sends the descriptor along with a text.
///
/// # Errors
/// connect(2)'s and sendmsg(2)'s.
pub fn send_descriptor(socket: &Path, text: &str, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    send_within(socket, (text, fd), Wait::within(PATIENCE))
}

fn send_within(socket: &Path, (text, fd): (&str, BorrowedFd<'_>), wait: Wait) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC;
    let connection = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    wait.connect(&connection, &SocketAddrUnix::new(socket)?)?;
    let mut rest = text.as_bytes();
    let flags = SendFlags::NOSIGNAL;
    let sent = tote_sys::send_with(connection.as_fd(), &[IoSlice::new(rest)], &[fd])?;
    rest = &rest[sent..];
    while !rest.is_empty() {
        let sent = rustix::net::send(&connection, rest, flags)?;
        rest = &rest[sent..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_that_accepts_nothing_is_given_up() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("s");
        let deaf = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::net::bind(&deaf, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        rustix::net::listen(&deaf, 0).unwrap();
        let send = || {
            let wait = Wait::within(Duration::from_millis(50));
            send_within(&path, ("text", deaf.as_fd()), wait)
        };
        // What was sent waits in the socket.
        let sent = (0..10).map(|_| send()).find(Result::is_err);
        assert_eq!(sent, Some(Err(Errno::TIMEDOUT)));
    }
}
