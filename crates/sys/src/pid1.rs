//! PID 1 of a container that asked for one (`--init`): forwards signals, reaps, exits as its child did.

use crate::outcome::{best_effort, errno, exit};
use crate::registers::Registers;
use crate::{Errno, Op, Privilege, identity, prctl, signal};
use std::ffi::CString;

/// PID 1 that tote itself plays.
#[derive(Clone, Debug)]
pub struct AsPid1 {
    /// Name that `ps` shows, at most 15 bytes.
    pub name: CString,
}

/// Splits the process: the parent stays as PID 1 and never returns, the child goes on with the remaining operations. Both have the
/// container's rights already, unless those forbid the split.
pub(crate) fn split(how: &AsPid1, rest: &[Op], registers: &Registers<'_>) -> Result<(), Errno> {
    // Signals are blocked before the fork, so that none is lost between it and the loop.
    signal::block_all()?;
    // The process is hidden before the child exists: the program may run before PID 1 gets to go on at all.
    prctl::set_dumpable(false)?;
    let is_confined = !rest.iter().any(|op| {
        matches!(
            op,
            Op::Privilege(Privilege {
                capabilities: Some(_),
                ..
            })
        )
    });
    if is_confined {
        name(how);
    }
    // SAFETY: the child is a copy of this process, as in `birth`, and neither allocates nor needs a lock.
    match unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) } {
        -1 => Err(errno()),
        0 => {
            signal::unblock_all();
            // Operations may write below /proc/self, whose files would belong to the host's root; `Op::Hide` comes
            // after them.
            match rest.iter().any(|op| matches!(op, Op::Hide)) {
                true => prctl::set_dumpable(true),
                false => Ok(()),
            }
        }
        child => stay(how, rest, registers, child as i32),
    }
}

/// Plays PID 1 inside the container, and confines itself like its child if it has not done so. It closes the parent's
/// descriptors first: once PID 1 has the container's rights, a process with CAP_SYS_PTRACE there can open them.
fn stay(how: &AsPid1, rest: &[Op], registers: &Registers<'_>, child: i32) -> ! {
    close_all();
    for op in rest {
        if let Op::Privilege(privilege) = op
            && identity::set(privilege, registers.listens()).is_err()
        {
            exit(125);
        }
    }
    // Again: a change of ids resets the flag to what the sysctl `fs.suid_dumpable` says.
    best_effort(prctl::set_dumpable(false));
    name(how);
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

/// Takes the name by which ps shows PID 1, and by which commands know that it has the container's rights. It works without.
fn name(how: &AsPid1) {
    best_effort(rustix::thread::set_name(&how.name));
}

/// Closes every descriptor, the channel to the parent included: the child signals the end of the conversation, by
/// exec.
fn close_all() {
    // SAFETY: nothing in this process uses a descriptor from here on except to fail: a seccomp listener, which a plan
    // with an init does not have, could not be sent. Owners in `registers` are never dropped, as `stay` does not
    // return.
    unsafe { libc::syscall(libc::SYS_close_range, 0, u32::MAX, 0) };
}

fn reap() -> Option<(i32, i32)> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the kernel to write.
        let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) };
        // A child that ended raises no second SIGCHLD, so an interrupted call is made again.
        if pid != -1 || errno() != Errno::INTR {
            return (pid > 0).then_some((pid, status));
        }
    }
}

/// Returns the exit code as shells do: the program's, or 128 plus the signal.
fn shell_status(status: i32) -> i32 {
    if libc::WIFSIGNALED(status) {
        128 + libc::WTERMSIG(status)
    } else {
        libc::WEXITSTATUS(status)
    }
}
