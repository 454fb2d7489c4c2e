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

use crate::{Errno, ExitStatus, Guardian, Namespace, Op, Sealing, child, forebear, guardian};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, pidfd_open, pidfd_send_signal, waitid,
};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest text that travels with a failure, in bytes.
pub(crate) const TEXT: usize = 200;
/// Length of a message's header: kind, operation, errno.
pub(crate) const HEADER: usize = 9;

/// Most descriptors that go through a gate: more than a host has hierarchies.
pub(crate) const FDS: usize = 20;

/// Length of the parent's letter at a gate: kind, and which descriptors come along.
pub(crate) const LETTER: usize = 4;

/// Descriptors that the parent hands over at a gate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parcel<'a> {
    /// User namespace by whose maps later mounts show owners.
    pub idmap: Option<BorrowedFd<'a>>,
    /// Tree for [`crate::Source::Handed`].
    pub tree: Option<BorrowedFd<'a>>,
    /// Network namespace to join.
    pub network: Option<BorrowedFd<'a>>,
    /// Opened `tasks` files of cgroups to enter. A process that writes `0` to one moves itself. Moving another
    /// process, by its pid, takes a lock of the whole machine that waits for an RCU grace period: 41 µs against 8 ms,
    /// measured.
    pub tasks: &'a [BorrowedFd<'a>],
}

/// `CLONE_NEW…` bits for clone3(2).
pub type CloneFlags = u64;

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
    /// True if the caller may leave before the child ends: a [`Guardian`] is the child's parent then. Impossible with
    /// an ancestry, with [`Op::Descend`], and for a caller whose children are born in another PID namespace.
    pub guarded: bool,
}

/// Namespaces that a child is born into.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ancestry<'a> {
    /// Namespaces of any kind but user and time. Those that the caller may not join are joined from inside `user`.
    pub join: &'a [Namespace],
    /// User namespace that owns the child's new namespaces.
    pub user: Option<BorrowedFd<'a>>,
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

/// Message of the child.
#[derive(Debug)]
pub enum Event {
    /// Master of its console.
    Console(OwnedFd),
    /// Listener of its system call filter. The child may be waiting for an answer already.
    Seccomp(OwnedFd),
    /// The child is at a gate and waits for something that depends on the operations before it.
    Knock,
    /// An operation failed, and the child ends.
    Failed {
        /// Index of the operation; [`Event::PROGRAM`] for the program that a taker brought, since a taker has no
        /// list.
        op: usize,
        /// Cause of the failure.
        errno: Errno,
        /// Further text of the kernel or the operation; often empty.
        text: String,
    },
    /// An operation failed that the container can do without, and the child went on.
    Without {
        /// Index of the operation.
        op: usize,
        /// Cause of the failure.
        errno: Errno,
    },
    /// The child has ended after [`Op::Descend`], and goes on in another child of this process, with this pid. The
    /// pid comes from a process that others may have traced, so [`Child::descend`] checks it.
    Descended(u32),
    /// The child has come to [`Op::Ready`], [`Op::AwaitStart`] or [`Op::Park`].
    Ready,
    /// A taker has brought a parked process its program, by this connection.
    Taken(OwnedFd),
    /// The letter to a parked process was not read completely, and will not be.
    Unread,
    /// The keeper of a parked process reports that the program was executed.
    Began,
    /// The keeper of a parked process reports the end of the program.
    Ended {
        /// Exit code, or the number of a signal.
        status: i32,
        /// True if a signal ended it.
        signaled: bool,
        /// Number of its processes that the kernel killed for want of memory.
        ooms: u64,
    },
    /// The child has executed the program (or was killed: its exit status tells).
    Exec,
}

