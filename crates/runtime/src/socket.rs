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
    let flags = SocketFlags::CLOEXEC;
    let connection = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Wait::within(PATIENCE).connect(&connection, &SocketAddrUnix::new(socket)?)?;
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
