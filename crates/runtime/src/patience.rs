//! Wait for a new process that others may keep from going on.
//!
//! A process that has been born in a container can be stopped there (SIGSTOP) before it has become its program.

use crate::RuntimeError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use tote_sys::{Child, Errno, pending_signal};

/// Interval at which a silent process is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// Time for which it may be stopped.
const STOPPED: Duration = Duration::from_secs(3);

/// Time that a failed process may take to end.
const FAILED: Duration = Duration::from_secs(1);

/// Signals that end the wait although they are blocked for the coming process.
const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// Limits of a wait.
pub(crate) struct Patience {
    deadline: Option<Instant>,
    stopped_since: Option<Instant>,
}

impl Patience {
    pub(crate) fn until(deadline: Option<Instant>) -> Self {
        Self {
            deadline,
            stopped_since: None,
        }
    }

    /// Limits the wait to the time that a failed process may take.
    pub(crate) fn hurry(&mut self) {
        let soon = Instant::now() + FAILED;
        self.deadline = Some(self.deadline.map_or(soon, |deadline| deadline.min(soon)));
    }

    /// Waits until the process has sent something.
    ///
    /// # Errors
    /// [`RuntimeError::Late`] after the deadline, [`RuntimeError::Stopped`] for a process that has been stopped for
    /// seconds, [`RuntimeError::Interrupted`] if a signal asks the caller to end.
    pub(crate) fn wait(&mut self, child: &Child) -> Result<(), RuntimeError> {
        loop {
            let left = self
                .deadline
                .map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(LOOK, |left| left.min(LOOK));
            let channel = child.channel();
            let mut fds = [PollFd::new(&channel, PollFlags::IN)];
            match poll(&mut fds, Timespec::try_from(timeout).ok().as_ref()) {
                Ok(0) => self.look(child, Instant::now())?,
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(RuntimeError::Wait(errno)),
            }
        }
    }

    fn look(&mut self, child: &Child, now: Instant) -> Result<(), RuntimeError> {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            return Err(RuntimeError::Late);
        }
        if let Some(signo) = pending_signal(&ENDING.map(Signal::as_raw)) {
            return Err(RuntimeError::Interrupted(signo));
        }
        if !is_stopped(child.pid) {
            self.stopped_since = None;
            return Ok(());
        }
        match now.duration_since(*self.stopped_since.get_or_insert(now)) {
            time if time >= STOPPED => Err(RuntimeError::Stopped),
            _ => Ok(()),
        }
    }
}

/// True if a process is stopped, by a signal or by a tracer.
fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is a name in parentheses that may contain anything.
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
    matches!(state, Some('T' | 't'))
}
