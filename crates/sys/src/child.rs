//! The child's loop. Nothing here or below allocates, locks, formats or panics.

use crate::birth::{Birth, Clock, FDS, HEADER, LETTER, TEXT};
use crate::fresh::Fresh;
use crate::{
    Errno, Event, Op, Sealing, console, copy, cover, descend, fresh, hook, identity, join, mount, namespace,
    node, park, pid1, prctl, removal, rlimit, root, schedule, signal, start, switch,
};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::Mode;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};
use std::io::IoSliceMut;
use std::mem::MaybeUninit;

/// Results of earlier operations that later ones need.
pub(crate) struct Registers<'a> {
    /// The child's end of the conversation.
    pub(crate) channel: BorrowedFd<'a>,
    /// Child's end of the conversation with the command that starts the container.
    pub(crate) conversation: Option<OwnedFd>,
    /// The container's root.
    pub(crate) root: Option<OwnedFd>,
    /// Root that the current one covers.
    pub(crate) beneath: Option<OwnedFd>,
    /// The container's procfs, through a descriptor that no path leads to.
    pub(crate) proc: Option<OwnedFd>,
    /// The host's procfs.
    pub(crate) own_proc: Option<OwnedFd>,
    /// The container's devpts.
    pub(crate) devpts: Option<OwnedFd>,
    /// A null device that is mounted in the container: its own, or the host's on a read-only mount.
    pub(crate) null: Option<OwnedFd>,
    /// An empty read-only directory.
    pub(crate) empty: Option<OwnedFd>,
    /// The user namespace by whose maps mounts show owners.
    pub(crate) idmap: Option<OwnedFd>,
    /// A tree that the parent has opened.
    pub(crate) tree: Option<OwnedFd>,
    /// Whether mounts of this namespace are shared with others.
    pub(crate) shares: bool,
    /// Tmpfs that was mounted last, as long as all later mounts are inside it.
    pub(crate) fresh: Option<Fresh>,
    /// The slave of the console.
    pub(crate) terminal: Option<OwnedFd>,
    /// Program that a taker has brought, in place of the planned one.
    pub(crate) brought: Option<park::Brought>,
    /// True if a cgroup that the child has entered took no real-time process, until the parent has been told.
    demoted: bool,
    /// Text that a failing operation adds to its errno.
    pub(crate) text: Text,
}

/// A short text without allocation.
pub(crate) struct Text {
    bytes: [u8; TEXT],
    length: usize,
}

impl Text {
    pub(crate) const EMPTY: Self = Self {
        bytes: [0; TEXT],
        length: 0,
    };

    /// Keeps the start of a text, up to the first NUL or line end.
    pub(crate) fn set(&mut self, text: &[u8]) {
        let end = text
            .iter()
            .position(|&byte| byte == 0 || byte == b'\n')
            .unwrap_or(text.len());
        self.length = 0;
        self.add(&text[..end]);
    }

    /// Appends as much as there is room for; line ends become blanks.
    pub(crate) fn add(&mut self, text: &[u8]) {
        for &byte in text {
            if let Some(place) = self.bytes.get_mut(self.length) {
                *place = if byte == b'\n' { b' ' } else { byte };
                self.length += 1;
            }
        }
    }

