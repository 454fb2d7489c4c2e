//! Socket of a container: bound in its directory, and connected to from there.

use crate::clients::farewell;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, fchmod, unlinkat};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::time::Duration;
use tote_sys::{Errno, Wait};

/// Time in which a monitor takes a client for which its queue has no room.
const PATIENCE: Duration = Duration::from_secs(10);

/// Number of clients that may wait to be accepted; the kernel's own limit is `net.core.somaxconn`.
const BACKLOG: i32 = 4096;

/// A socket that listens until it is dropped; its name stays.
#[derive(Debug)]
pub struct Listener(OwnedFd);

impl Listener {
    /// Binds a socket to this name in the directory, in place of one that a killed process left. Only its owner may
    /// connect.
    ///
    /// # Errors
    /// bind(2)'s.
    pub fn bind(dir: BorrowedFd<'_>, name: &str) -> Result<Self, Errno> {
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno),
        }
        let socket = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        // unix(7): bind(2) gives the new file the socket's own mode.
        fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
        rustix::net::bind(&socket, &address(dir, name)?)?;
        rustix::net::listen(&socket, BACKLOG)?;
        Ok(Self(socket))
    }

    /// Returns the next waiting client, if any.
    ///
    /// # Errors
    /// accept(2)'s, such as `EMFILE`.
    pub(crate) fn accept(&self) -> Result<Option<OwnedFd>, Errno> {
        match rustix::net::accept_with(&self.0, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
            Ok(socket) => Ok(Some(socket)),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Tells all waiting clients that the container has ended, which no client could attach to.
    pub fn farewell(self, code: i32, text: &str) {
        for _ in 0..BACKLOG {
            match self.accept() {
                Ok(Some(socket)) => farewell(socket.as_fd(), code, text),
                Ok(None) | Err(_) => break,
            }
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Connects to the socket of this name in the directory.
///
/// # Errors
/// connect(2)'s: `ENOENT` and `ECONNREFUSED` if no process watches the container.
pub fn connect(dir: BorrowedFd<'_>, name: &str) -> Result<OwnedFd, Errno> {
    connect_within(dir, name, Wait::within(PATIENCE))
}

fn connect_within(dir: BorrowedFd<'_>, name: &str, wait: Wait) -> Result<OwnedFd, Errno> {
    let socket = socket(SocketFlags::CLOEXEC)?;
    wait.connect(&socket, &address(dir, name)?)?;
    Ok(socket)
}

/// Makes two connected ends: one for [`crate::Monitor::adopt`], one for the client.
///
/// # Errors
/// socketpair(2)'s.
pub fn pair() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Makes the address by way of the descriptor: the directory's own path may be longer than the 107 bytes that an
/// address takes.
fn address(dir: BorrowedFd<'_>, name: &str) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new(format!("/proc/self/fd/{}/{name}", dir.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_monitor_that_accepts_nobody_is_given_up() {
        let place = tempfile::tempdir().unwrap();
        let dir = std::fs::File::open(place.path()).unwrap();
        let deaf = socket(SocketFlags::CLOEXEC).unwrap();
        rustix::net::bind(&deaf, &address(dir.as_fd(), "s").unwrap()).unwrap();
        rustix::net::listen(&deaf, 0).unwrap();
        let call = || connect_within(dir.as_fd(), "s", Wait::within(Duration::from_millis(50)));
        let mut waiting = Vec::new();
        let late = loop {
            match call() {
                Ok(socket) => waiting.push(socket),
                Err(late) => break late,
            }
            assert!(waiting.len() < 10, "it has room for all");
        };
        assert_eq!((late, waiting.is_empty()), (Errno::TIMEDOUT, false));
    }
}
