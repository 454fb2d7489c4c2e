//! Descriptors that go with bytes through a socket.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::IoSliceMut;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use tote_sys::Errno;

/// The most descriptors that go with one message.
pub(crate) const MOST: usize = 32;

/// Sends bytes, of which the socket takes all, with these descriptors; nothing if there are no bytes.
pub(crate) fn send(socket: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    if bytes.is_empty() {
        return Ok(());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::MSGSIZE);
    }
    let sent = sendmsg(
        socket,
        &[IoSlice::new(bytes)],
        &mut ancillary,
        SendFlags::NOSIGNAL,
    )?;
    if sent < bytes.len() {
        return Err(Errno::MSGSIZE);
    }
    Ok(())
}

/// Reads what has come, and the descriptors with it.
pub(crate) fn receive(
    socket: &UnixStream,
    buffer: &mut [u8],
    fds: &mut Vec<OwnedFd>,
) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let length = recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut ancillary, flags)?.bytes;
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(passed) = message {
            fds.extend(passed);
        }
    }
    Ok(length)
}
