//! Running command and our ends of its three streams. One poll loop moves all bytes; every wait has a deadline.

use crate::output::{Output, RUNNING};
use crate::processes::{readable, timespec};
use anyhow::{Context as _, Result, bail, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// Returns the limit of a single wait; it is shorter than a test's limit, so that the test still reports the wait.
pub(crate) fn patience() -> Duration {
    scaled(Duration::from_secs(20))
}

/// Time in which output may still come after the process has ended.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Variable with a factor for all time limits, for machines that are emulated.
pub(crate) const SLOW: &str = "TOTE_TEST_SLOW";

/// Returns the factor of [`SLOW`], by default 1.
pub(crate) fn slowness() -> u32 {
    let factor = std::env::var(SLOW).ok();
    factor.and_then(|factor| factor.parse().ok()).unwrap_or(1)
}

/// Scales a time limit to this machine.
pub(crate) fn scaled(limit: Duration) -> Duration {
    limit * slowness()
}

/// Our ends of the streams; `None` once closed.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) input: Option<OwnedFd>,
    pub(crate) output: Option<OwnedFd>,
    pub(crate) errors: Option<OwnedFd>,
}

/// Command that was started.
#[derive(Debug)]
pub(crate) struct Running {
    command: String,
    pid: Pid,
    pidfd: OwnedFd,
    ends: Ends,
    pending: Vec<u8>,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Length of the part of `stdout` that earlier calls of [`Running::expect`] have consumed.
    consumed: usize,
    /// True if the process has ended, though it may not have been reaped yet.
    ended: bool,
    code: Option<i32>,
    close_input_when_sent: bool,
}

impl Running {
    /// Takes over a process that was just started, and makes our ends non-blocking.
    pub(crate) fn new(command: String, pid: i32, ends: Ends) -> Result<Self> {
        for fd in [&ends.input, &ends.output, &ends.errors].into_iter().flatten() {
            let flags = rustix::fs::fcntl_getfl(fd)?;
            rustix::fs::fcntl_setfl(fd, flags | rustix::fs::OFlags::NONBLOCK)?;
        }
        Ok(Self {
            command,
            pid: Pid::from_raw(pid).context("process id 0")?,
            pidfd: crate::processes::pidfd(pid)?,
            ends,
            pending: Vec::new(),
            stdout: Vec::new(),
            stderr: Vec::new(),
            consumed: 0,
            ended: false,
            code: None,
            close_input_when_sent: false,
        })
    }

    /// Returns the process's id.
    pub(crate) fn pid(&self) -> i32 {
        self.pid.as_raw_pid()
    }

    /// Returns the bytes that the command has written to standard output (or its terminal) so far.
    pub(crate) fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Queues bytes for the command's standard input (or its terminal).
    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Closes the command's standard input once all queued bytes have been taken.
    pub(crate) fn close_input(&mut self) {
        self.close_input_when_sent = true;
    }

    /// Stops reading the command's standard output, which is then a broken pipe.
    pub(crate) fn close_output(&mut self) {
        self.ends.output = None;
    }

