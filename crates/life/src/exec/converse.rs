//! Process whose streams this process reads and writes: one in a container, the first one of a machine's sandbox, or a copy of this one.

use super::capture::reap;
use super::{Target, Visit};
use crate::EngineError;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs::File;
use std::io::Read as _;
use tote_runtime::RuntimeError;
use tote_sandbox::Plan;
use tote_sys::{Child, Errno, Op, best_effort};

/// Most bytes of its standard error that are kept.
const LONGEST: u64 = 64 << 10;

/// Process that runs, and this end of its streams.
#[derive(Debug)]
pub struct Conversation {
    /// Its standard input, until that has ended.
    pub input: Option<File>,
    /// Its standard output.
    pub output: File,
    errors: File,
    pidfd: OwnedFd,
    /// The process, if a plan has made it.
    child: Option<Child>,
}

/// Starts the planned process; its standard error must be short, because it is read at the end.
pub fn converse(target: Target, plan: Plan) -> Result<Conversation, EngineError> {
    let (their_input, input) = pipe()?;
    let talk = converse_with(target, plan, their_input)?;
    Ok(Conversation {
        input: Some(input.into()),
        ..talk
    })
}

/// Does so with a file for its standard input.
pub fn converse_with(
    target: Target,
    mut plan: Plan,
    their_input: OwnedFd,
) -> Result<Conversation, EngineError> {
    let (ours, [output, errors]) = outputs()?;
    let theirs = [(their_input, 0), (output, 1), (errors, 2)];
    plan.insert_stdio(theirs.map(|(fd, number)| Op::Stdio { fd, number }).into());
    let mut visit = Visit::alone(target, plan, None);
    Conversation::with(visit.start(None, &mut |_| ())?, ours)
}

/// Starts the process that `born` makes of the plan, without input.
pub(crate) fn converse_as(
    plan: &mut Plan,
    born: impl FnOnce(&Plan) -> Result<Child, EngineError>,
) -> Result<Conversation, EngineError> {
    let (ours, [output, errors]) = outputs()?;
    plan.insert_stdio(vec![
        Op::Stdio {
            fd: output,
            number: 1,
        },
        Op::Stdio {
            fd: errors,
            number: 2,
        },
    ]);
    let child = born(plan)?;
    // Their ends would keep the streams from ending.
    plan.ops.retain(|op| !matches!(op, Op::Stdio { .. }));
    Conversation::with(child, ours)
}

/// Starts a copy of this process, which does this and ends with the exit code, or with this process; with `takes_input` it has some. This
/// process must have one thread.
pub(crate) fn converse_apart(
    takes_input: bool,
    work: impl FnOnce() -> u8,
) -> Result<Conversation, EngineError> {
    let ((output, errors), [their_output, their_errors]) = outputs()?;
    let (their_input, input) = if takes_input {
        let (theirs, ours) = pipe()?;
        (theirs, Some(ours))
    } else {
        let nothing = File::open("/dev/null").map_err(EngineError::file("open", "/dev/null"))?;
        (nothing.into(), None)
    };
    let mut ours = Some((input, output, errors));
    let mut theirs = Some([their_input, their_output, their_errors]);
    // process: visitor of a virtual machine
    let forked = tote_sys::fork_worker(|| {
        drop(ours.take());
        let connected = theirs.take().map_or(Err(Errno::BADF), |[input, output, errors]| {
            tote_sys::die_with_parent()?;
            rustix::stdio::dup2_stdin(input)?;
            rustix::stdio::dup2_stdout(output)?;
            rustix::stdio::dup2_stderr(errors)
        });
        connected.map_or(125, |()| work())
    });
    let failed = |source| EngineError::Kernel {
        attempt: "make a process for a conversation",
        source,
    };
    let pid = forked.map_err(failed)?;
    drop(theirs.take());
    let (input, output, errors) = ours.take().ok_or(Errno::CHILD).map_err(failed)?;
    Ok(Conversation {
        input: input.map(File::from),
        output: output.into(),
        errors: errors.into(),
        pidfd: pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?,
        child: None,
    })
}

/// Our ends and theirs of both outputs.
type Outputs = ((OwnedFd, OwnedFd), [OwnedFd; 2]);

fn outputs() -> Result<Outputs, EngineError> {
    let ((output, their_output), (errors, their_errors)) = (pipe()?, pipe()?);
    Ok(((output, errors), [their_output, their_errors]))
}

fn pipe() -> Result<(OwnedFd, OwnedFd), EngineError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|source| EngineError::Kernel {
        attempt: "make a pipe for a process",
        source,
    })
}

impl Conversation {
    fn with(child: Child, (output, errors): (OwnedFd, OwnedFd)) -> Result<Self, EngineError> {
        let pidfd = child.pidfd.as_fd().try_clone_to_owned();
        Ok(Self {
            input: None,
            output: output.into(),
            errors: errors.into(),
            pidfd: pidfd.map_err(EngineError::file("hold", "the process of a conversation"))?,
            child: Some(child),
        })
    }

    /// Kills the process, unless it has ended.
    pub fn kill(&self) {
        best_effort(pidfd_send_signal(&self.pidfd, Signal::KILL));
    }

    /// Sends it the signal of this number.
    pub(crate) fn signal(&self, number: i32) {
        best_effort(tote_sys::send_signal(self.pidfd.as_fd(), number));
    }

    /// Returns the number of the process that a plan has made, and a descriptor of it.
    pub(crate) fn process(&self) -> Result<(u32, OwnedFd), EngineError> {
        let child = self.child.as_ref().ok_or(Errno::CHILD);
        let child = child.map_err(|source| EngineError::Kernel {
            attempt: "find the process of a conversation",
            source,
        })?;
        let pidfd = self.pidfd.try_clone();
        let pidfd = pidfd.map_err(EngineError::file("hold", "the process of a conversation"))?;
        Ok((child.pid, pidfd))
    }

    /// Waits for the end; returns docker's exit code, and what came by standard error.
    pub fn finish(self) -> Result<(u8, Vec<u8>), EngineError> {
        // A process whose output is not read would wait for that.
        drop((self.input, self.output));
        let mut said = Vec::new();
        let read = self.errors.take(LONGEST).read_to_end(&mut said);
        read.map_err(|error| RuntimeError::Wait(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        Ok((reap(&self.pidfd)?.exit_code(), said))
    }
}
