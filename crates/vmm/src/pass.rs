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

/// Sends as many bytes as the socket takes, with these descriptors beside the first of them.
pub(crate) fn send_some(socket: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<usize, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(Errno::MSGSIZE);
    }
    let bytes = &[IoSlice::new(bytes)];
    sendmsg(socket, bytes, &mut ancillary, SendFlags::NOSIGNAL)
}

/// Sends bytes, of which the socket takes all, with these descriptors; nothing if there are no bytes.
pub(crate) fn send(socket: &UnixStream, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    if !bytes.is_empty() && send_some(socket, bytes, fds)? < bytes.len() {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::fd::AsFd as _;

    #[test]
    fn a_descriptor_comes_with_the_first_bytes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let zero = File::open("/dev/zero").unwrap();
        assert_eq!(send_some(&ours, b"abc", &[zero.as_fd()]), Ok(3));
        send(&ours, b"de", &[]).unwrap();
        send(&ours, b"", &[zero.as_fd()]).unwrap();
        let (mut buffer, mut fds) = ([1; 8], Vec::new());
        let length = receive(&theirs, &mut buffer, &mut fds).unwrap();
        assert!(buffer[..length].starts_with(b"abc"));
        rustix::io::read(fds.remove(0), &mut buffer).unwrap();
        assert_eq!((buffer, fds.len()), ([0; 8], 0));
    }
}
