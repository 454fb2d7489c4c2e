//! Descriptors for the callers of an OCI runtime: `--console-socket`, `--pidfd-socket`.

use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::path::Path;

/// Connects to the listening socket and sends the descriptor with that name as the message's text, as runc does.
///
/// # Errors
/// connect(2)'s and sendmsg(2)'s.
pub fn send_descriptor(socket: &Path, name: &str, fd: BorrowedFd<'_>) -> Result<(), Errno> {
    let flags = SocketFlags::CLOEXEC;
    let connection = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    rustix::net::connect(&connection, &SocketAddrUnix::new(socket)?)?;
    let fds = [fd];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&fds));
    rustix::net::sendmsg(
        &connection,
        &[IoSlice::new(name.as_bytes())],
        &mut control,
        SendFlags::NOSIGNAL,
    )
    .map(drop)
}