impl Event {
    /// Value of `op` in [`Event::Failed`] that stands for the program brought to a parked process.
    pub const PROGRAM: usize = u32::MAX as usize;
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
        // program.
        crate::settle_seal();
        child::run(birth, theirs.as_fd(), clock.as_ref())
    };
    let ancestry = &birth.ancestry;
    let mut guardian = None;
    let pid = if birth.guarded {
        let (pid, its) = guardian::bear(&args, &newborn)?;
        guardian = Some(its);
        pid
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

/// Calls clone3(2). The new process runs `newborn` and exits.
pub(crate) fn clone(args: &CloneArgs, newborn: impl FnOnce()) -> Result<u32, Errno> {
    // SAFETY: without CLONE_VM the child has its own copy of all memory, as after fork(2). It is sound to run Rust in
    // it because `child::run` allocates nothing and takes no lock, so it needs nothing that another thread of the
    // parent might have held at that moment. `args` outlives the call, and the places in it that the kernel writes to
    // are valid.
    match unsafe { libc::syscall(libc::SYS_clone3, &raw const *args, size_of::<CloneArgs>()) } {
        0 => {
            newborn();
            child::exit(125)
        }
        -1 => Err(errno()),
        pid => Ok(pid as u32),
    }
}

impl Child {
    /// Lets the child pass its next [`Op::Gate`], and hands over the parcel.
    ///
    /// # Errors
    /// `EPIPE` when the child is gone: its failure or its exit status tells why. `EINVAL` for more than twenty
    /// descriptors.
    pub fn open_gate(&self, parcel: &Parcel<'_>) -> Result<(), Errno> {
        let mut fds = Vec::with_capacity(FDS);
        fds.extend(parcel.idmap);
        fds.extend(parcel.tree);
        fds.extend(parcel.network);
        fds.extend(parcel.tasks);
        let letter: [u8; LETTER] = [
            b'g',
            parcel.idmap.is_some().into(),
            parcel.tree.is_some().into(),
            parcel.network.is_some().into(),
        ];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&fds)) {
            return Err(Errno::INVAL);
        }
        rustix::net::sendmsg(
            &self.channel,
            &[IoSlice::new(&letter)],
            &mut control,
            SendFlags::NOSIGNAL,
        )
        .map(drop)
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
        waitid(WaitId::PidFd(pidfd.as_fd()), peek)?;
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

/// Length of a keeper's last message: kind, whether a signal ended the program, status, number of killed processes.
pub(crate) const ENDED: usize = 10;

/// Waits for the next message of a child.
pub(crate) fn receive(channel: BorrowedFd<'_>) -> Result<Event, Errno> {
    loop {
        match receive_once(channel) {
            // A child that ended with a letter of the parent unread resets the connection; its own messages are still
            // there and come next.
            Err(Errno::CONNRESET) => {}
            other => return other,
        }
    }
}

/// Waits for the next message of a child; `ECONNRESET`, once and first, if the other end has gone without reading
/// all.
pub(crate) fn receive_once(channel: BorrowedFd<'_>) -> Result<Event, Errno> {
    let mut bytes = [0; HEADER + TEXT];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        let mut slices = [IoSliceMut::new(&mut bytes)];
        match rustix::net::recvmsg(channel, &mut slices, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            other => break other?.bytes,
        }
    };
    let fd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    match (bytes[0], length, fd) {
        (_, 0, _) => Ok(Event::Exec),
        (b'R', 1, None) => Ok(Event::Ready),
        (b'P', 5, None) => Ok(Event::Descended(u32::from_ne_bytes([
            bytes[1], bytes[2], bytes[3], bytes[4],
        ]))),
        (b'T', _, Some(fd)) => Ok(Event::Taken(fd)),
        (b'B', _, _) => Ok(Event::Began),
        (b'X', ENDED, _) => Ok(Event::Ended {
            signaled: bytes[1] != 0,
            status: i32::from_ne_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]),
            ooms: u32::from_ne_bytes([bytes[6], bytes[7], bytes[8], bytes[9]]).into(),
        }),
        (b'K', _, _) => Ok(Event::Knock),
        (b'C', _, Some(fd)) => Ok(Event::Console(fd)),
        (b'S', _, Some(fd)) => Ok(Event::Seccomp(fd)),
        (kind @ (b'F' | b'W'), HEADER.., _) => {
            let number =
                |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            let (op, errno) = (number(1) as usize, Errno::from_raw_os_error(number(5) as i32));
            if kind == b'W' {
                return Ok(Event::Without { op, errno });
            }
            Ok(Event::Failed {
                op,
                errno,
                text: String::from_utf8_lossy(&bytes[HEADER..length]).into_owned(),
            })
        }
        _ => Err(Errno::PROTO),
    }
}

/// Times in memory that parent and child share.
#[derive(Debug)]
pub(crate) struct Clock {
    times: &'static [AtomicU64],
}

impl Clock {
    fn new(length: usize) -> Result<Self, Errno> {
        let bytes = length.max(1) * size_of::<AtomicU64>();
        let (protection, flags) = (
            rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
            rustix::mm::MapFlags::SHARED,
        );
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no existing memory.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags) }?;
        // SAFETY: the mapping is `bytes` long, page-aligned, zeroed (valid for atomics), and never unmapped.
        let times = unsafe { std::slice::from_raw_parts(start.cast::<AtomicU64>(), length) };
        Ok(Self { times })
    }

    /// Notes that an operation is done.
    pub(crate) fn mark(&self, op: usize) {
        if let Some(time) = self.times.get(op) {
            time.store(monotonic(), Ordering::Relaxed);
        }
    }

    fn read(&self) -> Vec<u64> {
        self.times
            .iter()
            .map(|time| time.load(Ordering::Relaxed))
            .collect()
    }
}

fn monotonic() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

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

const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;

/// Returns the errno of the libc call that just failed.
pub(crate) fn errno() -> Errno {
    std::io::Error::last_os_error()
        .raw_os_error()
        .map_or(Errno::INVAL, Errno::from_raw_os_error)
}
