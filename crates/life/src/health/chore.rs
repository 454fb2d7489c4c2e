//! Health checks of a running container, for its monitor.
//!
//! A check is a process of its own, forked from the monitor, which stays small that way; it runs the program in the
//! container, waits for it, and sends the result through a pipe.

use super::schedule::Schedule;
use super::{check, note, report};
use crate::Home;
use crate::container::{Entry, Health, HealthResult, HealthStatus};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::pipe::PipeFlags;
use std::time::{Duration, Instant};
use tote_bundle::OnFailure;
use tote_image::Healthcheck;
use tote_monitor::{Chores, Verdict};
use tote_state::record::now;
use tote_sys::{Errno, Wait, best_effort};

/// Schedule of checks as docker's: the next check begins an interval after the end of the last one.
#[derive(Debug)]
pub struct HealthChecks<'a> {
    home: &'a Home,
    entry: &'a Entry,
    check: &'a Healthcheck,
    schedule: Schedule,
    next: Instant,
    running: Option<Running>,
    /// Health after the last result: the record may lack it, where the disk is full.
    health: Health,
    is_recorded: bool,
    on_failure: OnFailure,
}

/// Check in progress.
#[derive(Debug)]
struct Running {
    pid: rustix::process::Pid,
    result: OwnedFd,
    text: Vec<u8>,
}

impl<'a> HealthChecks<'a> {
    /// Prepares the checks of a container that was just started; `None` without a health check.
    pub fn of(home: &'a Home, entry: &'a Entry, on_failure: OnFailure) -> Option<Self> {
        let check = entry.container.health.as_ref()?;
        let schedule = Schedule::of(check);
        Some(Self {
            home,
            entry,
            check,
            schedule,
            next: Instant::now() + schedule.pause(HealthStatus::Starting, Duration::ZERO),
            running: None,
            health: Health::default(),
            is_recorded: true,
            on_failure,
        })
    }

    /// True if the last check succeeded.
    pub fn is_healthy(&self) -> bool {
        self.health.status == HealthStatus::Healthy
    }

    /// True if the container was ended for its health, and is to start again.
    pub fn wants_restart(&self) -> bool {
        self.on_failure == OnFailure::Restart && self.health.status == HealthStatus::Unhealthy
    }

    /// Returns the pipe of the check in progress.
    pub fn result(&self) -> Option<BorrowedFd<'_>> {
        self.running.as_ref().map(|running| running.result.as_fd())
    }

    fn age(&self) -> Duration {
        Duration::from_nanos(now().saturating_sub(self.entry.state.started_at))
    }

    /// Starts the process of a check.
    fn begin(&mut self) -> Result<Running, Errno> {
        let (result, sink) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&result, true)?;
        let (home, entry, how) = (self.home, self.entry, self.check);
        // process: health check
        let pid = tote_sys::fork_worker(move || {
            let found = check(home, entry, how);
            let text = serde_json::to_vec(&found).unwrap_or_default();
            let mut rest = &text[..];
            while let Ok(written @ 1..) = rustix::io::write(&sink, rest) {
                rest = &rest[written..];
            }
            0
        })?;
        Ok(Running {
            pid,
            result,
            text: Vec::new(),
        })
    }

    /// Records the result of a check, or its failure to run.
    fn end(&mut self, found: Option<HealthResult>) -> Verdict {
        let moment = now();
        let result = found.unwrap_or_else(|| HealthResult {
            start: moment,
            end: moment,
            exit_code: -1,
            output: "the check could not be run".to_owned(),
        });
        let before = self.health.status;
        self.take(result);
        let status = self.health.status;
        self.next = Instant::now() + self.schedule.pause(status, self.age());
        if status != HealthStatus::Unhealthy || before == HealthStatus::Unhealthy {
            return Verdict::Live;
        }
        match self.on_failure {
            OnFailure::None => Verdict::Live,
            OnFailure::Kill => Verdict::Kill,
            OnFailure::Stop => Verdict::Stop,
            OnFailure::Restart => Verdict::End,
        }
    }
}

impl HealthChecks<'_> {
    /// Adds a result, and records it. A failed write is repeated with the next result; the result counts all the same, because a full disk
    /// must not keep an unhealthy container alive.
    fn take(&mut self, result: HealthResult) {
        let (home, container) = (self.home, &self.entry.container);
        let started_at = self.entry.state.started_at;
        let age = Duration::from_nanos(result.start.saturating_sub(started_at));
        let unrecorded = (!self.is_recorded).then_some(&self.health);
        match note(home, container, started_at, result.clone(), unrecorded) {
            Ok(health) => {
                self.health = health;
                self.is_recorded = true;
            }
            Err(_) => {
                if self.schedule.take(&mut self.health, age, result) {
                    report(home, container, self.health.status);
                }
                self.is_recorded = false;
            }
        }
    }
}

impl Running {
    /// Reads the available output. Returns true at its end.
    fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        loop {
            match rustix::io::read(&self.result, &mut bytes) {
                Ok(0) => return true,
                Ok(length) => self.text.extend_from_slice(&bytes[..length]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Err(_) => return true,
            }
        }
    }
}

impl Chores for HealthChecks<'_> {
    fn due(&self) -> Option<Instant> {
        self.running.is_none().then_some(self.next)
    }

    fn waits_for(&self) -> [Option<BorrowedFd<'_>>; 3] {
        [self.result(), None, None]
    }

    fn perform(&mut self, now: Instant) -> Verdict {
        if let Some(running) = &mut self.running {
            if running.read() {
                let found = serde_json::from_slice(&running.text).ok();
                // The process has closed the pipe, and ends in a moment.
                best_effort(Wait::ending().reap_child(running.pid));
                self.running = None;
                return self.end(found);
            }
        } else if now >= self.next {
            match self.begin() {
                Ok(running) => self.running = Some(running),
                Err(_) => return self.end(None),
            }
        }
        Verdict::Live
    }
}

impl Drop for HealthChecks<'_> {
    /// The container has ended, and its check ends with it.
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            best_effort(rustix::process::kill_process(
                running.pid,
                rustix::process::Signal::KILL,
            ));
            best_effort(Wait::ending().reap_child(running.pid));
        }
    }
}
