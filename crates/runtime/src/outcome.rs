//! How a container in the foreground ends or is left, and who is told of it.

use crate::BrokenStream;
use rustix::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;
use tote_cgroup::Cgroup;
use tote_sys::Child;

/// Something that is looked after while a container runs.
pub trait Aside: std::fmt::Debug {
    /// The container's network namespace is there, with its links; the program does not run yet.
    ///
    /// # Errors
    /// A warning for people.
    fn network(&mut self, _network: BorrowedFd<'_>) -> Result<(), String> {
        Ok(())
    }

    /// The container's program runs.
    ///
    /// # Errors
    /// A warning for people.
    fn begin(&mut self) -> Result<(), String>;

    /// The descriptors that it waits for.
    fn fds(&self) -> Vec<BorrowedFd<'_>>;

    /// Takes what can be read from those, and waits for nothing. Gives whether the container is to have a monitor from now on.
    fn advance(&mut self) -> bool;

    /// Another process is about to watch the container: it puts what that needs where the next finds it.
    fn leave(&mut self) {}

    /// No other process does: it takes that back.
    fn stay(&mut self) {}

    /// There can be no monitor: whoever asks for one is to know.
    fn refuse(&mut self) {}
}

/// Why a command is no longer the one that watches its container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// The keys were typed: the command ends, and the container goes on.
    Keys,
    /// The caller's terminal is gone: the same.
    Hangup,
    /// Another command needs a monitor: this one stays as that one's client.
    Asked,
}

/// The end of a container in the foreground, or of the caller's watch over it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// It has ended.
    Ended(Ended),
    /// Another process watches it.
    Left(Leave),
}

/// Everything that the process which watches a container hands to the next one.
#[derive(Debug)]
pub struct Left {
    /// Its first process, with a guardian.
    pub child: Child,
    /// Its cgroup.
    pub cgroup: Option<Cgroup>,
    /// The master of its console.
    pub console: Option<OwnedFd>,
    /// How long it may live from now on.
    pub timeout: Option<Duration>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signaled(i32),
    /// Its time was over.
    TimedOut,
    /// Its processor time was used up.
    CpuTimeOver,
    /// The caller was asked to end for the third time.
    Insisted,
}

/// Lets another process watch the container from now on, for that reason.
pub type Succession<'a> = dyn FnMut(&mut Option<Left>, Leave) -> Result<(), String> + 'a;

/// Functions that are told what happens.
pub struct Observer<'a> {
    /// The process exists, and its cgroup: its id, and what [`Cgroup::open`] needs to find the other. It is not yet the
    /// program.
    pub born: &'a mut dyn FnMut(u32, Option<String>),
    /// It has become the program.
    pub runs: &'a mut dyn FnMut(),
    /// Something the container has to do without, in one line.
    pub warn: &'a mut dyn FnMut(String),
    /// Another process is to watch it from now on. `Ok` when one does; what is not taken stays with the caller, and the reason
    /// is one line for people.
    pub leave: &'a mut Succession<'a>,
    /// Its cgroup could not be removed, and somebody must be able to find it later. This may follow an error as well.
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
    /// How.
    pub outcome: Outcome,
    /// How many of its processes the kernel killed for want of memory.
    pub ooms: u64,
    /// The caller's stream that failed meanwhile.
    pub broken: Option<BrokenStream>,
}
