//! Standard descriptors of a container under a monitor.

use super::error::{LifeError, StartError};
use crate::EngineError;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::pipe::{PipeFlags, pipe_with};
use tote_bundle::RunOptions;
use tote_sys::{Child, Op};

/// Monitor's ends of the pipes; the container's ends go to its process.
#[derive(Default)]
pub(crate) struct Ends {
    pub stdin: Option<OwnedFd>,
    pub stdout: Option<OwnedFd>,
    pub stderr: Option<OwnedFd>,
    pub console: Option<OwnedFd>,
}

impl Ends {
    /// Returns what a monitor watches: the process with the ends of its streams.
    pub(crate) fn of(self, child: &Child) -> tote_monitor::Container<'_> {
        tote_monitor::Container {
            pidfd: child.pidfd.as_fd(),
            guardian: child.guardian.as_ref(),
            stdin: self.stdin,
            stdout: self.stdout,
            stderr: self.stderr,
            console: self.console,
        }
    }

    pub(crate) fn new(options: &RunOptions) -> Result<(Self, Vec<Op>), EngineError> {
        let (mut ends, mut ops) = (Self::default(), Vec::new());
        if options.tty {
            return Ok((ends, ops));
        }
        let pipe = || {
            pipe_with(PipeFlags::CLOEXEC).map_err(|source| {
                LifeError::Start(StartError::Monitor {
                    attempt: "make pipes for",
                    source,
                })
            })
        };
        if options.interactive {
            let (theirs, ours) = pipe()?;
            ops.push(Op::Stdio {
                fd: theirs,
                number: 0,
            });
            ends.stdin = Some(ours);
        }
        for (number, end) in [(1, &mut ends.stdout), (2, &mut ends.stderr)] {
            let (ours, theirs) = pipe()?;
            ops.push(Op::Stdio { fd: theirs, number });
            *end = Some(ours);
        }
        Ok((ends, ops))
    }
}
