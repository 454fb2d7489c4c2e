//! The holder's socket: requests of one line each, and answers.

use crate::{Caller, Home};
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::io::IoSlice;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tote_sys::{Errno, NamedProcess, Wait};

/// The names of the socket, and of the lock of those that start the holder and of its end, beside the records of networks.
fn names(of: Caller) -> (&'static str, &'static str) {
    match of {
        Caller::User => (".rootless", ".rootless-lock"),
        Caller::Root | Caller::NestedRoot => (".ports", ".ports-lock"),
    }
}

/// The longest request or answer.
pub(crate) const LONGEST: usize = 4096;
/// Longest wait for an answer. A holder that starts pasta for it waits for that program for less.
pub(crate) const ANSWER: Duration = Duration::from_secs(10);
/// Request to be given the namespaces, with the way to the machine open.
pub(crate) const ENTER: &str = "enter";
/// Request to be given the namespaces by a process that has no use for networks yet.
pub(crate) const KNOW: &str = "know";

fn dir(home: &Home) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(home.networks(), flags, Mode::empty())
}

/// The path of the state root may be longer than an address; that of a descriptor is not.
fn address(of: Caller, dir: BorrowedFd<'_>) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new(format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), names(of).0))
}

fn socket(flags: SocketFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// Connects to the holder.
///
/// # Errors
/// connect(2)'s if no holder listens.
pub(crate) fn connect(home: &Home) -> Result<OwnedFd, Errno> {
    connect_of(home, home.caller)
}

/// Connects to the holder of a user's networks, also from the user namespace of these networks, where this process counts as root.
///
/// # Errors
/// connect(2)'s if no holder listens.
pub(crate) fn connect_to_users(home: &Home) -> Result<OwnedFd, Errno> {
    connect_of(home, Caller::User)
}

fn connect_of(home: &Home, of: Caller) -> Result<OwnedFd, Errno> {
    let dir = dir(home)?;
    let socket = socket(SocketFlags::empty())?;
    // A holder that is stopped, or has no room for another descriptor, accepts no connection.
    Wait::within(ANSWER).connect(&socket, &address(of, dir.as_fd())?)?;
    for timeout in [Timeout::Send, Timeout::Recv] {
        sockopt::set_socket_timeout(&socket, timeout, Some(ANSWER))?;
    }
    Ok(socket)
}

/// The socket where the holder listens, in place of one that a killed holder has left. Only its owner may connect.
pub(crate) fn listen(home: &Home) -> Result<OwnedFd, Errno> {
    let dir = dir(home)?;
    remove_in(home, dir.as_fd())?;
    let socket = socket(SocketFlags::NONBLOCK)?;
    // unix(7): bind(2) gives the new file the socket's own mode.
    rustix::fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    rustix::net::bind(&socket, &address(home.caller, dir.as_fd())?)?;
    rustix::net::listen(&socket, 128)?;
    Ok(socket)
}

/// Removes the socket's name.
pub(crate) fn remove(home: &Home) -> Result<(), Errno> {
    remove_in(home, dir(home)?.as_fd())
}

fn remove_in(home: &Home, dir: BorrowedFd<'_>) -> Result<(), Errno> {
    match rustix::fs::unlinkat(dir, names(home.caller).0, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The error of a call whose time is over.
fn late(errno: Errno) -> Errno {
    match errno {
        Errno::AGAIN => Errno::TIMEDOUT,
        other => other,
    }
}

/// Asks the holder something by a connection of its own.
///
/// # Errors
/// `TIMEDOUT` for a holder that has not answered within [`ANSWER`], and errors of the connection.
pub(crate) fn ask(home: &Home, request: &str) -> Result<String, Errno> {
    // A command that gives up takes back what it has published, and must not wait for that once more.
    static SILENT: Mutex<Option<Instant>> = Mutex::new(None);
    let mut silent = SILENT.lock().unwrap_or_else(PoisonError::into_inner);
    if silent.is_some_and(|since| since.elapsed() < ANSWER) {
        return Err(Errno::TIMEDOUT);
    }
    let answer = connect(home).and_then(|connection| {
        send(connection.as_fd(), request).map_err(late)?;
        receive(connection.as_fd()).map(|(text, _)| text).map_err(late)
    });
    *silent = (answer == Err(Errno::TIMEDOUT)).then(Instant::now);
    answer
}

/// The holder that listens, in words; it need not answer.
pub(crate) fn listening(home: &Home) -> Option<String> {
    let dir = dir(home).ok()?;
    let socket = socket(SocketFlags::NONBLOCK).ok()?;
    tote_sys::connect_at_once(&socket, &address(home.caller, dir.as_fd()).ok()?).ok()?;
    let pid = sockopt::socket_peercred(&socket).ok()?.pid;
    let process = NamedProcess::of(pid.as_raw_nonzero().get().unsigned_abs());
    process.map(|process| process.to_string())
}

/// Gets the namespaces by [`ENTER`] or [`KNOW`], the user's first, and a warning, which may be empty.
pub(crate) fn enter(connection: &OwnedFd, request: &str) -> Result<(OwnedFd, OwnedFd, String), Errno> {
    send(connection.as_fd(), request).map_err(late)?;
    let (warning, fds) = receive(connection.as_fd()).map_err(late)?;
    let [user, network] = <[OwnedFd; 2]>::try_from(fds).map_err(|_| Errno::PROTO)?;
    Ok((user, network, warning))
}

/// Sends a message.
pub(crate) fn send(to: BorrowedFd<'_>, text: &str) -> Result<(), Errno> {
    rustix::net::send(to, text.as_bytes(), SendFlags::NOSIGNAL).map(drop)
}

/// Sends a message with descriptors.
pub(crate) fn send_with(to: BorrowedFd<'_>, text: &str, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    // A message without a byte would be the end.
    let parts = [IoSlice::new(b" "), IoSlice::new(text.as_bytes())];
    tote_sys::send_with(to, &parts, fds).map(drop)
}

/// Receives a message and its descriptors.
pub(crate) fn receive(from: BorrowedFd<'_>) -> Result<(String, Vec<OwnedFd>), Errno> {
    let mut bytes = vec![0; LONGEST];
    let (length, fds) = tote_sys::receive_with(from, &mut bytes, RecvFlags::empty())?;
    let text = bytes.get(..length).unwrap_or_default();
    Ok((String::from_utf8_lossy(text).trim().to_owned(), fds))
}

/// The lock under which a holder begins and ends; `None` where another process has it and the caller does not wait.
pub(crate) fn lock(home: &Home, waits: bool) -> Result<Option<std::fs::File>, tote_state::StateError> {
    tote_state::locked::locked(&home.networks().join(names(home.caller).1), true, waits)
}