    /// Appends a number.
    pub(crate) fn add_number(&mut self, number: u32) {
        let mut digits = [0; 10];
        let (mut start, mut rest) = (digits.len(), number);
        loop {
            start -= 1;
            digits[start] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.add(&digits[start..]);
    }

    fn get(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Performs the operations in the child, in the namespaces that the clone made; does not return.
pub(crate) fn run(birth: &Birth<'_>, channel: BorrowedFd<'_>, clock: Option<&Clock>) -> ! {
    let ops = birth.ops;
    signal::reset();
    // Files made on the way get exactly the modes given for them, whatever the caller's umask is.
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    let mut registers = Registers {
        channel,
        conversation: None,
        root: None,
        beneath: None,
        proc: None,
        own_proc: None,
        devpts: None,
        null: None,
        empty: None,
        idmap: None,
        tree: None,
        shares: false,
        fresh: None,
        terminal: None,
        brought: None,
        demoted: false,
        text: Text::EMPTY,
    };
    if let Some(Err(errno)) = birth.seal.map(Sealing::perform) {
        registers
            .text
            .set(b"this program's own file could not be kept out of reach");
        report(b'F', &registers, 0, errno);
        exit(125);
    }
    for (index, op) in ops.iter().enumerate() {
        if let Op::Exec(_) = op
            && let Some(clock) = clock
        {
            clock.mark(index); // an exec that succeeds never returns to be marked
        }
        let done = match op {
            Op::Pid1(how) => pid1::split(how, &ops[index + 1..], &mut registers),
            Op::AwaitStart(how) => start::wait(how, &ops[index + 1..], &mut registers),
            Op::Park(how) => park::wait(how, &mut registers),
            Op::CloseFrom(first) => close_from(*first, &ops[index + 1..], &registers),
            op => apply(op, &mut registers),
        };
        match done {
            Ok(()) if std::mem::take(&mut registers.demoted) => report(b'W', &registers, index, Errno::INVAL),
            Ok(()) => {}
            Err(errno) if can_do_without(op, errno) => report(b'W', &registers, index, errno),
            Err(errno) => {
                let brought = registers.brought.is_some() && matches!(op, Op::Exec(_));
                let place = if brought { Event::PROGRAM } else { index };
                report(b'F', &registers, place, errno);
                exit(exit_code(op, errno));
            }
        }
        if let Some(clock) = clock {
            clock.mark(index);
        }
    }
    exit(125)
}

/// Performs one operation.
pub(crate) fn apply(op: &Op, registers: &mut Registers<'_>) -> Result<(), Errno> {
    match op {
        Op::Gate => gate(registers),
        Op::Knock => rustix::net::send(registers.channel, b"K", SendFlags::NOSIGNAL).map(drop),
        Op::MapOneId(maps) => identity::map_one_id(*maps),
        Op::Join(namespace) => namespace.join(),
        Op::Unshare(flags) => identity::unshare(*flags),
        Op::DieWithParent => {
            prctl::die_with_parent()?;
            parent_is_there(registers.channel)
        }
        Op::Propagation(propagation) => switch::set_propagation(*propagation, true, registers),
        Op::HolderPropagation { path, propagation } => switch::set_holder(path, *propagation),
        Op::RootPropagation {
            propagation,
            recursive,
        } => switch::set_propagation(*propagation, *recursive, registers),
        Op::NewTime(offsets) => namespace::new_time(offsets),
        Op::SetIds { uid, gid } => identity::set_ids(*uid, *gid),
        Op::Unmount(path) => switch::unmount(path),
        Op::CopyTree(tree) => copy::copy_tree(tree),
        Op::RemoveTree(path) => removal::remove_tree_at(path),
        Op::Mount(mount) => mount::mount(mount, registers),
        Op::SetAside => mount::set_aside(registers),
        Op::Remount { path, attributes } => mount::remount(path, attributes, registers),
        Op::MakeDir { path, mode } => root::make_dir(registers.root()?, path, *mode).map(drop),
        Op::Symlink { text, path, replace } => fresh::symlink(registers, text, path, *replace),
        Op::Device(node) => node::make(node, registers),
        Op::File { path, mode, content } => root::write(registers.root()?, path, *mode, content),
        Op::Mask(path) => cover::mask(path, registers),
        Op::ReadOnly(path) => cover::read_only(path, registers),
        Op::Proc {
            path,
            value,
            optional,
        } => match root::write_proc(registers, path, value) {
            Err(_) if *optional => Ok(()),
            other => other,
        },
        Op::LowerOomScore(score) => root::write_proc(registers, c"self/oom_score_adj", score),
        Op::LoopbackUp => identity::loopback_up(),
        Op::HostName(name) => rustix::system::sethostname(name.to_bytes()),
        Op::DomainName(name) => rustix::system::setdomainname(name.to_bytes()),
        Op::Console { size, owner, plain } => console::open((*size, *owner, *plain), registers),
        Op::Pivot => switch::pivot(registers),
        Op::MoveRoot => switch::move_root(registers),
        Op::Chroot => switch::chroot(registers),
        Op::NoStdin => console::no_stdin(),
        Op::NoOutput { number } => console::put_null(*number),
        Op::Stdio { fd, number } => console::put(fd.as_fd(), *number),
        Op::Rlimit { resource, soft, hard } => rlimit::set(*resource, *soft, *hard),
        Op::Umask(mask) => identity::set_umask(*mask),
        Op::Hide => prctl::set_dumpable(false),
        Op::Scheduler(attributes) => schedule::set_scheduler(attributes),
        Op::IoPriority(priority) => schedule::set_io_priority(*priority),
        Op::Personality(personality) => schedule::set_personality(*personality),
        Op::MemoryPolicy(policy) => schedule::set_memory_policy(policy),
        Op::Affinity(mask) => schedule::set_affinity(mask),
        Op::Keyring {
            name, permissions, ..
        } => schedule::join_keyring(name, *permissions),
        Op::Session => console::session(registers),
        Op::Bounding(keep) => identity::limit_bounding(*keep),
        Op::Privilege(privilege) => identity::set(privilege, registers.listens()),
        Op::WorkingDir(path) => root::working_dir(path),
        Op::Exec(exec) => Err(identity::exec(exec, registers)),
        Op::HoldProc => root::hold_proc(registers),
        Op::Descend { first_closed } => descend::go_on(*first_closed, registers),
        Op::JoinProcess(how) => join::join(how, registers),
        Op::Terminal { size, owner, plain } => join::terminal((*size, *owner, *plain), registers),
        Op::Ready => start::tell_ready(registers.channel),
        Op::Hook(how) => hook::run(how, registers),
        // The loop in `run` performs these.
        Op::Pid1(_) | Op::AwaitStart(_) | Op::Park(_) | Op::CloseFrom(_) => Err(Errno::INVAL),
    }
}

impl Registers<'_> {
    /// Returns the container's root; a list that uses it before mounting it is wrong.
    pub(crate) fn root(&self) -> Result<BorrowedFd<'_>, Errno> {
        self.root.as_ref().map(AsFd::as_fd).ok_or(Errno::BADF)
    }

    /// Returns the channel that is listened to: the conversation with the command that starts the container, once
    /// there is one.
    pub(crate) fn listens(&self) -> BorrowedFd<'_> {
        self.conversation.as_ref().map_or(self.channel, AsFd::as_fd)
    }
}

