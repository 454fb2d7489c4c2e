//! PID 1 of a container that asked for one (`--init`): forwards signals, reaps, exits as its child did.

use crate::child::{Registers, apply, best_effort, exit};
use crate::{Errno, Op, prctl, signal};
use std::ffi::CString;

/// How a process stays as PID 1.
#[derive(Clone, Debug)]
pub struct AsPid1 {
    /// What `ps` shows, at most 15 bytes.
    pub name: CString,
}

/// Splits the process: the parent stays as PID 1 and never returns, the child goes on with the steps.
pub(crate) fn split(how: &AsPid1, rest: &[Op], registers: &mut Registers<'_>) -> Result<(), Errno> {
    // Blocked before the fork, so that no signal falls between it and the loop.
    signal::block_all()?;
    // Hidden before there is anybody else: the program may run before this process gets to go on at all.
    prctl::set_dumpable(false)?;
    // SAFETY: as in `birth`: a copy of this process, which allocates nothing and holds no lock.
    match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
        -1 => Err(crate::birth::errno()),
        0 => {
            signal::unblock_all();
            // Steps may write below /proc/self, whose files would be root's of the host; `Op::Hide` comes after them.
            prctl::set_dumpable(true)
        }
        child => stay(how, rest, registers, child as i32),
    }
}

/// PID 1, inside the container, privileged until it has confined itself like its child. It lets go of the parent's
/// descriptors first: once it has the container's rights, who has CAP_SYS_PTRACE there can open them.
fn stay(how: &AsPid1, rest: &[Op], registers: &mut Registers<'_>, child: i32) -> ! {
    close_all();
    for op in rest.iter().filter(|op| matches!(op, Op::Privilege(_))) {
        if apply(op, registers).is_err() {
            exit(125);
        }
    }
    // Once more: a change of ids has made that what the sysctl `fs.suid_dumpable` says.
    best_effort(prctl::set_dumpable(false));
    // It is for ps: without it, PID 1 does its work all the same.
    best_effort(rustix::thread::set_name(&how.name));
    loop {
        match signal::wait_any() {
            None => {}
            Some(libc::SIGCHLD) => {
                while let Some((pid, status)) = reap() {
                    if pid == child {
                        exit(shell_status(status));
                    }
                }
            }
            Some(signo) => signal::kill(child, signo),
        }
    }
}

/// Lets go of everything, the conversation with the parent as well: its end is the child's to signal, by exec.
fn close_all() {
    // SAFETY: nothing in this process uses a descriptor from here on but to fail: a listener, which a plan with an init
    // does not have, could not be sent. Owners in `registers` are never dropped, as `stay` does not return.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
}

fn reap() -> Option<(i32, i32)> {
    let mut status = 0;
    // SAFETY: `status` is a valid place for the kernel to write.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
    (pid > 0).then_some((pid, status))
}

/// As every shell has it: the exit code, or 128 and the signal.
fn shell_status(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    }
}
