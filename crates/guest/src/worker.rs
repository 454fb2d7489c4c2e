//! A worker: the parent of a container's first process, as `tote run` is on a host, or of one that joins it, as `tote exec` is.

use crate::member;
use crate::processes::{PROCESSES, list, number};
use crate::report::Report;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::cell::RefCell;
use std::io::Write as _;
use tote_channel::End;
use tote_runtime::{
    Attendance, Entry, Foreground, Namespaces, Observer, Outcome, Parting, Reception, RuntimeError, Stdio,
    attend,
};
use tote_sandbox::Plan;
use tote_sys::best_effort;

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
    pub(crate) copy: CopyFn,
}

/// Copies as the bytes say, between the standard streams and the container with this root. An error is one line.
pub type CopyFn = fn(&[u8], OwnedFd) -> Result<(), String>;

/// Bytes before the description of a copy, in the place of a plan.
pub const COPY: &[u8] = b"tote copy 1\n";

/// Performs a plan to its end; the exit code of this process says nothing.
pub(crate) fn work(asked: &Work<'_>, ends: Ends) -> u8 {
    let reports = ends.reports;
    let tell = |report: &Report| {
        // An agent that is gone has ended the machine.
        best_effort(rustix::io::write(reports.as_fd(), report.line().as_bytes()));
    };
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
    if let Some(joined) = asked.joined.filter(|_| asked.plan == PROCESSES) {
        tell(&Report::Runs);
        let written = std::io::stdout().write_all(&list(joined));
        tell(&Report::Ended(End::Code(u8::from(written.is_err()))));
        return 0;
    }
    if let (Some(joined), Some(wanted)) = (asked.joined, asked.plan.strip_prefix(COPY)) {
        let done = copied(wanted, joined, asked.copy);
        tell(&done.map_or_else(
            |reason| Report::Failed(1, reason),
            |()| Report::Ended(End::Code(0)),
        ));
        return 0;
    }
    if let (Some(joined), Some(member)) = (asked.joined, member::parse(asked.plan)) {
        let settled = member.settle(joined).map_err(|error| tote_sys::chain(&error));
        tell(
            &match settled.and_then(|()| read(member.plan, member.joins.then_some(joined))) {
                Ok(plan) => perform(&plan, asked.is_terminal, &tell),
                Err(reason) => Report::Failed(125, reason),
            },
        );
        return 0;
    }
    let plan = read(asked.plan, asked.joined);
    let ended = match (plan, asked.joined) {
        (Err(reason), _) => Report::Failed(125, reason),
        (Ok(plan), None) => perform(&plan, asked.is_terminal, &tell),
        (Ok(plan), Some(joined)) => match enter(&plan, asked.is_terminal, joined, &tell) {
            Ok(outcome) => Report::Ended(end(outcome)),
            Err((_, true)) => Report::Ended(End::Signal(9)),
            Err((error, false)) => {
                // Docker's codes of exec.
                let code = if error.exit_code() == 127 { 127 } else { 126 };
                Report::Failed(code, tote_sys::chain(&error))
            }
        },
    };
    tell(&ended);
    0
}

/// Copies between the standard streams and the container of this process.
fn copied(wanted: &[u8], joined: BorrowedFd<'_>, copy: CopyFn) -> Result<(), String> {
    let pid = number(joined).and_then(|pid| u32::try_from(pid).ok());
    let root = tote_runtime::root_of(pid.unwrap_or_default(), joined);
    let root = root.map_err(|errno| format!("cannot open the root of the container: {errno}"))?;
    copy(wanted, root)
}

/// Reads a plan, whose only descriptor is the process that it joins.
fn read(plan: &[u8], joined: Option<BorrowedFd<'_>>) -> Result<Plan, String> {
    let held = joined.map(|joined| joined.try_clone_to_owned()).transpose();
    let held = held.map_err(|error| error.to_string())?;
    Plan::from_bytes(plan, held.into_iter().collect()).map_err(|error| tote_sys::chain(&error))
}

/// Runs a process that joins another one; an error comes with whether its program has begun.
fn enter(
    plan: &Plan,
    is_terminal: bool,
    init: BorrowedFd<'_>,
    tell: &dyn Fn(&Report),
) -> Result<Outcome, (RuntimeError, bool)> {
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
        deadline: None,
    };
    let mut reception = Reception {
        console: &mut |master| Ok(attendance.take_console(master)?),
        listener: &mut |_, _| Err(RuntimeError::Listener.into()),
        warn: &mut |text| tell(&Report::Warning(text)),
    };
    let child = tote_runtime::exec(entry, &mut reception).map_err(early)?;
    tell(&Report::Born(child.pid.cast_signed()));
    tell(&Report::Runs);
    attend(attendance, &child.pidfd).map_err(|error| (error, true))
}

fn perform(plan: &Plan, has_terminal: bool, tell: &dyn Fn(&Report)) -> Report {
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
        network: None,
        stdio: Stdio::default(),
        interactive: has_terminal,
        follow_size: has_terminal,
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
        Outcome::TimedOut | Outcome::CpuTimeOver | Outcome::Insisted => End::Signal(9),
    }
}