/// True if the container can do without the operation: each user has a limited number of keys, and every container's
/// keyring counts as one; and not every user may lower a process's `oom_score_adj`.
fn can_do_without(op: &Op, errno: Errno) -> bool {
    matches!(
        (op, errno),
        (Op::Keyring { optional: true, .. }, Errno::DQUOT) | (Op::LowerOomScore(_), Errno::ACCESS)
    )
}

/// Returns 127 and 126 as shells do, in case the parent is no longer there to translate.
fn exit_code(op: &Op, errno: Errno) -> i32 {
    match (op, errno) {
        (Op::Exec(_) | Op::AwaitStart(_), Errno::NOENT) => 127,
        (Op::Exec(_) | Op::AwaitStart(_), _) => 126,
        _ => 125,
    }
}

fn gate(registers: &mut Registers<'_>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut letter = [0u8; LETTER];
    let length = loop {
        let mut slices = [IoSliceMut::new(&mut letter)];
        match rustix::net::recvmsg(
            registers.channel,
            &mut slices,
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        ) {
            Err(Errno::INTR) => {}
            Ok(message) => break message.bytes,
            Err(errno) => return Err(errno),
        }
    };
    if length != letter.len() {
        return Err(Errno::PIPE);
    }
    let [_, has_idmap, has_tree, has_network] = letter;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut fds) = message {
            if has_idmap == 1 {
                registers.idmap = fds.next();
            }
            if has_tree == 1 {
                registers.tree = fds.next();
            }
            if has_network == 1
                && let Some(network) = fds.next()
            {
                join::set_namespaces(network.as_fd(), libc::CLONE_NEWNET as u32)?;
            }
            for tasks in fds {
                registers.demoted |= enter_cgroup(tasks.as_fd())?;
            }
        }
    }
    Ok(())
}

