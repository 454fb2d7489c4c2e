//! The child's loop. Nothing here or below allocates, locks, formats or panics.

use crate::event::HEADER;
use crate::outcome::{best_effort, errno, exit};
use crate::registers::Registers;
use crate::text::TEXT;
use crate::timings::Clock;
use crate::{
    Birth, Errno, Event, Op, Sealing, console, copy, cover, descend, fill, fresh, gate, hook, identity,
    inherited, join, mount, namespace, node, park, pid1, prctl, procfs, removal, rlimit, root, schedule,
    signal, socket, start, switch,
};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::Mode;
use rustix::net::SendFlags;
use std::ffi::CStr;

/// Performs the operations in the child, in the namespaces that the clone made; does not return.
pub(crate) fn run(birth: &Birth<'_>, channel: BorrowedFd<'_>, clock: Option<&Clock>) -> ! {
    let (ops, seal) = (birth.ops, birth.seal);
    signal::reset();
    // Files made on the way get exactly the modes given for them, whatever the caller's umask is.
    rustix::process::umask(Mode::WGRP | Mode::WOTH);
    let mut registers = Registers::new(channel);
    registers.parcels = birth.parcels;
    if let Some(Err(errno)) = seal.map(Sealing::perform) {
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
            Op::Pid1(how) => pid1::split(how, &ops[index + 1..], &registers),
            Op::FindProgram => start::find_program(&ops[index + 1..]),
            Op::CloseFrom(first) => close_from(*first, &ops[index + 1..], &registers),
            Op::Descend { first_closed } => descend(*first_closed, &ops[index + 1..], &registers),
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
fn apply(op: &Op, registers: &mut Registers<'_>) -> Result<(), Errno> {
    match op {
        Op::Gate => gate::pass(registers),
        Op::Knock => rustix::net::send(registers.channel, b"K", SendFlags::NOSIGNAL).map(drop),
        Op::MapOneId(maps) => identity::map_one_id(*maps),
        Op::Join(namespace) => namespace.join(),
        Op::Unshare(flags) => identity::unshare(*flags),
        Op::DieWithParent => prctl::die_with_parent().and_then(|()| parent_is_there(registers.channel)),
        Op::Propagation(propagation) => switch::set_propagation(*propagation, true, registers),
        Op::HolderPropagation { path, propagation } => switch::set_holder(path, *propagation),
        Op::RootPropagation {
            propagation,
            recursive,
        } => switch::set_propagation(*propagation, *recursive, registers),
        Op::NewTime(offsets) => namespace::new_time(offsets),
        Op::SetIds { uid, gid } => identity::set_ids(*uid, *gid),
        Op::BecomeRoot => identity::become_root(),
        Op::Unmount(path) => switch::unmount(path),
        Op::CopyTree(tree) => copy::copy_tree(tree),
        Op::RemoveTree(path) => removal::remove_tree_at(path),
        Op::OwnEmpty(path) => identity::own_empty(path),
        Op::Fill(op) => fill::fill(op, registers),
        Op::Mount(mount) => mount::mount(mount, registers),
        Op::SetAside => mount::set_aside(registers),
        Op::Remount { path, attributes } => mount::remount(path, attributes, registers),
        Op::MakeDir { path, mode } => root::make_dir(registers.root()?, path, *mode).map(drop),
        Op::Symlink { text, path, replace } => symlink(registers, text, path, *replace),
        Op::Device(node) => node::make(node, registers),
        Op::File { path, mode, content } => root::write(registers.root()?, path, *mode, content),
        Op::Mask(path) => cover::mask(path, registers),
        Op::ReadOnly(path) => cover::read_only(path, registers),
        Op::Proc {
            path,
            value,
            optional,
        } => match procfs::write_proc(registers, path, value) {
            Err(_) if *optional => Ok(()),
            other => other,
        },
        Op::LowerOomScore(score) => procfs::write_proc(registers, c"self/oom_score_adj", score),
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
        Op::Privilege(privilege) => identity::set(privilege, registers.listens()),
        Op::WorkingDir(path) => root::working_dir(path),
        Op::Exec(exec) => Err(identity::exec(exec, registers)),
        Op::HoldProc => procfs::hold_proc(registers),
        Op::JoinProcess(how) => join::join(how, registers),
        Op::Terminal { size, owner, plain } => join::terminal((*size, *owner, *plain), registers),
        Op::Ready => socket::tell_ready(registers.channel),
        Op::Hook(how) => hook::run(how, registers),
        Op::DieOfSignals => {
            signal::die_of_signals();
            Ok(())
        }
        Op::AwaitStart(how) => start::wait(how, registers),
        Op::Park(how) => park::wait(how, registers),
        // The loop in `run` performs these.
        Op::Pid1(_) | Op::FindProgram | Op::CloseFrom(_) | Op::Descend { .. } => Err(Errno::INVAL),
    }
}

/// Makes a symbolic link inside, by one call where possible; an existing entry stays unless it is to be replaced.
fn symlink(registers: &Registers<'_>, text: &CStr, path: &CStr, replace: bool) -> Result<(), Errno> {
    if fresh::symlink(registers.fresh.as_ref(), text, path)? {
        return Ok(());
    }
    root::symlink(registers.root()?, text, path, replace)
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
        (Op::Exec(_) | Op::FindProgram, Errno::NOENT) => 127,
        (Op::Exec(_) | Op::FindProgram, _) => 126,
        _ => 125,
    }
}

/// Fails if the parent died before PR_SET_PDEATHSIG was set: then no signal comes, but the parent's end of the socket
/// is closed.
fn parent_is_there(channel: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut poll = [rustix::event::PollFd::new(
        &channel,
        rustix::event::PollFlags::empty(),
    )];
    match crate::Wait::now().poll(&mut poll)? {
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
    // SAFETY: with CLOSE_RANGE_CLOEXEC nothing is closed now, and no descriptor is used after the exec that follows.
    if unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) } == -1 {
        return Err(errno());
    }
    inherited::close_others(first, || needed(rest, registers))
}

/// Goes on in a child of this process's parent, which keeps what later operations need.
fn descend(first_closed: u32, rest: &[Op], registers: &Registers<'_>) -> Result<(), Errno> {
    inherited::close_others(first_closed, || needed(rest, registers))?;
    descend::go_on(registers)
}

/// Returns the descriptors that these operations need.
fn needed<'a>(rest: &'a [Op], registers: &'a Registers<'_>) -> impl Iterator<Item = i32> + 'a {
    let of_steps = rest.iter().flat_map(|op| match op {
        Op::Hook(hook) => [Some(hook.input.as_raw_fd()), Some(hook.output.as_raw_fd())],
        Op::AwaitStart(gate) => [Some(gate.listener.as_raw_fd()), None],
        Op::Park(park) => [Some(park.listener.as_raw_fd()), None],
        Op::Stdio { fd, .. } => [Some(fd.as_raw_fd()), None],
        Op::Join(namespace) => [Some(namespace.fd.as_raw_fd()), None],
        Op::Exec(exec) => [exec.file.as_ref().map(AsRawFd::as_raw_fd), None],
        _ => [None, None],
    });
    // A parked process makes a terminal and a directory inside when its program comes.
    let parks = rest.iter().any(|op| matches!(op, Op::Park(_)));
    let own = [&registers.root, &registers.devpts].map(|own| own.as_ref().filter(|_| parks));
    let here = [&registers.terminal, &registers.conversation].map(Option::as_ref);
    let here = here.into_iter().chain(own).flatten().map(AsRawFd::as_raw_fd);
    of_steps
        .flatten()
        .chain(here)
        .chain([registers.channel.as_raw_fd()])
}
