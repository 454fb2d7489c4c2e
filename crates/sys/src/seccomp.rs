//! seccomp(2), which rustix lacks.

use crate::Errno;
use crate::outcome::errno;
use rustix::fd::{FromRawFd, OwnedFd};

/// Flag by which [`load`] returns a listener.
pub(crate) const NEW_LISTENER: u32 = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER as u32;

/// Instruction of classic BPF, `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SockFilter {
    /// Operation.
    pub code: u16,
    /// Number of instructions to skip if the condition is true.
    pub jt: u8,
    /// Number of instructions to skip if it is false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// Loads a filter for this process and all that come from it; returns the listener if the flags ask for one.
pub(crate) fn load(filter: &[SockFilter], flags: u32) -> Result<Option<OwnedFd>, Errno> {
    /// `struct sock_fprog`.
    #[repr(C)]
    struct Program {
        length: u16,
        filter: *const SockFilter,
    }
    let length = u16::try_from(filter.len()).map_err(|_| Errno::INVAL)?;
    let program = Program {
        length,
        filter: filter.as_ptr(),
    };
    // SAFETY: `SockFilter` has the layout of `struct sock_filter`, and the kernel reads `length` elements of the
    // slice.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    match result {
        -1 => Err(errno()),
        // SAFETY: with this flag the result is a new descriptor, which nothing else owns.
        fd if flags & NEW_LISTENER != 0 => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd as i32) })),
        0 => Ok(None),
        _ => Err(Errno::SRCH), // the thread that SECCOMP_FILTER_FLAG_TSYNC could not bring along
    }
}
