//! A worker: the parent of a container's first process, as `tote run` is on a host, or of one that joins it, as `tote exec` is.

use crate::disks::{AT_DISKS, DisksFn};
use crate::member::{self, Member};
use crate::processes::{PROCESSES, list, number};
use crate::report::Report;
use crate::tools::{Mounted, SUPERBLOCK, SWAP, WITH_TOOLS, make_way};
use crate::waiting;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::process::getpid;
use std::cell::RefCell;
use std::io::Write as _;
use std::time::Duration;
use tote_channel::End;
use tote_runtime::{
    Attendance, Entry, Foreground, Namespaces, Observer, Outcome, Parting, Reception, RuntimeError, Stdio,
    attend,
};
use tote_sandbox::Plan;
use tote_sys::{ComingNetwork, Wait, best_effort};

/// Time for which the report that a process has begun waits for its end.
const MOMENT: Duration = Duration::from_millis(3);

/// Descriptors of a worker.
#[derive(Debug)]
pub(crate) struct Ends {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    pub(crate) errors: OwnedFd,
    pub(crate) reports: OwnedFd,
}

/// Work to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work<'a> {
    /// The plan in its byte form.
    pub(crate) plan: &'a [u8],
    /// True if standard input is a terminal, and the process has one.
    pub(crate) is_terminal: bool,
    /// Pidfd of the process that the new one joins: the plan's only descriptor.
    pub(crate) joined: Option<BorrowedFd<'a>>,
    /// Network namespace for a container that is to have one of its own.
    pub(crate) network: Option<&'a ComingNetwork>,
    pub(crate) errands: Errands,
}

/// Does as the bytes say, between the standard streams and the container with this root. An error is one line.
pub type RootFn = fn(&[u8], OwnedFd) -> Result<(), String>;

/// Functions that do what is asked for in the place of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Errands {
    /// Does what [`AT_ROOT`] asks for.
    pub at_root: RootFn,
    /// Does what [`AT_DISKS`](crate::AT_DISKS) asks for.
    pub at_disks: DisksFn,
}

/// Bytes before the description of something to be done with the container's root, in the place of a plan.
pub const AT_ROOT: &[u8] = b"tote at root 1\n";

/// Performs a plan to its end; the exit code of this process says nothing.
pub(crate) fn work(asked: &Work<'_>, ends: Ends) -> u8 {
    let reports = ends.reports;
    let tell_all = |all: &[Report]| {
        let lines: String = all.iter().map(Report::line).collect();
        // An agent that is gone has ended the machine.
        best_effort(rustix::io::write(reports.as_fd(), lines.as_bytes()));
    };
    let tell = |report: &Report| tell_all(std::slice::from_ref(report));
    let connected = rustix::stdio::dup2_stdin(&ends.input)
        .and_then(|()| rustix::stdio::dup2_stdout(&ends.output))
        .and_then(|()| rustix::stdio::dup2_stderr(&ends.errors));
    drop((ends.input, ends.output, ends.errors));
    if let Err(errno) = connected {
        tell(&Report::Failed(
            125,
            format!("cannot connect the streams: {errno}"),
        ));
        return 0;
    }
    if let Some(wanted) = asked.plan.strip_prefix(AT_DISKS) {
        tell(&crate::disks::visit(wanted, asked.errands.at_disks, &tell));
        return 0;
    }
    if let Some(done) = asked.joined.and_then(|joined| errand(asked, joined, &tell)) {
        tell(&done);
        return 0;
    }
    if let (Some(joined), Some(member)) = (asked.joined, member::parse(asked.plan)) {
        tell(&settled(&member, joined).map_or_else(
            |reason| Report::Failed(125, reason),
            |plan| perform(&plan, asked, &tell),
        ));
        return 0;
    }
    if let Some((program, plan)) = waiting::parse(asked.plan) {
        let plan = read(plan, None).and_then(|mut plan| {
            waiting::replace(&mut plan, program)?;
            Ok(plan)
        });
        tell(&plan.map_or_else(
            |reason| Report::Failed(125, reason),
            |plan| perform(&plan, asked, &tell),
        ));
        return 0;
    }
    let plan = with_tools(asked).and_then(|(bytes, tools)| {
        // A session joins its namespaces, and brings its tree along.
        let count = 1 + usize::from(tools.is_some());
        Ok((read(bytes, asked.joined.map(|joined| (joined, count)))?, tools))
    });
    let last = match (plan, asked.joined) {
        (Err(reason), _) => vec![Report::Failed(125, reason)],
        (Ok((plan, _)), None) => vec![perform(&plan, asked, &tell)],
        (Ok((plan, tools)), Some(joined)) => match enter((&plan, tools), asked.is_terminal, joined, &tell) {
            Ok(last) => last,
            Err((_, true)) => vec![Report::Ended(End::Signal(9))],
            Err((error, false)) => {
                // Docker's codes of exec.
                let code = if error.exit_code() == 127 { 127 } else { 126 };
                vec![Report::Failed(code, tote_sys::chain(&error))]
            }
        },
    };
    tell_all(&last);
    0
}

