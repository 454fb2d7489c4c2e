//! A process that joins a container without a worker: process 1 makes it, so that for a short one no process is woken in between. An
//! emulated processor empties its table of addresses at each change to a process with other memory.

use crate::error::GuestError;
use crate::report::Report;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Pid;
use std::time::{Duration, Instant};
use tote_channel::End;
use tote_runtime::{Entering, RuntimeError};
use tote_sandbox::Plan;
use tote_sys::{ExitStatus, Op};

/// Time for which process 1 does not ask whether the program has begun: an end that comes within it says so as well.
const MOMENT: Duration = Duration::from_millis(10);

/// The agent's ends of the streams.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) input: Option<OwnedFd>,
    pub(crate) outputs: [OwnedFd; 2],
}

/// A process that process 1 has made.
#[derive(Debug)]
pub(crate) struct Entrant {
    entering: Entering,
    began: Instant,
    /// True once its program is known to have begun, or to have failed.
    is_known: bool,
}

/// Returns the plan in these bytes if its process needs no worker: one that joins the namespaces of another, without a terminal and
/// without tools.
pub(crate) fn plan(bytes: &[u8], joined: &OwnedFd) -> Option<Plan> {
    let joined = joined.try_clone().ok()?;
    // A worker says what is wrong with something else.
    let plan = Plan::from_bytes(bytes, vec![joined]).ok()?;
    Entering::is_possible(&plan).then_some(plan)
}

/// Pipes for the outputs of a process, which may be there before it is asked for.
#[derive(Debug)]
pub(crate) struct Outputs {
    ours: [OwnedFd; 2],
    theirs: [OwnedFd; 2],
}

impl Outputs {
    pub(crate) fn new() -> Result<Self, GuestError> {
        let ((output, their_output), (errors, their_errors)) = (pipe()?, pipe()?);
        let ours = [output, errors];
        ours.iter().try_for_each(is_asked)?;
        Ok(Self {
            ours,
            theirs: [their_output, their_errors],
        })
    }
}

fn pipe() -> Result<(OwnedFd, OwnedFd), GuestError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(GuestError::kernel("make", "a pipe"))
}

/// Has calls on a pipe return at once: the agent asks when something is there.
fn is_asked(end: &OwnedFd) -> Result<(), GuestError> {
    rustix::io::ioctl_fionbio(end, true).map_err(GuestError::kernel("change", "a pipe"))
}

/// Makes the process; an error has its exit code.
pub(crate) fn begin(
    mut plan: Plan,
    outputs: Option<Outputs>,
    warn: &mut dyn FnMut(String),
) -> Result<(Entrant, Streams), (u8, String)> {
    let streams = streams(&mut plan, outputs).map_err(|error| (125, tote_sys::chain(&error)))?;
    let entering = Entering::begin(plan, warn);
    // The new process has hidden the memory that it shared.
    tote_sys::best_effort(tote_sys::set_dumpable(true));
    let entrant = Entrant {
        entering: entering.map_err(|error| failed(&error))?,
        began: Instant::now(),
        is_known: false,
    };
    Ok((entrant, streams))
}

/// Makes the streams, and has the process take its ends.
fn streams(plan: &mut Plan, outputs: Option<Outputs>) -> Result<Streams, GuestError> {
    let Outputs {
        ours,
        theirs: [output, errors],
    } = outputs.map_or_else(Outputs::new, Ok)?;
    let has_input = !plan.ops.iter().any(|op| matches!(op, Op::NoStdin));
    let (their_input, input) = has_input.then(pipe).transpose()?.unzip();
    input.iter().try_for_each(is_asked)?;
    let theirs = (0..).zip([their_input, Some(output), Some(errors)]);
    let ops: Vec<Op> = theirs
        .filter_map(|(number, fd)| Some(Op::Stdio { fd: fd?, number }))
        .collect();
    plan.ops.splice(0..0, ops);
    Ok(Streams { input, outputs: ours })
}

/// Returns docker's exit code of exec, and the reason.
fn failed(error: &RuntimeError) -> (u8, String) {
    let code = if error.exit_code() == 127 { 127 } else { 126 };
    (code, tote_sys::chain(error))
}

impl Entrant {
    /// Returns its pidfd.
    pub(crate) fn process(&self) -> BorrowedFd<'_> {
        self.entering.process().1
    }

    /// Returns its pid.
    pub(crate) fn pid(&self) -> Option<Pid> {
        Pid::from_raw(self.entering.process().0.cast_signed())
    }

    /// Returns the time for which process 1 does not ask yet whether the program has begun.
    pub(crate) fn moment(&self) -> Option<Duration> {
        let left = MOMENT.saturating_sub(self.began.elapsed());
        (!self.is_known && !left.is_zero()).then_some(left)
    }

    /// Returns the descriptor by which the program's begin is heard, when it is time to ask.
    pub(crate) fn channel(&self) -> Option<BorrowedFd<'_>> {
        (!self.is_known && self.moment().is_none()).then(|| self.entering.channel())
    }

    /// Returns whether the program has begun, once that is known.
    pub(crate) fn outcome(&mut self) -> Option<Result<(), Report>> {
        let outcome = self.entering.outcome()?;
        self.is_known = true;
        Some(outcome.map_err(|error| {
            self.entering.kill();
            let (code, reason) = failed(&error);
            Report::Failed(code, reason)
        }))
    }

    /// Returns the report about the end of the process, with this status.
    pub(crate) fn end(&mut self, status: ExitStatus) -> Report {
        let outcome = if self.is_known { None } else { self.outcome() };
        if let Some(Err(failed)) = outcome {
            return failed;
        }
        let number = |number: i32| (number & 0xff) as u8;
        Report::Ended(match status {
            ExitStatus::Code(code) => End::Code(number(code)),
            ExitStatus::Signal(signal) => End::Signal(number(signal)),
        })
    }
}
