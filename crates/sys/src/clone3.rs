//! clone3(2).

use crate::Errno;
use crate::outcome::{errno, exit};

/// `CLONE_NEW…` bits for clone3(2).
pub type CloneFlags = u64;

/// `struct clone_args`, linux/sched.h.
#[repr(C)]
#[derive(Default)]
pub(crate) struct CloneArgs {
    pub(crate) flags: u64,
    pub(crate) pidfd: u64,
    pub(crate) child_tid: u64,
    pub(crate) parent_tid: u64,
    pub(crate) exit_signal: u64,
    pub(crate) stack: u64,
    pub(crate) stack_size: u64,
    pub(crate) tls: u64,
    pub(crate) set_tid: u64,
    pub(crate) set_tid_size: u64,
    pub(crate) cgroup: u64,
}

/// The new process is born in the cgroup of [`CloneArgs::cgroup`], linux/sched.h.
pub(crate) const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Calls clone3(2). The new process runs `newborn` and exits.
pub(crate) fn clone(args: &CloneArgs, newborn: impl FnOnce()) -> Result<u32, Errno> {
    // SAFETY: without CLONE_VM the child has its own copy of all memory, as after fork(2). It is sound to run Rust in
    // it because `child::run` allocates nothing and takes no lock, so it needs nothing that another thread of the
    // parent might have held at that moment. `args` outlives the call, and the places in it that the kernel writes to
    // are valid.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const *args, size_of::<CloneArgs>()) } {
        0 => {
            newborn();
            exit(125)
        }
        -1 => Err(errno()),
        pid => Ok(pid as u32),
    }
}
