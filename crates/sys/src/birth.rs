//! clone3(2), and the parent's end of the conversation with the child.
//!
//! ```text
//!   parent                                   child
//!   ------                                   -----
//!   clone3 ───────────────────────────────►  performs its ops …
//!   id maps, cgroup, …                       … Op::Gate: waits
//!   Child::open_gate ───── 'g' + Parcel ──►  … takes what is in it and goes on
//!          ◄──── 'C' + the pty's master ───  Op::Console
//!          ◄──── 'W' op, errno ────────────  an op failed that the container can do without
//!          ◄──── 'P' number ───────────────  Op::Descend: goes on in another child of the parent, and ends
//!          ◄──── 'F' op, errno, text ──────  an op failed: exits
//!          ◄──── end of file ──────────────  Op::Exec succeeded (the socket is close-on-exec)
//! ```
//! One socket pair of whole messages carries all of it. Nothing is numbered by hand: an op's place in the list is its
//! name, so a failure is rendered by whoever has the list.

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

/// The longest text that travels with a failure, in bytes.
pub(crate) const TEXT: usize = 200;
/// Kind, op, errno.
pub(crate) const HEADER: usize = 9;

/// The most descriptors that go through a gate: more than there are hierarchies.
pub(crate) const FDS: usize = 20;

/// Kind, and which descriptors come along.
pub(crate) const LETTER: usize = 4;

/// What the parent hands over at a gate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parcel<'a> {
    /// A user namespace: later mounts show owners by its maps.
    pub idmap: Option<BorrowedFd<'a>>,
    /// A tree for [`crate::Source::Handed`].
    pub tree: Option<BorrowedFd<'a>>,
    /// A network namespace to join.
    pub network: Option<BorrowedFd<'a>>,
    /// Opened `tasks` files of cgroups to enter. A process that writes `0` there moves itself. Moving another one, by
    /// its number, takes a lock of the whole machine that waits for an RCU grace period: 41 µs against 8 ms, measured.
    pub tasks: &'a [BorrowedFd<'a>],
}

/// `CLONE_NEW…` bits for clone3(2).
pub type CloneFlags = u64;

/// What to give birth to.
#[derive(Debug)]
pub struct Birth<'a> {
    /// The steps, in order; the last must be [`Op::Exec`].
    pub ops: &'a [Op],
    /// Namespaces made by the clone itself, before the first step.
    pub namespaces: CloneFlags,
    /// Namespaces that it is to be in before it makes its own. They take a process more, which a namespace that is
    /// joined by [`Op::Join`] does not; a user namespace must come this way, and with it whatever has to be joined by
    /// who the caller is rather than by who the child becomes.
    pub ancestry: Ancestry<'a>,
    /// The cgroup v2 directory that the child is born in.
    pub cgroup: Option<BorrowedFd<'a>>,
    /// Whether the time of each step is taken.
    pub timings: bool,
    /// For a process that nobody sees yet, of a parent that is not sealed.
    pub seal: Option<&'a Sealing>,
    /// Whether the caller may leave before the child ends: a [`Guardian`] is the child's parent then. Not with an ancestry, nor
    /// with [`Op::Descend`], and not by a caller whose children are born in another PID namespace.
    pub guarded: bool,
}

/// Namespaces that a child is born into.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ancestry<'a> {
    /// Of any kind but user and time. Those that the caller may not join are joined from inside the user namespace.
    pub join: &'a [Namespace],
    /// The user namespace, of which the child's new namespaces are.
    pub user: Option<BorrowedFd<'a>>,
}

/// A process that is performing its steps, or has become the program.
#[derive(Debug)]
pub struct Child {
    /// Its id in the caller's PID namespace.
    pub pid: u32,
    /// Its pidfd.
    pub pidfd: OwnedFd,
    /// Its parent, where that is not the caller.
    pub guardian: Option<Guardian>,
    channel: OwnedFd,
    clock: Option<Clock>,
}

/// What the child says.
#[derive(Debug)]
pub enum Event {
    /// The master of its console.
    Console(OwnedFd),
    /// The listener of its system call filter. The child may be waiting for an answer already.
    Seccomp(OwnedFd),
    /// It waits at a gate for something that depends on the steps before.
    Knock,
    /// A step failed, and the child ends.
    Failed {
        /// The step's place in the list; [`Event::PROGRAM`] where it is the program that somebody brought, who has no
        /// list.
        op: usize,
        /// Why.
        errno: Errno,
        /// What the kernel or the step said beyond that; often empty.
        text: String,
    },
    /// A step failed that the container can do without, and the child went on.
    Without {
        /// The step's place in the list.
        op: usize,
        /// Why.
        errno: Errno,
    },
    /// It has ended after [`Op::Descend`], and goes on in another child of this process, which has that number. The number
    /// is the word of a process that others may have traced: [`Child::descend`] checks it.
    Descended(u32),
    /// It has come to [`Op::Ready`], [`Op::AwaitStart`] or [`Op::Park`].
    Ready,
    /// Somebody has brought a parked one its program, by this connection.
    Taken(OwnedFd),
    /// Of a parked one: what was sent to it has not been read, and will not be.
    Unread,
    /// Of a parked one's keeper: it has become the program that was brought.
    Began,
    /// Of a parked one's keeper: it has ended.
    Ended {
        /// Its exit code, or the number of a signal.
        status: i32,
        /// Whether it was a signal.
        signaled: bool,
        /// How many of its processes the kernel killed for want of memory.
        ooms: u64,
    },
    /// It has become the program (or was killed: its exit tells).
    Exec,
}

