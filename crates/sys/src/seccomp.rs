//! seccomp(2), which rustix lacks.

use crate::Errno;
use crate::birth::errno;

/// One instruction of classic BPF, `struct sock_filter`.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SockFilter {
    /// Operation.
    pub code: u16,
    /// How far to jump when true.
    pub jt: u8,
    /// How far to jump when false.
    pub jf: u8,
    /// Operand.
    pub k: u32,
}

/// Loads a filter for this process and all it becomes.
pub(crate) fn load(filter: &[SockFilter], flags: u32) -> Result<(), Errno> {
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
    // SAFETY: `SockFilter` has the layout of `struct sock_filter`, and the kernel reads `length` of them.
    let result = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            flags,
            &raw const program,
        )
    };
    if result == 0 { Ok(()) } else { Err(errno()) }
}
