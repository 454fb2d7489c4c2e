//! Hooks that run in the container's namespaces: a program that the new process starts and waits for.

use crate::outcome::errno;
use crate::outcome::exit;
use crate::registers::Registers;
use crate::text::Text;
use crate::wait::{Endless, Wait};
use crate::{Errno, Program, console};
use rustix::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ffi::CString;
use std::time::Duration;

/// A program that runs to its end before the next operation.
#[derive(Debug)]
pub struct Hook {
    /// Name in messages: `createContainer hook #0`.
    pub name: String,
    /// The executable.
    pub path: CString,
    /// argv and environment.
    pub program: Program,
    /// Standard input, read from the start: a file in memory, which the parent may fill before the gate ahead.
    pub input: OwnedFd,
    /// Standard output and error: a file in memory.
    pub output: OwnedFd,
    /// Seconds after which it is killed.
    pub timeout: Option<u32>,
    /// True if it starts in the container's root, which is not the root yet; false if it starts where this process
    /// is.
    pub at_root: bool,
}

/// State that both processes share until the exec.
struct Exchange<'a> {
    hook: &'a Hook,
    directory: Option<BorrowedFd<'a>>,
    failed: Option<Errno>,
}

/// Runs the hook. A status other than 0 is `ECANCELED`, with the status and the beginning of its output as text.
#[inline(never)]
pub(crate) fn run(hook: &Hook, registers: &mut Registers<'_>) -> Result<(), Errno> {
    rustix::fs::seek(&hook.input, rustix::fs::SeekFrom::Start(0))?;
    let mut exchange = Exchange {
        hook,
        directory: if hook.at_root {
            Some(registers.root()?)
        } else {
            None
        },
        failed: None,
    };
    let mut stack = [0u128; 1024];
    let mut pidfd = -1;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: CLONE_VFORK stops this process until the other has executed or exited, so the stack and `exchange`
    // outlive it and nothing else uses them meanwhile; it starts at the top of the stack, which is 16-aligned as the
    // ABI wants. `pidfd` is a valid place for the kernel to write.
    let pid = unsafe {
        libc::clone(
            other,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            (&raw mut exchange).cast(),
            &raw mut pidfd,
        )
    };
    if pid == -1 {
        return Err(errno());
    }
    // SAFETY: the kernel has stored a new descriptor there, owned by this process, as CLONE_PIDFD says.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let in_time = wait(&pidfd, hook.timeout);
    if !matches!(in_time, Ok(true)) {
        crate::signal::kill(pid, libc::SIGKILL);
    }
    let status = reap(pid)?;
    match (exchange.failed, in_time?) {
        (Some(errno), _) => Err(errno),
        (None, false) => Err(Errno::TIMEDOUT),
        (None, true) if status == 0 => Ok(()),
        (None, true) => {
            describe(status, hook, &mut registers.text);
            Err(Errno::CANCELED)
        }
    }
}

/// Runs as the other process.
extern "C" fn other(exchange: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `run` passes its `Exchange`, which nothing else touches until this process has executed or exited.
    let exchange = unsafe { &mut *exchange.cast::<Exchange<'_>>() };
    exchange.failed = Some(become_it(exchange.hook, exchange.directory));
    exit(127)
}

/// Becomes the hook's program; returns only on failure, with the reason.
fn become_it(hook: &Hook, directory: Option<BorrowedFd<'_>>) -> Errno {
    if let Some(Err(errno)) = directory.map(rustix::process::fchdir) {
        return errno;
    }
    for (fd, number) in [(&hook.input, 0), (&hook.output, 1), (&hook.output, 2)] {
        if let Err(errno) = console::put(fd.as_fd(), number) {
            return errno;
        }
    }
    // SAFETY: the arrays are null-terminated and point into strings that `Program` owns.
    unsafe {
        libc::execve(
            hook.path.as_ptr(),
            hook.program.argv.as_ptr(),
            hook.program.envp.as_ptr(),
        )
    };
    errno()
}

/// Waits for the end; `false` if the time ran out first.
fn wait(pidfd: &OwnedFd, seconds: Option<u32>) -> Result<bool, Errno> {
    let limit = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    Wait::within_or(limit, Endless::Program).readable(pidfd.as_fd())
}

fn reap(pid: i32) -> Result<i32, Errno> {
    let mut status = 0;
    loop {
        // SAFETY: `status` is a valid place for the kernel to write.
        match unsafe { libc::waitpid(pid, &raw mut status, 0) } {
            -1 if errno() == Errno::INTR => {}
            -1 => return Err(errno()),
            _ => return Ok(status),
        }
    }
}

/// Formats `exit status 3, output: …`.
fn describe(status: i32, hook: &Hook, text: &mut Text) {
    let (words, number): (&[u8], i32) = if libc::WIFSIGNALED(status) {
        (b"signal ", libc::WTERMSIG(status))
    } else {
        (b"exit status ", libc::WEXITSTATUS(status))
    };
    text.set(words);
    text.add_number(number as u32);
    let mut said = [0; 128];
    if let Ok(length) = rustix::io::pread(&hook.output, &mut said, 0)
        && length > 0
    {
        text.add(b", output: ");
        text.add(&said[..length]);
    }
}
