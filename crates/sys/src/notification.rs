//! Calls that a system call filter reports, seccomp_unotify(2), and the memory that their arguments point to.

use crate::Errno;
use crate::outcome::{best_effort, errno};
use crate::wait::{Endless, Wait};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};

/// Size of a page on every machine that this program is built for, or a part of it.
const PAGE: u64 = 4096;
/// `SECCOMP_IOCTL_NOTIF_SET_FLAGS`, which libc lacks, and its flag `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP`.
const SET_FLAGS: libc::Ioctl = 0x4008_2104;
const SYNC_WAKE_UP: u64 = 1;

/// `struct seccomp_notif`.
#[repr(C)]
#[derive(Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    arch: u32,
    instruction_pointer: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `struct seccomp_notif_addfd`.
#[repr(C)]
struct Addition {
    id: u64,
    flags: u32,
    source: u32,
    target: u32,
    target_flags: u32,
}

/// A call that waits for its listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportedCall {
    id: u64,
    /// Thread that called, in this process's PID namespace.
    pub thread: u32,
    /// `AUDIT_ARCH_…` of its system call interface.
    pub arch: u32,
    /// Number of the call in that interface.
    pub number: u32,
    /// Arguments, pointers among them.
    pub arguments: [u64; 6],
}

/// Listener of a filter. While it is open, each reported call waits for [`CallListener::let_through`].
#[derive(Debug)]
pub struct CallListener {
    listener: OwnedFd,
}

impl CallListener {
    /// Takes a listener that came with [`crate::Event::Seccomp`].
    #[must_use]
    pub fn new(listener: OwnedFd) -> Self {
        // SAFETY: the call takes a number. A kernel without it only wakes up more slowly.
        let set = unsafe { libc::ioctl(listener.as_raw_fd(), SET_FLAGS, SYNC_WAKE_UP) };
        best_effort(if set == 0 { Ok(()) } else { Err(errno()) });
        Self { listener }
    }

    /// Waits for the next call; `None` once no process has the filter.
    ///
    /// # Errors
    /// Those of poll(2) and of the listener.
    pub fn next(&self) -> Result<Option<ReportedCall>, Errno> {
        loop {
            let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
            match Wait::endless(Endless::Calls).poll(&mut fds) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
            if !fds[0].revents().contains(PollFlags::IN) {
                return Ok(None);
            }
            match self.receive() {
                Ok(call) => return Ok(Some(call)),
                // The caller was killed meanwhile.
                Err(Errno::NOENT | Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Takes a call that waits; without one, the listener is not readable, it waits for one.
    ///
    /// # Errors
    /// `ENOENT` if its process has ended meanwhile.
    pub fn receive(&self) -> Result<ReportedCall, Errno> {
        let mut found = Notification::default();
        // SAFETY: the structure has the kernel's layout and size and is zero, as the kernel asks; the kernel writes
        // nothing but this structure.
        let result = unsafe {
            libc::ioctl(
                self.listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_RECV,
                &raw mut found,
            )
        };
        if result != 0 {
            return Err(errno());
        }
        Ok(ReportedCall {
            id: found.id,
            thread: found.pid,
            arch: found.arch,
            number: found.number.cast_unsigned(),
            arguments: found.arguments,
        })
    }

    /// True if the call waits still: what was read of its process was read of no other one.
    #[must_use]
    pub fn is_waiting(&self, call: &ReportedCall) -> bool {
        let id = call.id;
        // SAFETY: the kernel reads a number of this size.
        unsafe {
            libc::ioctl(
                self.listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ID_VALID,
                &raw const id,
            ) == 0
        }
    }

    /// Lets the kernel perform the call, as if there were no listener.
    ///
    /// # Errors
    /// `ENOENT` if its process has ended meanwhile.
    pub fn let_through(&self, call: &ReportedCall) -> Result<(), Errno> {
        let mut response = Response {
            id: call.id,
            value: 0,
            error: 0,
            flags: libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32,
        };
        // SAFETY: the structure has the kernel's layout and size.
        let result = unsafe {
            libc::ioctl(
                self.listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_SEND,
                &raw mut response,
            )
        };
        if result == 0 { Ok(()) } else { Err(errno()) }
    }

    /// Gives the process a copy of a descriptor, whose number is the result of the call.
    ///
    /// # Errors
    /// `ENOENT` if its process has ended meanwhile; `EINVAL` before Linux 5.14.
    pub fn answer_with(&self, call: &ReportedCall, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let addition = Addition {
            id: call.id,
            flags: libc::SECCOMP_ADDFD_FLAG_SEND as u32,
            source: fd.as_raw_fd().cast_unsigned(),
            target: 0,
            target_flags: 0,
        };
        // SAFETY: the structure has the kernel's layout and size, which the kernel only reads.
        let result = unsafe {
            libc::ioctl(
                self.listener.as_raw_fd(),
                libc::SECCOMP_IOCTL_NOTIF_ADDFD,
                &raw const addition,
            )
        };
        if result >= 0 { Ok(()) } else { Err(errno()) }
    }
}

impl AsFd for CallListener {
    /// Returns the descriptor that is readable when a call waits.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

/// Reads memory of another process; fewer bytes where it ends.
///
/// # Errors
/// Those of process_vm_readv(2): `EPERM` without the right to look into the process, `EFAULT` for an address where it has
/// no memory.
pub fn read_memory(process: u32, address: u64, bytes: &mut [u8]) -> Result<usize, Errno> {
    let Ok(process) = i32::try_from(process) else {
        return Err(Errno::SRCH);
    };
    // Parts of a piece are not read, so no piece crosses a page.
    let wanted = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    let mut pieces: Vec<libc::iovec> = Vec::new();
    let mut done = 0;
    while done < wanted {
        let Some(at) = address.checked_add(done) else {
            break;
        };
        let length = (PAGE - at % PAGE).min(wanted - done);
        let (Ok(base), Ok(size)) = (usize::try_from(at), usize::try_from(length)) else {
            break;
        };
        pieces.push(libc::iovec {
            iov_base: std::ptr::without_provenance_mut(base),
            iov_len: size,
        });
        done += length;
    }
    let local = libc::iovec {
        iov_base: bytes.as_mut_ptr().cast(),
        iov_len: bytes.len(),
    };
    // SAFETY: the kernel writes at most `bytes.len()` bytes to `bytes`, which is borrowed mutably; the other addresses
    // are those of the other process, and the kernel checks them.
    let read = unsafe {
        libc::process_vm_readv(
            process,
            &raw const local,
            1,
            pieces.as_ptr(),
            pieces.len() as libc::c_ulong,
            0,
        )
    };
    usize::try_from(read).map_err(|_| errno())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_read_up_to_its_end() {
        let text = vec![7_u8; 9000];
        let mut bytes = vec![0; 9000];
        let own = std::process::id();
        let address = text.as_ptr().addr() as u64;
        assert_eq!(read_memory(own, address, &mut bytes), Ok(9000));
        assert_eq!(text, bytes);
        assert_eq!(read_memory(own, 16, &mut bytes), Err(Errno::FAULT));
        assert_eq!(read_memory(own, u64::MAX, &mut bytes), Err(Errno::FAULT));
        assert_eq!(read_memory(u32::MAX, address, &mut bytes), Err(Errno::SRCH));
    }

    #[test]
    fn structures_have_the_sizes_of_the_kernel() {
        assert_eq!(size_of::<Notification>(), 80);
        assert_eq!(size_of::<Response>(), 24);
        assert_eq!(size_of::<Addition>(), 24);
    }
}
