//! clone3(2), and the parent's end of the conversation with the child.
//!
//! ```text
//!   parent                                   child
//!   ------                                   -----
//!   clone3 ───────────────────────────────►  performs its ops …
//!   id maps, cgroup, …                       … Op::Gate: waits
//!   Child::open_gate ───── 'g' + Parcel ──►  … takes its contents and goes on
//!          ◄──── 'C' + the pty's master ───  Op::Console
//!          ◄──── 'W' op, errno ────────────  an op failed that the container can do without
//!          ◄──── 'P' number ───────────────  Op::Descend: goes on in another child of the parent, and ends
//!          ◄──── 'F' op, errno, text ──────  an op failed: exits
//!          ◄──── end of file ──────────────  Op::Exec succeeded (the socket is close-on-exec)
//! ```
//! One socket pair of whole messages carries all of it. Nothing is numbered by hand: an operation's index in the list
//! is its name, so the owner of the list renders a failure.

use crate::aside::share;
use crate::clone3::{CLONE_INTO_CGROUP, CloneArgs, CloneFlags, clone};
use crate::event::{Event, receive};
use crate::forebear::{self, Ancestry};
use crate::gate;
use crate::timings::Clock;
use crate::{Errno, ExitStatus, Guardian, Op, Parcel, Sealing, child, guardian};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};

/// Words of the stack of a process that shares memory; its descendant has a copy. Unused pages take no memory.
const STACK: usize = 1 << 16;

/// Request for a new process.
#[derive(Debug)]
pub struct Birth<'a> {
    /// Operations, in order; the last must be [`Op::Exec`].
    pub ops: &'a [Op],
    /// Namespaces made by the clone itself, before the first operation.
    pub namespaces: CloneFlags,
    /// Namespaces that the child is to be in before it makes its own. They need one more process, which a namespace
    /// joined by [`Op::Join`] does not; a user namespace must come this way, and with it every namespace that has to
    /// be joined with the caller's rights rather than with the child's.
    pub ancestry: Ancestry<'a>,
    /// Cgroup v2 directory that the child is born in.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Whether the time of each operation is noted.
    pub timings: bool,
    /// Seal for a process that no other process sees yet, whose parent is not sealed.
    pub seal: Option<&'a Sealing>,
    /// Parcels of the first gates, which were made before the birth: the child finds these gates open.
    pub parcels: &'a [Parcel<'a>],
    /// Way in which the process comes about.
    pub way: Way,
}

/// Way in which a process comes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Copy of the caller.
    Copied,
    /// Copy of the caller, who may leave before it ends: a [`Guardian`] is its parent. Impossible with an ancestry, with
    /// [`Op::Descend`], and for a caller whose children are born in another PID namespace.
    Guarded,
    /// Process in the caller's memory until [`Op::Descend`], for which the caller waits: to copy the memory takes longer than all operations
    /// before. Only for a list with that operation, without a gate, namespaces of its own, a cgroup or an ancestry, and for a caller that does
    /// without its environment afterwards.
    Shared,
}

/// A process that is performing its operations, or has become the program.
#[derive(Debug)]
pub struct Child {
    /// Pid in the caller's PID namespace.
    pub pid: u32,
    /// Its pidfd.
    pub pidfd: OwnedFd,
    /// Parent of the process, if that is not the caller.
    pub guardian: Option<Guardian>,
    channel: OwnedFd,
    clock: Option<Clock>,
}

