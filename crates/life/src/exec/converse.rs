//! Process in a container whose streams this process reads and writes.

use super::capture::reap;
use super::{Target, Visit, exit_code};
use crate::EngineError;
use rustix::fd::OwnedFd;
use rustix::pipe::{PipeFlags, pipe_with};
use std::fs::File;
use std::io::Read as _;
use tote_runtime::RuntimeError;
use tote_sandbox::Plan;
use tote_sys::{Child, Errno, Op};

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
    child: Child,
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
    let ((output, their_output), (errors, their_errors)) = (pipe()?, pipe()?);
    let theirs = [(their_input, 0), (their_output, 1), (their_errors, 2)];
    plan.insert_stdio(theirs.map(|(fd, number)| Op::Stdio { fd, number }).into());
    let mut visit = Visit::alone(target, plan, None);
    let child = visit.start(None, &mut |_| ())?;
    Ok(Conversation {
        input: None,
        output: output.into(),
        errors: errors.into(),
        child,
    })
}

fn pipe() -> Result<(OwnedFd, OwnedFd), EngineError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|source| EngineError::Kernel {
        attempt: "make a pipe for a process",
        source,
    })
}

impl Conversation {
    /// Waits for the end; returns docker's exit code, and what came by standard error.
    pub fn finish(self) -> Result<(u8, Vec<u8>), EngineError> {
        // A process whose output is not read would wait for that.
        drop((self.input, self.output));
        let mut said = Vec::new();
        let read = self.errors.take(LONGEST).read_to_end(&mut said);
        read.map_err(|error| RuntimeError::Wait(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        Ok((exit_code(reap(&self.child.pidfd)?), said))
    }
}