    /// Sends the command a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        rustix::process::pidfd_send_signal(&self.pidfd, signal)
            .with_context(|| format!("send {signal:?} to {}", self.command))
    }

    /// Waits until standard output contains `text` after the text that was expected before. Returns
    /// the bytes up to there.
    pub(crate) fn expect(&mut self, text: &str) -> Result<String> {
        let mut deadline = Instant::now() + patience();
        // Each byte is looked at once, however many pieces a long output comes in.
        let mut searched = self.consumed;
        loop {
            let fresh = &self.stdout[searched..];
            if let Some(at) = fresh
                .windows(text.len())
                .position(|window| window == text.as_bytes())
            {
                let end = searched + at + text.len();
                let seen = String::from_utf8_lossy(&self.stdout[self.consumed..end]).into_owned();
                self.consumed = end;
                return Ok(seen);
            }
            // The end of what is there may be the beginning of the text.
            searched = searched.max((self.stdout.len() + 1).saturating_sub(text.len()));
            let ended = self.ended;
            if self.ends.output.is_none() || !self.step(deadline)? {
                bail!(
                    "waited for {text:?} on stdout, saw:\n{}",
                    self.seen().transcript()
                );
            }
            if self.ended && !ended {
                deadline = deadline.min(Instant::now() + scaled(LAST_WORDS));
            }
        }
    }

    /// Waits until the process has ended, its outputs possibly still open. Returns the exit code.
    pub(crate) fn wait(&mut self) -> Result<i32> {
        let deadline = Instant::now() + patience();
        while !self.ended {
            ensure!(
                self.step(deadline)?,
                "it did not end within {:?}; saw:\n{}",
                patience(),
                self.seen().transcript()
            );
        }
        self.reap()
    }

    /// Closes standard input, waits for the end of the process and of its outputs, and prints the transcript.
    pub(crate) fn finish(mut self) -> Result<Output> {
        self.close_input();
        self.wait()?;
        self.ends.input = None;
        let deadline = Instant::now() + patience();
        while self.ends.output.is_some() || self.ends.errors.is_some() {
            let went_on = self.step(deadline)?;
            ensure!(
                went_on,
                "it ended, but something holds its output open; saw:\n{}",
                self.seen().transcript()
            );
        }
        let output = self.seen();
        crate::context::note(&output.transcript());
        Ok(output)
    }

    /// Returns the output so far.
    fn seen(&self) -> Output {
        Output {
            command: self.command.clone(),
            code: self.code.unwrap_or(RUNNING),
            stdout: self.stdout.clone(),
            stderr: self.stderr.clone(),
        }
    }

    fn reap(&mut self) -> Result<i32> {
        if let Some(code) = self.code {
            return Ok(code);
        }
        let (_, status) =
            waitpid(Some(self.pid), WaitOptions::empty())?.context("the process has not ended")?;
        let code = match status.exit_status() {
            Some(code) => code,
            None => -status.terminating_signal().context("neither exited nor killed")?,
        };
        self.code = Some(code);
        Ok(code)
    }

    /// Waits for one event and moves the bytes that can be moved. Returns false if the deadline has passed.
    fn step(&mut self, deadline: Instant) -> Result<bool> {
        self.write()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        // Standard input is watched only while bytes are queued, and the process only while it lives: otherwise both
        // would always be ready.
        let input = self.ends.input.as_ref().filter(|_| !self.pending.is_empty());
        let process = Some(&self.pidfd).filter(|_| !self.ended);
        let outputs = [self.ends.output.as_ref(), self.ends.errors.as_ref(), process];
        let mut fds: Vec<PollFd<'_>> = outputs
            .into_iter()
            .flatten()
            .map(|fd| PollFd::new(fd, PollFlags::IN))
            .collect();
        fds.extend(input.map(|fd| PollFd::new(fd, PollFlags::OUT)));
        match poll(&mut fds, Some(&timespec(left))) {
            Err(Errno::INTR) => return Ok(true),
            Ok(0) => return Ok(false),
            other => other.context("poll")?,
        };
        self.ended = self.ended || readable(&self.pidfd, Duration::ZERO)?;
        drain(&mut self.ends.output, &mut self.stdout)?;
        drain(&mut self.ends.errors, &mut self.stderr)?;
        Ok(true)
    }

    fn write(&mut self) -> Result<()> {
        while let Some(input) = self.ends.input.as_ref().filter(|_| !self.pending.is_empty()) {
            match rustix::io::write(input, &self.pending) {
                Ok(count) => drop(self.pending.drain(..count)),
                Err(Errno::AGAIN) => return Ok(()),
                // The command no longer reads its input; its output shows the consequences.
                Err(Errno::PIPE | Errno::IO) => self.pending.clear(),
                Err(error) => return Err(error).context("write to standard input"),
            }
        }
        if self.close_input_when_sent {
            self.ends.input = None;
        }
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if self.code.is_none() {
            crate::context::note(&format!("dropped while it ran:\n{}", self.seen().transcript()));
            // The runner ends the command's descendants.
            rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL).ok();
            self.reap().ok();
        }
    }
}

/// Reads the available bytes; the end of the stream, which for a terminal is EIO, closes it.
fn drain(end: &mut Option<OwnedFd>, seen: &mut Vec<u8>) -> Result<()> {
    let mut buffer = vec![0; 64 * 1024];
    while let Some(fd) = end {
        match rustix::io::read(&*fd, &mut buffer[..]) {
            Ok(0) | Err(Errno::IO) => *end = None,
            Ok(count) => seen.extend_from_slice(&buffer[..count]),
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("read the command's output"),
        }
    }
    Ok(())
}