/// Makes this process the host of a member; returns the member's plan.
fn settled(member: &Member<'_>, joined: BorrowedFd<'_>) -> Result<Plan, String> {
    member.settle(joined).map_err(|error| tote_sys::chain(&error))?;
    read(member.plan, member.joins.then_some((joined, 1)))
}

/// Reads a plan, whose only descriptor is the process that it joins, this number of times.
fn read(plan: &[u8], joined: Option<(BorrowedFd<'_>, usize)>) -> Result<Plan, String> {
    let held = joined
        .into_iter()
        .flat_map(|(joined, count)| std::iter::repeat_n(joined, count));
    let held = held
        .map(|joined| joined.try_clone_to_owned())
        .collect::<Result<_, _>>();
    let held = held.map_err(|error| error.to_string())?;
    Plan::from_bytes(plan, held).map_err(|error| tote_sys::chain(&error))
}

/// Does what is asked for instead of a plan, about the container with this first process.
fn errand(asked: &Work<'_>, joined: BorrowedFd<'_>, tell: &dyn Fn(&Report)) -> Option<Report> {
    let (swaps, wanted) = match asked.plan.strip_prefix(SWAP) {
        Some(rest) => (true, rest),
        None => (false, asked.plan),
    };
    if wanted != PROCESSES && !wanted.starts_with(AT_ROOT) {
        return None;
    }
    // Signals are for this process: a host that has gone has it killed.
    tell(&Report::Born(getpid().as_raw_pid()));
    if swaps && let Err(reason) = make_way(&|| tell(&Report::Runs)) {
        return Some(Report::Failed(126, reason));
    }
    if wanted == PROCESSES {
        tell(&Report::Runs);
        let written = std::io::stdout().write_all(&list(joined));
        return Some(Report::Ended(End::Code(u8::from(written.is_err()))));
    }
    let wanted = wanted.strip_prefix(AT_ROOT)?;
    let pid = number(joined).and_then(|pid| u32::try_from(pid).ok());
    let root = tote_runtime::root_of(pid.unwrap_or_default(), joined);
    let done = root.map_err(|errno| format!("cannot open the root of the container: {errno}"));
    Some(
        match done.and_then(|root| (asked.errands.at_root)(wanted, root)) {
            Ok(()) => Report::Ended(End::Code(0)),
            Err(reason) if swaps => {
                // Something that runs does not fail any more, but it may say why it ends.
                best_effort(std::io::stderr().write_all(reason.as_bytes()));
                Report::Ended(End::Code(1))
            }
            Err(reason) => Report::Failed(1, reason),
        },
    )
}

/// Returns the plan itself, and mounts the tools if it needs them.
fn with_tools<'a>(asked: &Work<'a>) -> Result<(&'a [u8], Option<Mounted>), String> {
    let Some(rest) = asked.plan.strip_prefix(WITH_TOOLS) else {
        return Ok((asked.plan, None));
    };
    let (superblock, plan) = rest.split_at_checked(SUPERBLOCK).ok_or("the plan has no tools")?;
    Ok((plan, Some(Mounted::of(superblock)?)))
}

