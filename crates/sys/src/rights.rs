//! Descriptors that go through a socket of unix(7) with the bytes of a message: `SCM_RIGHTS`.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// Most descriptors of a message.
const MOST: usize = 32;

/// Sends bytes, and these descriptors with the first of them; returns how many bytes have gone.
///
/// # Errors
/// sendmsg(2)'s, and `EINVAL` for more than 32 descriptors.
pub fn send_with(
    socket: BorrowedFd<'_>,
    bytes: &[IoSlice<'_>],
    files: &[BorrowedFd<'_>],
) -> Result<usize, Errno> {
    if files.len() > MOST {
        return Err(Errno::INVAL);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(files));
    }
    rustix::net::sendmsg(socket, bytes, &mut control, SendFlags::NOSIGNAL)
}

/// Receives bytes, and the descriptors that came with them, which execve(2) closes; returns how many bytes have come, none at the end.
///
/// # Errors
/// recvmsg(2)'s but `EINTR`.
pub fn receive_with(
    socket: BorrowedFd<'_>,
    bytes: &mut [u8],
    flags: RecvFlags,
) -> Result<(usize, Vec<OwnedFd>), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = rustix::io::retry_on_intr(|| {
        let mut slices = [IoSliceMut::new(bytes)];
        rustix::net::recvmsg(socket, &mut slices, &mut control, flags | RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut files = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(came) = message {
            files.extend(came);
        }
    }
    Ok((got.bytes, files))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd as _;
    use std::fs::File;
    use std::os::unix::net::UnixStream;

    #[test]
    fn descriptors_come_with_the_first_bytes() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (zero, null) = (File::open("/dev/zero").unwrap(), File::open("/dev/null").unwrap());
        let files = [zero.as_fd(), null.as_fd()];
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b"c")];
        assert_eq!(send_with(ours.as_fd(), &parts, &files), Ok(3));
        assert_eq!(send_with(ours.as_fd(), &[IoSlice::new(b"de")], &[]), Ok(2));
        let mut buffer = [1; 8];
        let (length, came) = receive_with(theirs.as_fd(), &mut buffer, RecvFlags::empty()).unwrap();
        assert!(buffer[..length].starts_with(b"abc"));
        assert_eq!(came.len(), 2);
        rustix::io::read(&came[0], &mut buffer).unwrap();
        assert_eq!(buffer, [0; 8]);
        assert_eq!(rustix::io::read(&came[1], &mut buffer), Ok(0));
        let all = [zero.as_fd(); MOST + 1];
        assert_eq!(send_with(ours.as_fd(), &parts, &all[..MOST]), Ok(3));
        assert_eq!(send_with(ours.as_fd(), &parts, &all), Err(Errno::INVAL));
        let (_, came) = receive_with(theirs.as_fd(), &mut buffer, RecvFlags::empty()).unwrap();
        assert_eq!(came.len(), MOST);
    }

    #[test]
    fn the_end_has_neither_bytes_nor_descriptors() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(ours);
        let (length, came) = receive_with(theirs.as_fd(), &mut [0; 8], RecvFlags::empty()).unwrap();
        assert!(length == 0 && came.is_empty());
    }
}
