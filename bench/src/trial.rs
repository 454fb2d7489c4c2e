//! One run of one program: started, timed, reaped, and cleaned up after.
//!
//! The clock is CLOCK_MONOTONIC (`Instant`) from before the start to after the reaping. Programs that keep this
//! process's user start through posix_spawn(3); a change of user makes std fork instead, and what that adds is measured
//! by a candidate of its own. Streams are memory files: no reader has to run next to the program, and no stdio of the
//! host can be chowned by a runtime that does so.
//!
//! This process is a subreaper, so whatever a program leaves behind becomes its child and is found.

use crate::account::Account;
use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, set_child_subreaper, wait,
};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// More of a stream than this is not looked at.
const STREAM_LIMIT: u64 = 64 * 1024;

/// How long what a program left behind may take to end by itself: a pid namespace is torn down after its owner is gone.
const GRACE: Duration = Duration::from_secs(2);

/// A program ready to run.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    /// argv; the first word is a path.
    pub(crate) argv: Vec<String>,
    /// The whole environment.
    pub(crate) env: Vec<(String, String)>,
    /// Who runs it, where that is not this process's user.
    pub(crate) account: Option<Account>,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) wall: Duration,
    pub(crate) ending: Ending,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    /// Processes that were left behind, outlived the grace and had to be killed.
    pub(crate) stragglers: usize,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Exited(i32),
    /// By this signal.
    Signaled(i32),
    /// It did not end in time and was killed.
    TimedOut,
}

/// Runs trials one after another.
#[derive(Debug)]
pub(crate) struct Runner {
    stdin: File,
    stdout: File,
    stderr: File,
    time_limit: Duration,
}

impl Runner {
    /// Makes this process a subreaper.
    pub(crate) fn new(time_limit: Duration) -> Result<Self> {
        set_child_subreaper(Some(getpid())).context("become a subreaper")?;
        let stream = |name: &str| -> Result<File> {
            Ok(File::from(
                memfd_create(name, MemfdFlags::CLOEXEC).context("make a memory file")?,
            ))
        };
        Ok(Runner {
            stdin: stream("stdin")?,
            stdout: stream("stdout")?,
            stderr: stream("stderr")?,
            time_limit,
        })
    }

    /// Runs `trial` once. Fails where it could not be started or waited for, which is not the program's fault alone.
    pub(crate) fn run(&mut self, trial: &Trial) -> Result<Outcome> {
        for stream in [&mut self.stdin, &mut self.stdout, &mut self.stderr] {
            stream
                .set_len(0)
                .and_then(|()| stream.rewind())
                .context("empty a memory file")?;
        }
        let mut command = self.command(trial)?;

        let start = Instant::now();
        let mut child = command
            .spawn()
            .with_context(|| format!("start {}", trial.argv[0]))?;
        let pid = Pid::from_child(&child);
        // Opened while the program runs; only the end of the wait is on the clock.
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("open a pidfd")?;
        let in_time = ends_within(&pidfd, self.time_limit)?;
        if !in_time {
            pidfd_send_signal(&pidfd, Signal::KILL).context("kill what did not end in time")?;
        }
        let status = child.wait().context("reap")?;
        let wall = start.elapsed();

        Ok(Outcome {
            wall,
            ending: if in_time { ending(status) } else { Ending::TimedOut },
            stragglers: sweep()?,
            stdout: contents(&mut self.stdout)?,
            stderr: contents(&mut self.stderr)?,
        })
    }

    fn command(&self, trial: &Trial) -> Result<Command> {
        let stream = |file: &File| {
            file.try_clone()
                .map(Stdio::from)
                .context("duplicate a memory file")
        };
        let mut command = Command::new(&trial.argv[0]);
        command
            .args(&trial.argv[1..])
            .env_clear()
            .envs(trial.env.iter().map(|(name, value)| (name, value)))
            .stdin(stream(&self.stdin)?)
            .stdout(stream(&self.stdout)?)
            .stderr(stream(&self.stderr)?);
        if let Some(account) = &trial.account {
            // std drops the supplementary groups along with the user id
            command.uid(account.uid).gid(account.gid);
        }
        Ok(command)
    }
}

fn ending(status: ExitStatus) -> Ending {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ending::Exited(code),
        (None, signal) => Ending::Signaled(signal.unwrap_or_default()),
    }
}

fn contents(stream: &mut File) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    stream
        .rewind()
        .and_then(|()| stream.take(STREAM_LIMIT).read_to_end(&mut bytes))
        .context("read a memory file")?;
    Ok(bytes)
}

fn ends_within(pidfd: &OwnedFd, limit: Duration) -> Result<bool> {
    let limit = Timespec::try_from(limit).context("express the time limit")?;
    loop {
        match poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&limit)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("wait for a program"),
        }
    }
}

/// Reaps everything that was left behind, killing what does not end within the grace. Returns how many were killed.
fn sweep() -> Result<usize> {
    let deadline = Instant::now() + GRACE;
    let mut killed = 0;
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Err(rustix::io::Errno::CHILD) => return Ok(killed),
            Err(error) => return Err(error).context("reap what was left behind"),
            Ok(None) => {
                let left = deadline.saturating_duration_since(Instant::now());
                killed += await_or_kill(left)?;
            }
        }
    }
}

/// Waits up to `left` for one of this process's children, then kills it. Returns 1 where it was killed.
fn await_or_kill(left: Duration) -> Result<usize> {
    let Some(pid) = children()?.first().copied() else {
        return Ok(0);
    };
    // Not reaped yet, so the number cannot have passed to another process.
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("open a pidfd")?;
    if ends_within(&pidfd, left)? {
        return Ok(0);
    }
    pidfd_send_signal(&pidfd, Signal::KILL).context("kill what was left behind")?;
    ends_within(&pidfd, GRACE)?;
    Ok(1)
}

/// A subreaper's orphans may become children of any of its threads.
fn children() -> Result<Vec<Pid>> {
    let mut pids = Vec::new();
    for task in fs::read_dir("/proc/self/task").context("read /proc/self/task")? {
        let path = task.context("read /proc/self/task")?.path().join("children");
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        pids.extend(
            text.split_whitespace()
                .filter_map(|pid| Pid::from_raw(pid.parse().ok()?)),
        );
    }
    Ok(pids)
}
