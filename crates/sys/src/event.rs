//! Messages of a child to its parent, and of a parked sandbox's keeper to the taker.

use crate::Errno;
use crate::text::TEXT;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;

/// Length of a message's header: kind, operation, errno.
pub(crate) const HEADER: usize = 9;

/// Message of the child.
#[derive(Debug)]
pub enum Event {
    /// Master of its console.
    Console(OwnedFd),
    /// Listener of its system call filter. The child may be waiting for an answer already.
    Seccomp(OwnedFd),
    /// The child is at a gate and waits for something that depends on the operations before it.
    Knock,
    /// An operation failed, and the child ends.
    Failed {
        /// Index of the operation; [`Event::PROGRAM`] for the program that a taker brought, since a taker has no
        /// list.
        op: usize,
        /// Cause of the failure.
        errno: Errno,
        /// Further text of the kernel or the operation; often empty.
        text: String,
    },
    /// An operation failed that the container can do without, and the child went on.
    Without {
        /// Index of the operation.
        op: usize,
        /// Cause of the failure.
        errno: Errno,
    },
    /// The child has ended after [`Op::Descend`], and goes on in another child of this process, with this pid. The
    /// pid comes from a process that others may have traced, so [`Child::descend`] checks it.
    Descended(u32),
    /// The child has come to [`Op::Ready`], [`Op::AwaitStart`] or [`Op::Park`].
    Ready,
    /// A taker has brought a parked process its program, by this connection.
    Taken(OwnedFd),
    /// The letter to a parked process was not read completely, and will not be.
    Unread,
    /// The keeper of a parked process reports that the program was executed.
    Began,
    /// The keeper of a parked process reports the end of the program.
    Ended {
        /// Exit code, or the number of a signal.
        status: i32,
        /// True if a signal ended it.
        signaled: bool,
        /// Number of its processes that the kernel killed for want of memory.
        ooms: u64,
    },
    /// The child has executed the program (or was killed: its exit status tells).
    Exec,
}

impl Event {
    /// Value of `op` in [`Event::Failed`] that stands for the program brought to a parked process.
    pub const PROGRAM: usize = u32::MAX as usize;
}

/// Length of a keeper's last message: kind, whether a signal ended the program, status, number of killed processes.
pub(crate) const ENDED: usize = 10;

/// Waits for the next message of a child.
pub(crate) fn receive(channel: BorrowedFd<'_>) -> Result<Event, Errno> {
    loop {
        match receive_once(channel) {
            // A child that ended with a letter of the parent unread resets the connection; its own messages are still
            // there and come next.
            Err(Errno::CONNRESET) => {}
            other => return other,
        }
    }
}

/// Waits for the next message of a child; `ECONNRESET`, once and first, if the other end has gone without reading
/// all.
pub(crate) fn receive_once(channel: BorrowedFd<'_>) -> Result<Event, Errno> {
    let mut bytes = [0; HEADER + TEXT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        let mut slices = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(channel, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    match (bytes[0], length, fd) {
        (_, 0, _) => Ok(Event::Exec),
        (b'R', 1, None) => Ok(Event::Ready),
        (b'P', 5, None) => Ok(Event::Descended(u32::from_ne_bytes([
            bytes[1], bytes[2], bytes[3], bytes[4],
        ]))),
        (b'T', _, Some(fd)) => Ok(Event::Taken(fd)),
        (b'B', _, _) => Ok(Event::Began),
        (b'X', ENDED, _) => Ok(Event::Ended {
            signaled: bytes[1] != 0,
            status: i32::from_ne_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]),
            ooms: u32::from_ne_bytes([bytes[6], bytes[7], bytes[8], bytes[9]]).into(),
        }),
        (b'K', _, _) => Ok(Event::Knock),
        (b'C', _, Some(fd)) => Ok(Event::Console(fd)),
        (b'S', _, Some(fd)) => Ok(Event::Seccomp(fd)),
        (kind @ (b'F' | b'W'), HEADER.., _) => {
            let number =
                |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            let (op, errno) = (number(1) as usize, Errno::from_raw_os_error(number(5) as i32));
            if kind == b'W' {
                return Ok(Event::Without { op, errno });
            }
            Ok(Event::Failed {
                op,
                errno,
                text: String::from_utf8_lossy(&bytes[HEADER..length]).into_owned(),
            })
        }
        _ => Err(Errno::PROTO),
    }
}
