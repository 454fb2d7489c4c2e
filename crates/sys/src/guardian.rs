//! A process between a command and the container that it starts, so that the command may end before the container
//! does.
//!
//! The kernel ends a container with its parent (`PR_SET_PDEATHSIG`), reports the exit status to the parent only, and
//! gives no process another parent. A command in the foreground of a shell can only leave by ending, so another
//! process has to be the parent: one that shares the command's memory, because a copy of that would cost five times
//! as much.
//!
//! ```text
//!   command                     guardian                          container's process
//!   ───────                     ────────                          ───────────────────
//!   clone(VM, FILES) ────────►  dies with the command
//!                               clone3 ────────────────────────►  performs its ops …
//!          ◄──── 'B' pid ─────  has no descriptor any more but the line and a pidfd
//!          ──── 'r' ─────────►  from now on it lives while the line is held, in a session of its own
//!          ◄──── 'r' ─────────
//!          ◄──── 'X' status ──  reaps it, and ends
//! ```
//! The container ends when any of the three is killed: when the guardian is, because that is its parent; when the
//! command is, before `r`, because the guardian dies with the command; and after `r`, because the line is closed
//! then.

use crate::clone3::{CloneArgs, clone as clone3};
use crate::outcome::errno;
use crate::outcome::exit;
use crate::wait::{Endless, Wait};
use crate::{Errno, best_effort, signal};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{Pid, Signal, pidfd_send_signal};

/// Bytes of the guardian's stack. The container's process performs all its operations on a copy of it. Unused pages
/// take no memory.
const STACK: usize = 1 << 20;

/// Length of a message: a letter, whether a signal ended the process, and its code or that signal.
const END: usize = 6;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    /// Ended by itself, with this code.
    Code(i32),
    /// Ended by this signal.
    Signal(i32),
}

impl ExitStatus {
    /// Waits for the end of a child that has not been reaped yet.
    ///
    /// # Errors
    /// waitid(2)'s.
    pub fn of(pidfd: BorrowedFd<'_>) -> Result<Self, Errno> {
        loop {
            if let Some(status) = Self::within(pidfd, Wait::endless(Endless::Program))? {
                return Ok(status);
            }
        }
    }

    /// Waits so long for the end of a child that has not been reaped yet; `None` once the time is over.
    ///
    /// # Errors
    /// waitid(2)'s.
    pub fn within(pidfd: BorrowedFd<'_>, wait: Wait) -> Result<Option<Self>, Errno> {
        let ended = wait.reap(pidfd)?;
        Ok(ended.map(
            |status| match (status.exit_status(), status.terminating_signal()) {
                (Some(code), _) => Self::Code(code),
                (None, Some(signal)) => Self::Signal(signal),
                (None, None) => Self::KILLED,
            },
        ))
    }

    const KILLED: Self = Self::Signal(libc::SIGKILL);
}

/// Parent of a container's first process, where the caller is not the parent.
#[derive(Debug)]
pub struct Guardian {
    pidfd: OwnedFd,
    line: OwnedFd,
}

impl Guardian {
    /// Lets the caller end without the container. From here on the container lives as long as a process holds this
    /// value, or the copy that fork(2) made of it.
    ///
    /// # Errors
    /// `EPIPE` and `ECHILD` when the guardian is gone, and the container with it; poll(2)'s, send(2)'s and recv(2)'s.
    pub fn release(&self) -> Result<(), Errno> {
        send(self.line.as_fd(), b"r")?;
        // If the message about the end came first, it is left for `reap`.
        match hear(self.line.as_fd(), RecvFlags::PEEK)? {
            Word::Released => hear(self.line.as_fd(), RecvFlags::empty()).map(drop),
            _ => Ok(()),
        }
    }

    /// Waits for the end of the container's process, and for the guardian's if that is a child of the caller. A
    /// guardian that was killed took the process with it.
    #[must_use]
    pub fn reap(&self) -> ExitStatus {
        let status = loop {
            match hear(self.line.as_fd(), RecvFlags::empty()) {
                Ok(Word::Ended(status)) => break status,
                Ok(Word::Nothing) | Err(_) => break ExitStatus::KILLED,
                Ok(Word::Born(_) | Word::Released) => {}
            }
        };
        // If the guardian is not a child of the caller, the process that adopted it reaps it.
        best_effort(ExitStatus::of(self.pidfd.as_fd()));
        status
    }
}

