//! Process of a container that is to end, and the wait for its end.

use super::Entry;
use super::error::{LifeError, UndyingState};
use crate::{EngineError, Home};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};
use tote_bundle::{ContainerId, Signal};
use tote_cgroup::Cgroup;
use tote_sys::{Endless, Wait, best_effort, send_signal};

/// Limit of the wait of `stop` and `kill` for killed processes: a process that waits for a disk does not end
/// before the disk answers.
const KILLED: Duration = Duration::from_secs(10);

/// Limit of the time in which a guest kills its container, and writes to its disks.
const IN_GUEST: Duration = Duration::from_secs(5);

/// Process to end, and the time at which it is killed.
#[derive(Debug)]
pub(crate) struct Target {
    pub(super) id: ContainerId,
    name: String,
    pid: u32,
    pub(super) pidfd: OwnedFd,
    cgroup: Option<String>,
    pub(super) kill_at: Option<Instant>,
    killed: bool,
    pub(super) outcome: Option<Outcome>,
    /// True if the process attends a virtual machine, and has not been told to end it.
    pub(super) attends: bool,
}

/// Result of a wait for the end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    Ended,
    /// Process that SIGKILL has not ended.
    Lives,
}

impl Target {
    /// Opens a container's first process; between two of its runs, its monitor.
    ///
    /// # Errors
    /// Fails if it is unknown whether the process has ended.
    pub(crate) fn of(entry: &Entry) -> Result<Option<Self>, EngineError> {
        let state = &entry.state;
        let Some(process) = state.process.or(state.monitor) else {
            return Ok(None);
        };
        let pidfd = tote_state::process::reach(process.pid, process.start_time)?;
        Ok(pidfd.map(|pidfd| Self {
            id: entry.container.id.clone(),
            name: entry.container.display().to_owned(),
            pid: process.pid,
            pidfd,
            cgroup: state.cgroup.clone(),
            kill_at: None,
            killed: false,
            outcome: None,
            attends: crate::vm::is_in_vm(&entry.container),
        }))
    }

    /// Opens the listening monitor of a container with an unreadable state: the container ends with it.
    pub(crate) fn of_monitor(home: &Home, id: &ContainerId) -> Option<Self> {
        let connection = super::socket::connect(home, id).ok()?;
        let monitor = rustix::net::sockopt::socket_peercred(&connection).ok()?.pid;
        Some(Self {
            id: id.clone(),
            name: id.short().to_owned(),
            pid: monitor.as_raw_nonzero().get().unsigned_abs(),
            pidfd: rustix::process::pidfd_open(monitor, rustix::process::PidfdFlags::empty()).ok()?,
            cgroup: None,
            kill_at: None,
            killed: false,
            outcome: None,
            attends: false,
        })
    }

    /// Kills the process. A guest kills its container itself, and writes what the container has written to its disks; `kill_at` is the
    /// time until which it may take for that, and that at which the wait for a killed process ends.
    pub(super) fn end(&mut self) {
        if std::mem::take(&mut self.attends) {
            best_effort(send_signal(self.pidfd.as_fd(), crate::vm::KILL_IN_GUEST));
            self.thaw();
            self.kill_at = Instant::now().checked_add(IN_GUEST);
        } else {
            self.kill();
            self.killed = true;
            self.kill_at = Instant::now().checked_add(KILLED);
        }
    }

    /// Notes that its time is over: a process that was asked to end is killed, and one that was killed is waited for no longer.
    pub(super) fn time_is_over(&mut self) {
        match self.killed {
            true => self.outcome = Some(Outcome::Lives),
            false => self.end(),
        }
    }

    pub(super) fn undying(&self, action: &'static str) -> EngineError {
        LifeError::Undying {
            action,
            name: self.name.clone(),
            pid: self.pid,
            state: UndyingState::of(self.pid),
            after: KILLED,
        }
        .into()
    }

    pub(crate) fn kill(&self) {
        self.send(Signal::KILL);
        self.thaw();
    }

    pub(super) fn send(&self, signal: Signal) {
        // A process that has just ended needs no signal.
        best_effort(send_signal(self.pidfd.as_fd(), i32::from(signal.number())));
    }

    /// Thaws the cgroup, because on cgroup v1 a frozen process does not even die.
    pub(super) fn thaw(&self) {
        if let Some(Ok(cgroup)) = self.cgroup.as_deref().map(Cgroup::open)
            && cgroup.is_frozen().unwrap_or(false)
        {
            best_effort(cgroup.thaw());
        }
    }
}

/// Waits until a killed process has ended.
///
/// # Errors
/// [`LifeError::Undying`] for one that exists after ten seconds.
pub(crate) fn end_of(target: &Target, action: &'static str) -> Result<(), EngineError> {
    match wait_for(&[&target.pidfd], Some(Instant::now() + KILLED)) == [true] {
        true => Ok(()),
        false => Err(target.undying(action)),
    }
}

/// Waits until all processes have ended, or until that moment. Returns for each whether it has ended.
pub(super) fn wait_for(pidfds: &[&OwnedFd], until: Option<Instant>) -> Vec<bool> {
    let mut ended = vec![false; pidfds.len()];
    loop {
        let mut fds: Vec<PollFd<'_>> = Vec::new();
        let mut places = Vec::new();
        for (place, pidfd) in pidfds.iter().enumerate().filter(|(place, _)| !ended[*place]) {
            fds.push(PollFd::new(*pidfd, PollFlags::IN));
            places.push(place);
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if fds.is_empty() {
            return ended;
        }
        best_effort(Wait::within_or(left, Endless::Program).poll(&mut fds));
        for (fd, place) in fds.iter().zip(&places) {
            ended[*place] |= !fd.revents().is_empty();
        }
        if left == Some(Duration::ZERO) {
            return ended;
        }
    }
}
