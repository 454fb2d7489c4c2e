//! The channel to the host.

use crate::error::GuestError;
use rustix::fd::OwnedFd;
use tote_sys::Errno;

/// Sends as much of the bytes as the channel takes, and removes that.
pub(crate) fn send(port: &OwnedFd, out: &mut Vec<u8>) -> Result<(), GuestError> {
    while !out.is_empty() {
        match rustix::io::write(port, out) {
            Ok(length) => _ = out.drain(..length),
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(GuestError::kernel("write to", "the channel")(errno)),
        }
    }
    Ok(())
}
