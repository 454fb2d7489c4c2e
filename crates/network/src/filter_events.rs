//! Changes of the packet filter that other programs make, as the kernel tells them.

use crate::netlink::Socket;
use rustix::fd::{AsFd, BorrowedFd};
use tote_sys::Errno;

/// A socket that hears of each change of the packet filter, in the caller's network namespace.
#[derive(Debug)]
pub struct FilterEvents(Socket);

impl FilterEvents {
    /// Hears from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn new() -> Result<Self, Errno> {
        Socket::of_filter_events().map(Self)
    }

    /// Takes what has been told, and gives whether something has. What it was is not looked at: its reader looks at the filter itself, which says more than a
    /// message that may have been lost.
    #[must_use]
    pub fn drain(&self) -> bool {
        self.0.drain()
    }
}

impl AsFd for FilterEvents {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
