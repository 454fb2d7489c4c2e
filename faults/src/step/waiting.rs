//! Waits for children, traced or not, with a time limit and without polling.

use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Longest time that one step of waiting counts. A longer step means that this program was stopped together with its
/// children, or got no processor.
const STEP: Duration = Duration::from_secs(1);

/// Time limit that counts only the time in which this program itself could check it.
#[derive(Debug)]
pub(super) struct TimeLimit {
    left: Duration,
    looked: Instant,
}

impl TimeLimit {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            left: limit,
            looked: Instant::now(),
        }
    }

    /// Counts the time since the last call, at most [`STEP`], and returns true if the limit is used up. Callers ask
    /// at least once in each [`STEP`].
    pub(super) fn is_over(&mut self) -> bool {
        self.left = self.left.saturating_sub(self.looked.elapsed().min(STEP));
        self.looked = Instant::now();
        self.left.is_zero()
    }
}

/// Descriptor of SIGCHLD. The program makes one, before its first child.
#[derive(Debug)]
pub(crate) struct Waiting(SignalFd);

impl Waiting {
    /// # Errors
    /// Fails if the signal cannot be blocked.
    pub(crate) fn new() -> Result<Self> {
        let mut signals = SigSet::empty();
        signals.add(Signal::SIGCHLD);
        signals.thread_block().context("block SIGCHLD")?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        Ok(Self(
            SignalFd::with_flags(&signals, flags).context("open a signalfd")?,
        ))
    }

    /// Returns the next event of any child, or `None` if no event comes within `quiet`.
    ///
    /// # Errors
    /// Fails if waitpid(2) or poll(2) fails.
    pub(crate) fn next(&self, quiet: Duration) -> Result<Option<WaitStatus>> {
        let look = || match waitpid(None, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)) {
            Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD | Errno::EINVAL) => Ok(None),
            Ok(status) => Ok(Some(status)),
            Err(errno) => Err(errno).context("wait for a child"),
        };
        if let Some(status) = look()? {
            return Ok(Some(status));
        }
        self.poll(quiet)?;
        look()
    }

    /// Waits until a child has stopped itself.
    ///
    /// # Errors
    /// Fails if the child ends instead, or takes longer than 20 s.
    pub(crate) fn stopped(&self, child: Pid) -> Result<()> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) {
            match waitpid(child, Some(WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED)) {
                Ok(WaitStatus::Stopped(..)) => return Ok(()),
                Ok(WaitStatus::StillAlive) => self.poll(Duration::from_millis(100))?,
                Ok(status) => bail!("it has not stopped: {status:?}"),
                Err(errno) => return Err(errno).context("wait for it"),
            }
        }
        bail!("it has not stopped within 20 s");
    }

    /// Waits for the end of one child. Returns its exit code, or 128 plus its signal; `None` if it
    /// does not end in time.
    ///
    /// # Errors
    /// Fails if the process is not a child of this one.
    pub(crate) fn end(&self, child: Pid, limit: Duration) -> Result<Option<i32>> {
        let mut limit = TimeLimit::new(limit);
        while !limit.is_over() {
            match waitpid(child, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(_, code)) => return Ok(Some(code)),
                Ok(WaitStatus::Signaled(_, signal, _)) => return Ok(Some(128 + signal as i32)),
                Ok(_) => self.poll(Duration::from_millis(100))?,
                Err(errno) => return Err(errno).context("wait for a child"),
            }
        }
        Ok(None)
    }

    /// Reaps all children that have ended.
    ///
    /// # Errors
    /// Fails if waitpid(2) fails.
    pub(crate) fn reap(&self) -> Result<()> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG | WaitPidFlag::__WALL)) {
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
                Ok(_) => {}
                Err(errno) => return Err(errno).context("reap children"),
            }
        }
    }

    /// Waits for SIGCHLD. Several signals merge into one, so the caller has to look at all children.
    ///
    /// # Errors
    /// Fails if poll(2) fails.
    pub(crate) fn poll(&self, limit: Duration) -> Result<()> {
        let mut ready = [PollFd::new(self.0.as_fd(), PollFlags::POLLIN)];
        match poll(
            &mut ready,
            PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX),
        ) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno).context("wait for SIGCHLD"),
        }
        while let Ok(Some(_)) = self.0.read_signal() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_step_counts_as_a_short_one() {
        let mut limit = TimeLimit::new(STEP * 2);
        limit.looked -= STEP * 100;
        assert!(!limit.is_over());
        limit.looked -= STEP * 100;
        assert!(limit.is_over());
    }
}