/// Runs a process that joins another one, and returns the last reports about it; an error comes with whether its program has begun.
fn enter(
    (plan, tools): (&Plan, Option<Mounted>),
    is_terminal: bool,
    init: BorrowedFd<'_>,
    tell: &dyn Fn(&Report),
) -> Result<Vec<Report>, (RuntimeError, bool)> {
    let early = |error| (error, false);
    let attendance = Attendance::new(Stdio::default()).map_err(early)?;
    let mut attendance = attendance.with_input(is_terminal, None);
    let entry = Entry {
        plan,
        cgroup: None,
        init,
        // The plan names them, and root of a guest needs no other right.
        namespaces: Namespaces {
            flags: 0,
            user: false,
        },
        // It is this worker's only process, and the worker has no use for its environment.
        shares_memory: true,
        deadline: None,
    };
    let mut reception = Reception {
        console: &mut |master| Ok(attendance.take_console(master)?),
        listener: &mut |_, _| Err(RuntimeError::Listener.into()),
        warn: &mut |text| tell(&Report::Warning(text)),
    };
    let child = tote_runtime::exec(entry, &mut reception).map_err(early)?;
    drop(tools);
    let mut last = vec![Report::Began(child.pid.cast_signed())];
    // A terminal may get another size.
    if is_terminal || !ends_soon(&child.pidfd) {
        last.drain(..).for_each(|began| tell(&began));
    }
    let outcome = attend(attendance, &child.pidfd).map_err(|error| (error, true))?;
    last.push(Report::Ended(end(outcome)));
    Ok(last)
}

/// True if the process ends within a moment: both reports about it wake the agent and the host once then.
fn ends_soon(process: &OwnedFd) -> bool {
    Wait::within(MOMENT).readable(process.as_fd()) == Ok(true)
}

fn perform(plan: &Plan, asked: &Work<'_>, tell: &dyn Fn(&Report)) -> Report {
    let runs = RefCell::new(false);
    let observer = Observer {
        born: &mut |pid, _| tell(&Report::Born(pid.cast_signed())),
        runs: &mut || {
            runs.replace(true);
            tell(&Report::Runs);
        },
        warn: &mut |text| tell(&Report::Warning(text)),
        leave: &mut |_, _| Err("a process of a virtual machine cannot be left".to_owned()),
        stays: &mut || {},
    };
    let watched = Foreground {
        plan,
        cgroup: None,
        maps: None,
        network: asked.network,
        stdio: Stdio::default(),
        interactive: asked.is_terminal,
        follow_size: asked.is_terminal,
        timeout: None,
        cpu_time: None,
        asides: Vec::new(),
        guarded: false,
        keys: None,
    };
    match tote_runtime::run(watched, None, observer) {
        Ok(Parting::Ended(ended)) => Report::Ended(end(ended.outcome)),
        Ok(Parting::Left(_)) => Report::Ended(End::Signal(9)),
        Err(_) if *runs.borrow() => Report::Ended(End::Signal(9)),
        Err(error) => Report::Failed(error.exit_code(), tote_sys::chain(&error)),
    }
}

fn end(outcome: Outcome) -> End {
    match outcome {
        Outcome::Exited(code) => End::Code((code & 0xff) as u8),
        Outcome::Signaled(number) => End::Signal((number & 0x7f) as u8),
        // Nothing here has such a limit, or insists.
        Outcome::TimedOut | Outcome::CpuTimeOver | Outcome::OutputOver | Outcome::Insisted => End::Signal(9),
    }
}
