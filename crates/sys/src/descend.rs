//! The last step of a process between the caller and a container that has a PID namespace already: it has given away
//! everything that the container lacks, and clones the process that becomes the program.
//!
//! A process is visible in a PID namespace from its birth on, and a neighbour with CAP_SYS_PTRACE may look into it and
//! write into it from that moment (`/proc/PID/root`, `/proc/PID/fd`, ptrace(2)). Hiding does not help against the real
//! root's. So root, descriptors, ids, capabilities, keyring and filter are all changed before there is anything to see.

use crate::Errno;
use crate::birth::errno;
use crate::child::{Registers, exit};
use crate::start;
use rustix::fd::{AsRawFd, BorrowedFd};
use std::ffi::CStr;

/// Goes on in a child of this process's parent. The caller has joined the PID namespace for its children.
pub(crate) fn go_on(first_closed: u32, registers: &Registers<'_>) -> Result<(), Errno> {
    let terminal = registers.terminal.as_ref().map(AsRawFd::as_raw_fd);
    let kept = || [registers.channel.as_raw_fd()].into_iter().chain(terminal);
    start::close_others(first_closed, kept)?;
    forget_environment();
    // SAFETY: as in `birth`: a copy of this process, which allocates nothing and holds no lock. CLONE_PARENT makes it a
    // child of this one's parent, which waits for it. It is clone(2), since filters answer clone3(2) with ENOSYS.
    match unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_PARENT, 0, 0, 0, 0) } {
        -1 => Err(errno()),
        0 => Ok(()),
        pid => {
            tell(registers.channel, pid as u32);
            exit(0)
        }
    }
}

/// Tells the parent the number of its new child. With write(2), which every filter allows.
fn tell(channel: BorrowedFd<'_>, pid: u32) {
    let mut message = [b'P', 0, 0, 0, 0];
    message[1..].copy_from_slice(&pid.to_ne_bytes());
    // A parent that is gone needs no number.
    crate::best_effort(rustix::io::write(channel, &message));
}

unsafe extern "C" {
    /// environ(7) of the C library.
    static environ: *const *mut libc::c_char;
}

/// Overwrites the variables of whoever runs tote: they are at the top of the stack, which a copy of the process shares.
/// Copies of single variables on the heap stay.
fn forget_environment() {
    // SAFETY: the process has one thread, so nobody changes the pointer or the array meanwhile.
    let mut entry = unsafe { environ };
    if entry.is_null() {
        return;
    }
    loop {
        // SAFETY: the array ends with a null pointer, which ends this loop.
        let text = unsafe { *entry };
        if text.is_null() {
            return;
        }
        // SAFETY: each entry is a string of the process's own memory that ends with a zero, and that may be written.
        let length = unsafe { CStr::from_ptr(text) }.count_bytes();
        // SAFETY: `length` bytes before that zero; the program gets an environment of its own, and nothing of this
        // process reads this one any more.
        unsafe { std::ptr::write_bytes(text, 0, length) };
        // SAFETY: the entry was not the last.
        entry = unsafe { entry.add(1) };
    }
}
