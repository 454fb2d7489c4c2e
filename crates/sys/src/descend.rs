//! Last operation of the process between the caller and a container that has a PID namespace already: the process has
//! given away everything that the container lacks, and clones the process that becomes the program.
//!
//! A process is visible in a PID namespace from its birth on, and from that moment a neighbour with CAP_SYS_PTRACE
//! may look into it and write into it (`/proc/PID/root`, `/proc/PID/fd`, ptrace(2)). PR_SET_DUMPABLE does not protect
//! against real root. So root, descriptors, ids, capabilities, keyring and filter are all changed before the process
//! becomes visible.

use crate::Errno;
use crate::environment::visit_environment;
use crate::outcome::errno;
use crate::outcome::exit;
use crate::registers::Registers;
use rustix::fd::BorrowedFd;
use std::ffi::CStr;

/// Continues in a child of this process's parent. The caller must have joined the PID namespace for its children.
pub(crate) fn go_on(registers: &Registers<'_>) -> Result<(), Errno> {
    forget_environment();
    // SAFETY: the child is a copy of this process, as in `birth`, and neither allocates nor needs a lock.
    // CLONE_PARENT makes it a child of this one's parent, which waits for it. The call is clone(2), since filters
    // answer clone3(2) with ENOSYS.
    match unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT, 0, 0, 0, 0) } {
        -1 => Err(errno()),
        0 => Ok(()),
        pid => {
            tell(registers.channel, pid as u32);
            exit(0)
        }
    }
}

/// Sends the pid of the new child to the parent, by write(2), which every filter allows.
fn tell(channel: BorrowedFd<'_>, pid: u32) {
    let mut message = [b'P', 0, 0, 0, 0];
    message[1..].copy_from_slice(&pid.to_ne_bytes());
    // If the parent has gone, no process needs the pid.
    crate::best_effort(rustix::io::write(channel, &message));
}

/// Overwrites the environment that tote was started with: it is at the top of the stack, which the copy of the
/// process shares. Copies of single variables on the heap stay.
fn forget_environment() {
    let overwrite = |variable: &mut *mut _| {
        // SAFETY: each variable is a string of the process's own memory that ends with a zero, and that may be written.
        let length = unsafe { CStr::from_ptr(*variable) }.count_bytes();
        // SAFETY: `length` bytes lie before that zero; the program gets an environment of its own, and nothing in
        // this process reads this one any more.
        unsafe { std::ptr::write_bytes(*variable, 0, length) };
    };
    // SAFETY: the process has one thread, and a shorter string is in the place.
    unsafe { visit_environment(overwrite) };
}
