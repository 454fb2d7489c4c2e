//! Sockets in a container's directory, at which its process waits for another command.

use crate::Errno;
use rustix::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};

/// Makes a socket that is not connected.
pub(crate) fn socket(kind: SocketType) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
}

/// Makes the address by way of the descriptor: the directory's own path may be longer than the 107 bytes that an
/// address takes.
pub(crate) fn address(dir: BorrowedFd<'_>, name: &str) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}

/// Waits for the next connection.
pub(crate) fn accept(listener: &OwnedFd) -> Result<OwnedFd, Errno> {
    loop {
        match rustix::net::accept_with(listener, SocketFlags::CLOEXEC) {
            Err(Errno::INTR | Errno::CONNABORTED) => {}
            other => return other,
        }
    }
}

/// Tells the other side that the process has come this far.
pub(crate) fn tell_ready(channel: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::net::send(channel, b"R", SendFlags::NOSIGNAL).map(drop)
}
