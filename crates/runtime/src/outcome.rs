//! Ends of a container in the foreground, other ways to leave it, and the functions that are told of them.

use crate::{BrokenStream, RuntimeError};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use tote_cgroup::Cgroup;
use tote_sys::{Child, ExitStatus};

/// Something else to look after while a container runs.
pub trait Aside: std::fmt::Debug {
    /// Called when the container's network namespace and its links exist, before the program runs.
    ///
    /// # Errors
    /// A warning for people.
    fn network(&mut self, _network: BorrowedFd<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Called when the container's process waits in its root, before it is the program: for plans that let it wait there
    /// ([`Plan::watch_root`](tote_sandbox::Plan::watch_root)).
    fn root(&mut self, _root: BorrowedFd<'_>) {}

    /// Takes the listener of a plan that reports calls ([`Plan::listen`](tote_sandbox::Plan::listen)); gives it back where
    /// it is not for this one.
    fn listener(&mut self, listener: OwnedFd) -> Option<OwnedFd> {
        Some(listener)
    }

    /// Called when the container's program runs.
    ///
    /// # Errors
    /// A warning for people.
    fn begin(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Returns the descriptors that it waits for.
    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    /// Reads what has come, without waiting. True if the container must have a monitor from now on.
    fn advance(&mut self) -> bool {
        false
    }

    /// Called when the container has ended, and its cgroup is still there.
    fn end(&mut self, _cgroup: Option<&Cgroup>) {}

    /// Called when another process is about to watch the container: puts everything that it needs where the process
    /// finds it.
    fn leave(&mut self) {}

    /// Called when no other process watches the container: takes [`Aside::leave`] back.
    fn stay(&mut self) {}

    /// Called when a monitor is impossible: the asking command is told.
    fn refuse(&mut self) {}
}

/// Tells everyone of the container's network namespace, and passes on their warnings.
pub(crate) fn tell_network(
    asides: &mut [&mut dyn Aside],
    network: BorrowedFd<'_>,
    warn: &mut dyn FnMut(String),
) {
    let told = asides.iter_mut().map(|aside| aside.network(network));
    told.filter_map(Result::err).for_each(warn);
}

/// Gives the listener of a filter to the first one who takes it.
pub(crate) fn tell_listener(asides: &mut [&mut dyn Aside], listener: OwnedFd) -> Result<(), RuntimeError> {
    let left = asides
        .iter_mut()
        .try_fold(listener, |listener, aside| aside.listener(listener));
    left.map_or(Ok(()), |_| Err(RuntimeError::Listener))
}

/// Reason why a command no longer watches its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The keys were typed: the command ends, and the container goes on.
    Keys,
    /// The caller's terminal is gone: the command ends as well.
    Hangup,
    /// Another command needs a monitor: this command stays as the monitor's client.
    Asked,
}

/// End of a container in the foreground, or of the caller's watch over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// The container has ended.
    Ended(Ended),
    /// Another process watches the container.
    Left(Leave),
}

/// Everything that the watching process hands to the next one.
#[derive(Debug)]
pub struct Left {
    /// First process of the container, with a guardian.
    pub child: Child,
    /// Cgroup of the container.
    pub cgroup: Option<Cgroup>,
    /// Master of its console.
    pub console: Option<OwnedFd>,
    /// Rest of its time limit.
    pub timeout: Option<Duration>,
    /// Bytes that it may still write, if they are limited.
    pub output: Option<u64>,
}

/// Way in which a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Ended by itself, with this code.
    Exited(i32),
    /// Killed by a signal.
    Signaled(i32),
    /// Killed at its time limit.
    TimedOut,
    /// Killed at its limit of processor time.
    CpuTimeOver,
    /// Killed because it has written more than its limit.
    OutputOver,
    /// Killed because the caller was asked to end for the third time.
    Insisted,
}

impl Outcome {
    /// Returns docker's exit code; of a limit it is 124, as of timeout(1).
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self::Exited(code) => u8::try_from(code & 0xff).unwrap_or(1),
            Self::Signaled(signal) => u8::try_from(128 + signal).unwrap_or(255),
            Self::TimedOut | Self::CpuTimeOver | Self::OutputOver => 124,
            // It was killed for it.
            Self::Insisted => 137,
        }
    }
}

impl From<ExitStatus> for Outcome {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Code(code) => Self::Exited(code),
            ExitStatus::Signal(signal) => Self::Signaled(signal),
        }
    }
}

/// Function that lets another process watch the container from now on, for the given reason.
pub type Succession<'a> = dyn FnMut(&mut Option<Left>, Leave) -> Result<(), String> + 'a;

/// Functions that are told about events.
pub struct Observer<'a> {
    /// The process exists, and its cgroup: gets its pid, and the text that [`Cgroup::open`] needs to find the cgroup.
    /// The process becomes the program after that if its plan [waits for the record](tote_sandbox::Plan::await_record).
    pub born: &'a mut dyn FnMut(u32, Option<String>),
    /// The process has become the program.
    pub runs: &'a mut dyn FnMut(),
    /// Gets a warning of one line about something that the container has to do without.
    pub warn: &'a mut dyn FnMut(String),
    /// Lets another process watch the container. `Ok` if one does; parts that it does not take stay with the caller,
    /// and the reason is one line for people.
    pub leave: &'a mut Succession<'a>,
    /// The cgroup could not be removed, and has to be found later. This call may follow an error as well.
    pub stays: &'a mut dyn FnMut(),
}

impl std::fmt::Debug for Observer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

/// A container that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Outcome.
    pub outcome: Outcome,
    /// Number of its processes that the kernel killed for want of memory.
    pub ooms: u64,
    /// Stream of the caller that failed meanwhile.
    pub broken: Option<BrokenStream>,
}