/// Moves this process into a v1 cgroup; true if it had to give up a real-time policy for that.
///
/// The `cpu` controller takes no real-time process where `cpu.rt_runtime_us` is 0, as it is in every new group. The
/// group cannot be given time of its own: that would come out of the rest that the parent has, which on most machines
/// is 0, and without RT_GROUP_SCHED the file does not exist. runc fails here. Under docker the caller's policy never
/// reaches the container, whose processes are the daemon's children; a container of tote gets the same result.
fn enter_cgroup(tasks: BorrowedFd<'_>) -> Result<bool, Errno> {
    match rustix::io::write(tasks, b"0") {
        Err(Errno::INVAL) if schedule::is_real_time() => {
            schedule::leave_real_time()?;
            rustix::io::write(tasks, b"0").map(|_| true)
        }
        other => other.map(|_| false),
    }
}

/// Fails if the parent died before PR_SET_PDEATHSIG was set: then no signal comes, but the parent's end of the socket
/// is closed.
fn parent_is_there(channel: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut poll = [rustix::event::PollFd::new(
        &channel,
        rustix::event::PollFlags::empty(),
    )];
    let now = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    match rustix::event::poll(&mut poll, Some(&now))? {
        0 => Ok(()),
        _ => Err(Errno::PIPE),
    }
}

fn report(kind: u8, registers: &Registers<'_>, op: usize, errno: Errno) {
    let text = registers.text.get();
    let mut message = [0; HEADER + TEXT];
    message[0] = kind;
    message[1..5].copy_from_slice(&(op as u32).to_ne_bytes());
    message[5..9].copy_from_slice(&errno.raw_os_error().to_ne_bytes());
    message[HEADER..HEADER + text.len()].copy_from_slice(text);
    // If this fails, the parent is gone and no process needs the report.
    best_effort(rustix::net::send(
        registers.listens(),
        &message[..HEADER + text.len()],
        SendFlags::NOSIGNAL,
    ));
}

/// Closes every descriptor from this number on that no later operation needs. Close-on-exec alone would be too late:
/// execve(2) looks the program up while all of them are open, and `/proc/self/fd/N/..` is a path of the host
/// (CVE-2024-21626).
fn close_from(first: u32, rest: &[Op], registers: &Registers<'_>) -> Result<(), Errno> {
    let has = |wanted: fn(&Op) -> bool| rest.iter().any(wanted);
    // The container's own descriptors stay open if a hook or a parked process needs them afterwards.
    let goes_on = has(|op| matches!(op, Op::Park(_) | Op::Hook(_)));
    let own = [&registers.root, &registers.devpts].map(|own| own.as_ref().filter(|_| goes_on));
    let kept = || {
        let of_steps = rest.iter().flat_map(|op| match op {
            Op::Hook(hook) => [Some(hook.input.as_raw_fd()), Some(hook.output.as_raw_fd())],
            Op::AwaitStart(gate) => [Some(gate.listener.as_raw_fd()), None],
            Op::Park(park) => [Some(park.listener.as_raw_fd()), None],
            Op::Join(namespace) => [Some(namespace.fd.as_raw_fd()), None],
            Op::Exec(exec) => [exec.file.as_ref().map(AsRawFd::as_raw_fd), None],
            _ => [None, None],
        });
        let here = [&registers.terminal, &registers.conversation].map(Option::as_ref);
        let here = here.into_iter().chain(own).flatten().map(AsRawFd::as_raw_fd);
        let channel = registers.channel.as_raw_fd();
        of_steps.flatten().chain(here).chain([channel])
    };
    // SAFETY: with CLOSE_RANGE_CLOEXEC nothing is closed now, and no descriptor is used after the exec that follows.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) } == -1 {
        return Err(crate::birth::errno());
    }
    start::close_others(first, kept)
}

/// Calls exit_group(2), without destructors and exit handlers, which belong to the parent.
pub(crate) fn exit(code: i32) -> ! {
    // SAFETY: _exit takes any number and does not return.
    unsafe { libc::_exit(code) }
}

/// Ignores the result of a call that may fail without harm: the line that calls it says why.
pub fn best_effort<T, E>(_result: Result<T, E>) {}