impl Event {
    /// In the place of a step: the program that was brought to a parked process.
    pub const PROGRAM: usize = u32::MAX as usize;
}

/// Clones a process that performs the steps.
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
        // A copy of the parent's end would keep the channel open: the child of a parent that was killed would wait at
        // its gate for ever, and hold what it inherited, locks too.
        // SAFETY: `ours` is never used, nor dropped, in the new process.
        unsafe { libc::close(ours.as_raw_fd()) };
        // It must not be the last to let go, which would be when it becomes the program.
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
    // SAFETY: the kernel put a new descriptor of ours there, as CLONE_PIDFD says.
    let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
    Ok(Child {
        pid,
        pidfd,
        guardian,
        channel: ours,
        clock,
    })
}

/// clone3(2). In the new process `newborn` is all that happens.
pub(crate) fn clone(args: &CloneArgs, newborn: impl FnOnce()) -> Result<u32, Errno> {
    // SAFETY: no CLONE_VM: the child has its own copy of all memory, as after fork(2). It is sound to run Rust in it
    // because `child::run` allocates nothing and takes no lock, so it needs nothing that another thread of the parent
    // might have held at that moment. `args` outlives the call, and the places in it that the kernel writes to are
    // valid.
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
    /// Lets the child pass its next [`Op::Gate`] with what the parent has made meanwhile.
    ///
    /// # Errors
    /// `EPIPE` when the child is gone: its failure or its exit tells why. `EINVAL` for more than twenty descriptors.
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

    /// Goes on with the process that [`Event::Descended`] has named; the one before is reaped.
    ///
    /// # Errors
    /// `ECHILD` where that number is not of a child of this process; pidfd_open(2)'s and waitid(2)'s.
    pub fn descend(&mut self, pid: u32) -> Result<(), Errno> {
        let number = i32::try_from(pid)
            .ok()
            .and_then(Pid::from_raw)
            .ok_or(Errno::CHILD)?;
        let pidfd = pidfd_open(number, PidfdFlags::empty())?;
        // A child that nobody has waited for keeps its number, so a child's descriptor is of the process that was meant.
        let peek = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        waitid(WaitId::PidFd(pidfd.as_fd()), peek)?;
        if pid == self.pid {
            return Err(Errno::CHILD);
        }
        self.kill();
        (self.pid, self.pidfd) = (pid, pidfd);
        Ok(())
    }

    /// Kills the process and reaps it: a dead child that nobody reaps keeps the first process of its PID namespace from
    /// ending.
    pub fn kill(&self) {
        // ESRCH: it has ended already.
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

    /// Readable when [`Child::event`] has something to say.
    #[must_use]
    pub fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    /// Waits for what the child says next.
    ///
    /// # Errors
    /// recvmsg(2)'s; `EPROTO` for a message that the child cannot have sent.
    pub fn event(&self) -> Result<Event, Errno> {
        receive(self.channel.as_fd())
    }

    /// When each step was done, in nanoseconds of CLOCK_MONOTONIC; 0 for those that were not reached.
    ///
    /// Empty unless [`Birth::timings`] was set.
    #[must_use]
    pub fn timings(&self) -> Vec<u64> {
        self.clock.as_ref().map_or_else(Vec::new, Clock::read)
    }
}

/// The length of a keeper's last word: kind, whether a signal ended it, status, killed processes.
pub(crate) const ENDED: usize = 10;

/// Waits for the next message of a child.
pub(crate) fn receive(channel: BorrowedFd<'_>) -> Result<Event, Errno> {
    loop {
        match receive_once(channel) {
            // A child that ended with a letter of ours unread resets the connection; what it had to say is still
            // there and comes next.
            Err(Errno::CONNRESET) => {}
            other => return other,
        }
    }
}

/// The same; `ECONNRESET`, once and before anything else, where the other end has gone with something unread.
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

    /// Notes that a step is done.
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

/// The errno of the libc call that just failed.
pub(crate) fn errno() -> Errno {
    std::io::Error::last_os_error()
        .raw_os_error()
        .map_or(Errno::INVAL, Errno::from_raw_os_error)
}