/// Message of the guardian.
enum Word {
    Born(Result<u32, Errno>),
    Released,
    Ended(ExitStatus),
    /// The guardian has ended.
    Nothing,
}

fn hear(line: BorrowedFd<'_>, flags: RecvFlags) -> Result<Word, Errno> {
    let mut bytes = [0; END];
    let length = rustix::io::retry_on_intr(|| rustix::net::recv(line, &mut bytes, flags))?.1;
    let number = i32::from_ne_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]);
    Ok(match (bytes[0], bytes[1], length) {
        (b'B', 0, END) => Word::Born(Ok(number.cast_unsigned())),
        (b'B', _, END) => Word::Born(Err(Errno::from_raw_os_error(number))),
        (b'X', 0, END) => Word::Ended(ExitStatus::Code(number)),
        (b'X', _, END) => Word::Ended(ExitStatus::Signal(number)),
        (b'r', _, 1) => Word::Released,
        _ => Word::Nothing,
    })
}

/// Sends a message to the listener. A guardian whose listener cannot hear it ends, since the listener notices its end
/// in any case.
fn say(line: BorrowedFd<'_>, letter: u8, mark: bool, number: i32) -> Result<(), Errno> {
    let mut bytes = [letter, mark.into(), 0, 0, 0, 0];
    bytes[2..].copy_from_slice(&number.to_ne_bytes());
    send(line, &bytes)
}

fn send(line: BorrowedFd<'_>, bytes: &[u8]) -> Result<(), Errno> {
    rustix::io::retry_on_intr(|| rustix::net::send(line, bytes, SendFlags::NOSIGNAL)).map(drop)
}

/// Arguments of the guardian. They lie on the caller's stack, so the guardian does not touch them after its first
/// message.
struct Work<'a> {
    args: &'a CloneArgs,
    newborn: &'a dyn Fn(),
    line: i32,
    parent: Pid,
}

/// Calls clone3(2) in a guardian. `args.pidfd` is a place of the caller's.
///
/// # Errors
/// clone3(2)'s; those of socketpair(2), mmap(2) and clone(2); `ECHILD` for a guardian that was killed.
pub(crate) fn bear(args: &CloneArgs, newborn: &dyn Fn()) -> Result<(u32, Guardian), Errno> {
    let flags = SocketFlags::CLOEXEC;
    let (line, theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    let (protection, private) = (
        rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
        rustix::mm::MapFlags::PRIVATE | rustix::mm::MapFlags::NORESERVE,
    );
    // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
    let stack = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), STACK, protection, private) }?;
    let mut work = Work {
        args,
        newborn,
        line: theirs.as_raw_fd(),
        parent: rustix::process::getpid(),
    };
    let mut pidfd: libc::c_int = -1;
    let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the stack is mapped for the guardian alone, is never unmapped, and its top is page-aligned. `work` and
    // the values it refers to live until the first message has come or the guardian has ended, and until then this
    // thread waits, in calls that do without the C library; after its first message the guardian touches nothing but
    // its own stack. It neither allocates nor locks.
    let pid = unsafe {
        // process: guardian
        libc::clone(
            guard,
            stack.cast::<u8>().wrapping_add(STACK).cast(),
            flags,
            (&raw mut work).cast(),
            &raw mut pidfd,
        )
    };
    if pid == -1 {
        let errno = errno();
        // SAFETY: no process was made, so nothing uses the mapping.
        best_effort(unsafe { rustix::mm::munmap(stack, STACK) });
        return Err(errno);
    }
    // SAFETY: the kernel has stored a new descriptor there, owned by this process, as CLONE_PIDFD says.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    let born = first_word(&line, &pidfd);
    // It is closed only now, because the guardian shared the descriptors until its first message.
    drop(theirs);
    let guardian = Guardian { pidfd, line };
    match born {
        Ok(pid) => Ok((pid, guardian)),
        Err(errno) => {
            best_effort(ExitStatus::of(guardian.pidfd.as_fd()));
            Err(errno)
        }
    }
}

