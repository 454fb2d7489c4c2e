//! A worker: the parent of a container, as `tote run` is on a host.

use crate::report::Report;
use rustix::fd::{AsFd as _, OwnedFd};
use std::cell::RefCell;
use tote_channel::End;
use tote_runtime::{Foreground, Observer, Outcome, Parting, Stdio};
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

/// Performs a plan to its end; the exit code of this process says nothing.
pub(crate) fn work(plan: &[u8], has_terminal: bool, ends: Ends) -> u8 {
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
    let plan = match Plan::from_bytes(plan, Vec::new()) {
        Ok(plan) => plan,
        Err(error) => {
            tell(&Report::Failed(125, tote_sys::chain(&error)));
            return 0;
        }
    };
    tell(&perform(&plan, has_terminal, &tell));
    0
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
        follow_size: false,
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