/// Clones a process that performs the operations.
///
/// # Errors
/// clone3(2)'s; those of socketpair(2) and mmap(2).
pub fn birth(birth: &Birth<'_>) -> Result<Child, Errno> {
    let (ours, theirs) = rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let clock = if birth.timings {
        Some(Clock::new(birth.ops.len())?)
    } else {
        None
    };
    let mut pidfd: i32 = -1;
    let mut flags = birth.namespaces | libc::CLONE_PIDFD as u64;
    if birth.cgroup.is_some() {
        flags |= CLONE_INTO_CGROUP;
    }
    let args = CloneArgs {
        flags,
        pidfd: (&raw mut pidfd) as u64,
        exit_signal: libc::SIGCHLD as u64,
        cgroup: birth.cgroup.map_or(0, |fd| fd.as_raw_fd() as u64),
        ..CloneArgs::default()
    };
    let newborn = || {
        // A copy of the parent's end would keep the channel open: if the parent were killed, the child would wait at
        // its gate for ever, and keep its inherited descriptors, locks included.
        // SAFETY: `ours` is never used, nor dropped, in the new process.
        unsafe { libc::close(ours.as_raw_fd()) };
        // The child must not be the last holder of the seal: it would wait for its release when it executes the
        // program. One that shares the memory would settle it for the caller.
        if birth.way != Way::Shared {
            crate::settle_seal();
        }
        child::run(birth, theirs.as_fd(), clock.as_ref())
    };
    let ancestry = &birth.ancestry;
    let mut guardian = None;
    let pid = if birth.way == Way::Guarded {
        let (pid, its) = guardian::bear(&args, &newborn)?;
        guardian = Some(its);
        pid
    } else if birth.way == Way::Shared {
        let mut stack = vec![0u128; STACK];
        share(&mut stack, &mut pidfd, newborn)?
    } else if ancestry.join.is_empty() && ancestry.user.is_none() {
        clone(&args, newborn)?
    } else {
        forebear::clone(ancestry, args, &newborn)?
    };
    // SAFETY: the kernel has stored a new descriptor there, owned by this process, as CLONE_PIDFD says.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Child {
        pid,
        pidfd,
        guardian,
        channel: ours,
        clock,
    })
}

impl Child {
    /// Lets the child pass its next [`Op::Gate`] that was not open at its birth, and hands over the parcel.
    ///
    /// # Errors
    /// `EPIPE` when the child is gone: its failure or its exit status tells why. `EINVAL` for more than twenty
    /// descriptors.
    pub fn open_gate(&self, parcel: &Parcel<'_>) -> Result<(), Errno> {
        gate::open(self.channel.as_fd(), parcel)
    }

    /// Goes on with the process that [`Event::Descended`] has named; the previous process is reaped.
    ///
    /// # Errors
    /// `ECHILD` if this pid is not of a child of this process; pidfd_open(2)'s and waitid(2)'s.
    pub fn descend(&mut self, pid: u32) -> Result<(), Errno> {
        let number = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or(Errno::CHILD)?;
        let pidfd = pidfd_open(number, PidfdFlags::empty())?;
        // A child keeps its pid until it is reaped, so the pidfd of a child is of the process that was meant.
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        #[expect(clippy::disallowed_methods, reason = "it does not wait")]
        let child = waitid(WaitId::PidFd(pidfd.as_fd()), peek);
        child?;
        if pid == self.pid {
            return Err(Errno::CHILD);
        }
        self.kill();
        (self.pid, self.pidfd) = (pid, pidfd);
        Ok(())
    }

    /// Kills the process and reaps it: a dead child that is not reaped keeps the first process of its PID namespace
    /// from ending.
    pub fn kill(&self) {
        // ESRCH: the process has ended already.
        crate::best_effort(pidfd_send_signal(&self.pidfd, Signal::KILL));
        crate::best_effort(self.reap());
    }

    /// Waits for the end of the process.
    ///
    /// # Errors
    /// waitid(2)'s.
    pub fn reap(&self) -> Result<ExitStatus, Errno> {
        match &self.guardian {
            Some(guardian) => Ok(guardian.reap()),
            None => ExitStatus::of(self.pidfd.as_fd()),
        }
    }

    /// Hears the program, which has the other end of this channel, in the place of the operations before it.
    pub fn hear_program(&mut self, channel: OwnedFd) {
        self.channel = channel;
    }

    /// Returns the channel, which is readable when [`Child::event`] has a message.
    #[must_use]
    pub fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Waits for the next message of the child.
    ///
    /// # Errors
    /// recvmsg(2)'s; `EPROTO` for a message that the child cannot have sent.
    pub fn event(&self) -> Result<Event, Errno> {
        receive(self.channel.as_fd())
    }

    /// Returns when each operation was done, in nanoseconds of CLOCK_MONOTONIC; 0 for operations that were not
    /// reached.
    ///
    /// Empty unless [`Birth::timings`] was set.
    #[must_use]
    pub fn timings(&self) -> Vec<u64> {
        self.clock.as_ref().map_or_else(Vec::new, Clock::read)
    }
}
