//! Process in a container with captured output, for checks.

use super::{ExecError, Visit, plan};
use crate::EngineError;
use crate::exec::Target;
use crate::slim::Listening;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::pipe::PipeFlags;
use rustix::process::{Signal, pidfd_send_signal};
use std::time::{Duration, Instant};
use tote_bundle::ExecOptions;
use tote_runtime::{Outcome, RuntimeError};
use tote_sandbox::Plan;
use tote_sys::{Errno, ExitStatus, Op, Wait, best_effort};

/// Output and end of a process.
#[derive(Debug)]
pub struct Captured {
    /// docker's exit code; `None` after a timeout.
    pub code: Option<u8>,
    /// Start of standard output and standard error, mixed.
    pub output: Vec<u8>,
    /// True if there was more output.
    pub truncated: bool,
}

impl Captured {
    /// Makes the result of a process that timed out before it executed its program.
    fn late() -> Self {
        Self {
            code: None,
            output: Vec::new(),
            truncated: false,
        }
    }
}

/// Runs a program in the container, limited by `timeout`, and listens to it where that is asked for. Descendants may
/// survive it.
pub fn capture(
    target: Target,
    command: Vec<String>,
    (timeout, most): (Duration, usize),
    listening: Option<&mut Listening>,
) -> Result<Captured, EngineError> {
    let options = ExecOptions {
        command,
        ..ExecOptions::default()
    };
    let namespaces = target.namespaces();
    let plan = plan(&target, &options, None, namespaces, None)?;
    capture_planned(target, plan, (timeout, most), listening)
}

/// Does [`capture`] for a process that is planned.
pub fn capture_planned(
    target: Target,
    mut plan: Plan,
    (timeout, most): (Duration, usize),
    listening: Option<&mut Listening>,
) -> Result<Captured, EngineError> {
    if let Some(listening) = &listening {
        listening.listen_to(&mut plan)?;
    }
    let failed = |source| EngineError::Kernel {
        attempt: "make a pipe for the output",
        source,
    };
    let (output, theirs) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
    rustix::io::ioctl_fionbio(&output, true).map_err(failed)?;
    let again = rustix::io::fcntl_dupfd_cloexec(&theirs, 3).map_err(failed)?;
    plan.insert_stdio(vec![
        Op::Stdio {
            fd: theirs,
            number: 1,
        },
        Op::Stdio { fd: again, number: 2 },
    ]);
    let mut visit = Visit::alone(target, plan, listening);
    let deadline = Instant::now() + timeout;
    // Warnings about missing features were given for the container itself.
    let child = match visit.start(Some(deadline), &mut |_| ()) {
        // Another process in the container may have stopped this one, for example.
        Err(EngineError::Exec(ExecError::Start(RuntimeError::Late))) => return Ok(Captured::late()),
        started => started?,
    };
    // The visit holds our copies of the pipe's ends.
    drop(visit);
    let mut listener = Listener {
        output: Some(output),
        kept: Vec::new(),
        most,
        truncated: false,
    };
    let ended = listener.listen(&child.pidfd, deadline)?;
    if !ended {
        best_effort(pidfd_send_signal(&child.pidfd, Signal::KILL));
    }
    let code = reap(&child.pidfd)?.exit_code();
    listener.read();
    Ok(Captured {
        code: ended.then_some(code),
        output: listener.kept,
        truncated: listener.truncated,
    })
}

struct Listener {
    output: Option<OwnedFd>,
    kept: Vec<u8>,
    most: usize,
    truncated: bool,
}

impl Listener {
    /// Reads until the process has ended. Returns false after the deadline.
    fn listen(&mut self, pidfd: &OwnedFd, deadline: Instant) -> Result<bool, EngineError> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let mut fds = vec![PollFd::new(pidfd, PollFlags::IN)];
            fds.extend(
                self.output
                    .as_ref()
                    .map(|output| PollFd::new(output, PollFlags::IN)),
            );
            match Wait::within(left).poll(&mut fds) {
                Ok(0) => return Ok(false),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(RuntimeError::Wait(errno).into()),
            }
            let ended = !fds[0].revents().is_empty();
            self.read();
            if ended {
                return Ok(true);
            }
        }
    }

    /// Reads the available output, and keeps its start.
    fn read(&mut self) {
        let mut bytes = [0; 4096];
        while let Some(output) = &self.output {
            match rustix::io::read(output, &mut bytes) {
                Ok(0) => self.output = None,
                Ok(length) => {
                    let room = self.most - self.kept.len();
                    self.kept.extend_from_slice(&bytes[..length.min(room)]);
                    self.truncated |= length > room;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(_) => self.output = None,
            }
        }
    }
}

pub(crate) fn reap(pidfd: &OwnedFd) -> Result<Outcome, EngineError> {
    let status = ExitStatus::of(pidfd.as_fd()).map_err(RuntimeError::Wait)?;
    Ok(status.into())
}