/// Waits for the first message as well as for the end of a guardian that did not send one: no end of file tells of
/// that, because this process holds the other end of the line, too.
fn first_word(line: &OwnedFd, pidfd: &OwnedFd) -> Result<u32, Errno> {
    let mut fds = [
        PollFd::new(line, PollFlags::IN),
        PollFd::new(pidfd, PollFlags::IN),
    ];
    rustix::io::retry_on_intr(|| Wait::endless(Endless::Worker).poll(&mut fds))?;
    if fds[0].revents().is_empty() {
        return Err(Errno::CHILD);
    }
    match hear(line.as_fd(), RecvFlags::empty())? {
        Word::Born(born) => born,
        _ => Err(Errno::CHILD),
    }
}

/// Runs as the guardian.
extern "C" fn guard(work: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `bear` passes its `work`, which lives until the first message.
    let work = unsafe { &*work.cast::<Work<'_>>() };
    let line = work.line;
    let begun = signal::block_all()
        .and_then(|()| crate::die_with_parent())
        .and_then(|()| match rustix::process::getppid() {
            parent if parent == Some(work.parent) => clone3(work.args, || (work.newborn)()),
            _ => Err(Errno::CHILD),
        });
    // SAFETY: `line` is open in the table that both share, and neither process closes it before the first message.
    let shared = unsafe { BorrowedFd::borrow_raw(line) };
    let pid = match begun {
        Ok(pid) => pid,
        Err(errno) => {
            best_effort(say(shared, b'B', true, errno.raw_os_error()));
            exit(0)
        }
    };
    // SAFETY: clone3 has written a descriptor there, and the place is the caller's until the first message.
    let pidfd = unsafe { *(work.args.pidfd as *const i32) };
    if !has_only(line, pidfd) {
        // The guardian cannot get rid of the caller's descriptors: the container ends with this process.
        best_effort(say(shared, b'B', true, Errno::MFILE.raw_os_error()));
        exit(0)
    }
    if say(shared, b'B', false, pid.cast_signed()).is_err() {
        exit(0)
    }
    // SAFETY: `line` is open in this process's own table, and nothing here closes it.
    let line = unsafe { BorrowedFd::borrow_raw(line) };
    // SAFETY: `pidfd` is open in this process's own table, and nothing here closes it.
    let pidfd = unsafe { BorrowedFd::borrow_raw(pidfd) };
    watch(line, pidfd)
}

/// Leaves the shared table of descriptors and keeps two of them; `false` if that failed.
fn has_only(one: i32, other: i32) -> bool {
    let (low, high) = (one.min(other).cast_unsigned(), one.max(other).cast_unsigned());
    let close = |first: u32, last: u32, flags: u32| {
        // SAFETY: with CLOSE_RANGE_UNSHARE, which comes first, the table is this process's own, and nothing in this
        // process uses the other descriptors any more.
        first > last || unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } == 0
    };
    // An empty range would unshare nothing, so the range that is never empty comes first.
    close(high + 1, u32::MAX, libc::CLOSE_RANGE_UNSHARE)
        && close(low + 1, high - 1, 0)
        && (low == 0 || close(0, low - 1, 0))
}

/// Watches until the container's process has ended and the holder of the other end of the line knows how.
fn watch(line: BorrowedFd<'_>, pidfd: BorrowedFd<'_>) -> ! {
    loop {
        let mut fds = [
            PollFd::from_borrowed_fd(line, PollFlags::IN),
            PollFd::from_borrowed_fd(pidfd, PollFlags::IN),
        ];
        if Wait::endless(Endless::Program).poll(&mut fds).is_err() {
            continue;
        }
        if !fds[1].revents().is_empty() {
            let told = ExitStatus::of(pidfd).and_then(|status| match status {
                ExitStatus::Code(code) => say(line, b'X', false, code),
                ExitStatus::Signal(signal) => say(line, b'X', true, signal),
            });
            best_effort(told);
            exit(0)
        }
        if fds[0].revents().is_empty() {
            continue;
        }
        let mut letter = [0];
        match rustix::net::recv(line, &mut letter, RecvFlags::DONTWAIT) {
            Ok((_, 1)) => {
                // In a session of its own, the guardian does not notice a terminal that hangs up. setsid(2) cannot
                // fail in a process that leads no group.
                best_effort(rustix::process::setsid());
                best_effort(crate::prctl::outlive_parent());
                // A listener that waits for the answer notices the end instead.
                if send(line, b"r").is_err() {
                    exit(0)
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // No process watches the container any more.
            Ok(_) | Err(_) => {
                best_effort(pidfd_send_signal(pidfd, Signal::KILL));
                best_effort(ExitStatus::of(pidfd));
                exit(0)
            }
        }
    }
}
