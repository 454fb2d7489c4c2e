//! Options of sockets that rustix lacks.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{AsRawFd as _, BorrowedFd};

/// Lets a socket be bound to an address that this machine does not have; takes CAP_NET_ADMIN over its network namespace.
///
/// # Errors
/// setsockopt(2)'s.
pub fn set_transparent(socket: BorrowedFd<'_>, ipv6: bool) -> Result<(), Errno> {
    if ipv6 {
        set(socket, (libc::SOL_IPV6, libc::IPV6_TRANSPARENT), 1)
    } else {
        set(socket, (libc::SOL_IP, libc::IP_TRANSPARENT), 1)
    }
}

/// Marks what a socket sends, for routes and the packet filter; takes CAP_NET_ADMIN over its network namespace.
///
/// # Errors
/// setsockopt(2)'s.
pub fn set_mark(socket: BorrowedFd<'_>, mark: u32) -> Result<(), Errno> {
    set(socket, (libc::SOL_SOCKET, libc::SO_MARK), mark.cast_signed())
}

fn set(socket: BorrowedFd<'_>, (level, name): (i32, i32), value: i32) -> Result<(), Errno> {
    // SAFETY: the kernel reads an int, of the size that it is told, and keeps no pointer; the descriptor is open.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(errno()) }
}
