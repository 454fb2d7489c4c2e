//! Short lines, with descriptors, to a socket that has room for them.

use rustix::fd::{AsFd, BorrowedFd};
use std::io::IoSlice;
use tote_sys::Errno;

/// Sends bytes, of which the socket takes all, with these descriptors.
pub(crate) fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    if tote_sys::send_with(socket.as_fd(), &[IoSlice::new(bytes)], fds)? < bytes.len() {
        return Err(Errno::MSGSIZE);
    }
    Ok(())
}
