//! Wait for a new process that others may keep from going on.
//!
//! A process that has been born in a container can be stopped there (SIGSTOP) before it has become its program. It can end without a
//! word while a process that traced it keeps its channel open.

use crate::RuntimeError;
use rustix::event::{PollFd, PollFlags};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use tote_sys::{Child, Errno, Wait, pending_signal};

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
    /// True if the process had ended at the last look. Its messages are read before that counts.
    has_ended: bool,
}

impl Patience {
    pub(crate) fn until(deadline: Option<Instant>) -> Self {
        Self {
            deadline,
            stopped_since: None,
            has_ended: false,
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
    /// seconds, [`RuntimeError::Ended`] for one that has ended without a word, [`RuntimeError::Interrupted`] if a signal asks the caller to end.
    pub(crate) fn wait(&mut self, child: &Child) -> Result<(), RuntimeError> {
        loop {
            let left = self
                .deadline
                .map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let timeout = left.map_or(LOOK, |left| left.min(LOOK));
            let channel = child.channel();
            let mut fds = [PollFd::new(&channel, PollFlags::IN)];
            match Wait::within(timeout).poll(&mut fds) {
                Ok(0) => self.look(child, Instant::now())?,
                Ok(_) => {
                    self.has_ended = false;
                    return Ok(());
                }
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
        let state = state(child.pid);
        if matches!(state, Some('Z' | 'X')) {
            // What it said just before its end is there at the next look.
            return match std::mem::replace(&mut self.has_ended, true) {
                true => Err(RuntimeError::Ended),
                false => Ok(()),
            };
        }
        if !matches!(state, Some('T' | 't')) {
            self.stopped_since = None;
            return Ok(());
        }
        match now.duration_since(*self.stopped_since.get_or_insert(now)) {
            time if time >= STOPPED => Err(RuntimeError::Stopped),
            _ => Ok(()),
        }
    }
}

/// Returns the letter of a process's state; `None` if the kernel does not say.
fn state(pid: u32) -> Option<char> {
    // absence: the process has ended, which its descriptor tells as well
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The second field is a name in parentheses that may contain anything.
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
}
