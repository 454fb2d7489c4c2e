//! A run of a candidate, which is a program or several in order: started, timed, reaped, and cleaned up.
//!
//! The clock is CLOCK_MONOTONIC (`Instant`) from before the start to after the reaping. Programs that keep this
//! process's user start through posix_spawn(3); a change of user makes std fork instead, and the cost of that is
//! measured by a candidate of its own. Streams are memory files, so that no reader must run next to the program,
//! and no runtime can change the owner of the host's standard streams.
//!
//! This process is a subreaper, so processes that a program leaves behind become its children and are found.

use crate::account::Account;
use crate::counters::Counters;
use crate::interruption;
use crate::leaks::Groups;
use crate::processes::{children, idle_pss, miscounted};
use crate::step::{Answer, Note, Repeat, Step, Together, Wait};
use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, set_child_subreaper, wait,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Seek;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Number of bytes of a stream that are read.
const STREAM_LIMIT: usize = 64 * 1024;

/// Name of the phase of preparing steps.
const BEFORE: &str = "before";

/// Time for processes left behind to end by themselves: a pid namespace is torn down after its owner has ended.
pub const GRACE: Duration = Duration::from_secs(2);

/// Programs that are ready to run.
#[derive(Clone, Debug)]
pub struct Trial {
    /// Steps before the clock starts; all must exit with 0.
    pub before: Vec<Step>,
    /// True if the kernel's caches of files are dropped right before the clock starts.
    pub cold: bool,
    /// Steps on the clock; a step that does not exit with `exit` is the last. The first word of each argv is a
    /// path.
    pub timed: Vec<Step>,
    /// Steps after the clock has stopped, run even after a failure; all must exit with 0.
    pub after: Vec<Step>,
    /// Expected exit code of the programs on the clock.
    pub exit: i32,
    /// Number of processes that the programs on the clock leave for later steps to end.
    pub leaves: usize,
    /// Program of the processes left, whose memory is measured.
    pub idle: Option<PathBuf>,
    /// The whole environment.
    pub env: Vec<(String, String)>,
    /// User that runs the programs; `None` for this process's.
    pub account: Option<Account>,
}

/// Outcome of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Time of all steps on the clock.
    pub wall: Duration,
    /// Time of each step on the clock that was begun, in order.
    pub laps: Vec<Duration>,
    /// How it ended.
    pub ending: Ending,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Mean PSS of the processes of [`Trial::idle`] in KiB.
    pub idle_pss_kib: Option<f64>,
    /// Memory of the control groups that were made since before the clock, at the same moment, in KiB.
    pub idle_group_kib: Option<f64>,
    /// Counters of the machine while the clock ran.
    pub counted: Counters,
    /// Number of processes that were left behind, outlived the grace and had to be killed.
    pub stragglers: usize,
    /// Any other failure: before or after the clock, or with the processes that were left.
    pub trouble: Option<String>,
}

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Ended with this code.
    Exited(i32),
    /// Ended by this signal.
    Signaled(i32),
    /// Killed because it exceeded the time limit.
    TimedOut,
}

/// A step whose commands are built.
#[derive(Debug)]
enum Act {
    /// Commands that are started at once, all of which are waited for.
    Commands(Vec<Command>),
    Reap,
    Answer(Answer),
}

/// The runner of trials, one after another.
#[derive(Debug)]
pub struct Runner {
    stdin: File,
    stdout: File,
    stderr: File,
    time_limit: Duration,
    /// Children of this process that no candidate left behind.
    kept: Vec<Pid>,
    /// Values noted by steps of this run, by the name of their place.
    noted: BTreeMap<String, String>,
}

impl Runner {
    /// Makes this process a subreaper.
    pub fn new(time_limit: Duration, kept: Vec<Pid>) -> Result<Self> {
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
            kept,
            noted: BTreeMap::new(),
        })
    }

    /// Runs `trial` once. Fails if it could not be started or waited for, which may not be the program's fault.
    pub fn run(&mut self, trial: &Trial) -> Result<Outcome> {
        self.noted.clear();
        self.empty_streams()?;
        let mut trouble = self.off_the_clock(trial, BEFORE, &trial.before)?;
        let mut laps = Vec::new();
        let mut ending = Ending::Exited(trial.exit);
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut counted = Counters::default();
        let groups = trial.idle.as_ref().map(|_| Groups::now());
        if trouble.is_none() && !interruption::pending() {
            self.empty_streams()?;
            if trial.cold {
                drop_caches()?;
            }
            let before = Counters::read();
            (laps, ending) = self.on_the_clock(trial)?;
            counted = Counters::read().since(&before);
            (stdout, stderr) = (contents(&self.stdout)?, contents(&self.stderr)?);
            trouble = miscounted(trial.leaves, &self.kept)?;
        }
        let (mut idle_pss_kib, mut idle_group_kib) = (None, None);
        if let Some(program) = trial.idle.as_deref().filter(|_| trouble.is_none()) {
            idle_pss_kib = idle_pss(program, &self.kept)?;
            trouble = idle_pss_kib
                .is_none()
                .then(|| format!("left no process of {}", program.display()));
            idle_group_kib = groups.and_then(|before| before.memory_since());
        }
        let after = self.off_the_clock(trial, "after", &trial.after)?;
        Ok(Outcome {
            wall: laps.iter().sum(),
            laps,
            ending,
            stragglers: self.sweep(GRACE)?,
            stdout,
            stderr,
            idle_pss_kib,
            idle_group_kib,
            counted,
            trouble: trouble.or(after),
        })
    }

    fn on_the_clock(&self, trial: &Trial) -> Result<(Vec<Duration>, Ending)> {
        let acts = self.acts(trial, &trial.timed)?;
        let mut ending = Ending::Exited(trial.exit);
        let mut laps = Vec::with_capacity(acts.len());
        let mut last = Instant::now();
        for act in acts {
            ending = self.act(act)?;
            let now = Instant::now();
            laps.push(now - last);
            last = now;
            if !matches!(ending, Ending::Exited(code) if code == trial.exit) || interruption::pending() {
                break;
            }
        }
        Ok((laps, ending))
    }

    /// Runs steps off the clock; returns the first failure. Steps after a failure are run all the same.
    fn off_the_clock(&mut self, trial: &Trial, when: &str, steps: &[Step]) -> Result<Option<String>> {
        let mut trouble = None;
        for step in steps {
            // Steps after the clock are run even after a signal, because they clean up.
            if when == BEFORE && interruption::pending() {
                break;
            }
            if matches!(step, Step::Note(_)) {
                self.empty_streams()?;
            }
            let mut act = self.prepared(trial, step)?;
            if let Act::Commands(commands) = &mut act {
                for command in commands {
                    // A separate process group, so that ^C at the terminal does not end it.
                    command.process_group(0);
                }
            }
            let ending = self.act(act)?;
            if let Step::Note(note) = step {
                let told = contents(&self.stdout)?;
                let told = String::from_utf8_lossy(&told).trim().to_owned();
                self.noted.insert(format!("{{{}}}", note.place()), told);
            }
            if ending != Ending::Exited(0) && trouble.is_none() {
                let stderr = contents(&self.stderr)?;
                let stderr = String::from_utf8_lossy(&stderr);
                let said = stderr.lines().last().unwrap_or_default();
                trouble = Some(format!("{when} the clock, {step:?}: {ending:?}: {said}"));
            }
        }
        Ok(trouble)
    }

    /// Builds the commands beforehand, so that only their run is on the clock.
    fn acts(&self, trial: &Trial, steps: &[Step]) -> Result<Vec<Act>> {
        steps.iter().map(|step| self.prepared(trial, step)).collect()
    }

    fn prepared(&self, trial: &Trial, step: &Step) -> Result<Act> {
        Ok(match step {
            Step::Wait(Wait::Reap) => Act::Reap,
            Step::Answer(answer) => Act::Answer(answer.clone()),
            Step::Parallel(commands) => Act::Commands(
                (commands.iter())
                    .map(|argv| self.command(trial, argv))
                    .collect::<Result<_>>()?,
            ),
            Step::Run(argv)
            | Step::Note(Note { argv, .. })
            | Step::Repeat(Repeat { argv, .. })
            | Step::Together(Together { argv, .. }) => Act::Commands(vec![self.command(trial, argv)?]),
        })
    }

    fn act(&self, act: Act) -> Result<Ending> {
        let commands = match act {
            Act::Reap => {
                return Ok(match self.sweep(self.time_limit)? {
                    0 => Ending::Exited(0),
                    _ => Ending::TimedOut,
                });
            }
            Act::Answer(answer) => {
                return Ok(match answer.arrives_within(self.time_limit) {
                    true => Ending::Exited(0),
                    false => Ending::TimedOut,
                });
            }
            Act::Commands(commands) => commands,
        };
        let deadline = Instant::now() + self.time_limit;
        let mut begun = Vec::with_capacity(commands.len());
        for mut command in commands {
            let child = command
                .spawn()
                .with_context(|| format!("start {}", command.get_program().display()))?;
            // The pidfd is opened while the program runs; only the end of the wait is on the clock.
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).context("open a pidfd")?;
            begun.push((child, pidfd));
        }
        let mut worst = Ending::Exited(0);
        for (mut child, pidfd) in begun {
            let in_time = ends_within(&pidfd, deadline.saturating_duration_since(Instant::now()))?;
            if !in_time {
                pidfd_send_signal(&pidfd, Signal::KILL).context("kill what did not end in time")?;
            }
            let status = child.wait().context("reap")?;
            let found = if in_time { ending(status) } else { Ending::TimedOut };
            if found != Ending::Exited(0) {
                worst = found;
            }
        }
        Ok(worst)
    }

    /// Reaps all processes that were left behind; kills those that outlive the grace. Returns the number of killed
    /// ones.
    fn sweep(&self, grace: Duration) -> Result<usize> {
        let deadline = Instant::now() + grace;
        let mut killed = 0;
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some(_)) => {}
                Err(rustix::io::Errno::CHILD) => return Ok(killed),
                Err(error) => return Err(error).context("reap what was left behind"),
                Ok(None) => {
                    let mut left = children()?;
                    left.retain(|pid| !self.kept.contains(pid));
                    let Some(pid) = left.first() else {
                        return Ok(killed);
                    };
                    killed += await_or_kill(*pid, deadline.saturating_duration_since(Instant::now()))?;
                }
            }
        }
    }

    fn empty_streams(&mut self) -> Result<()> {
        for stream in [&mut self.stdin, &mut self.stdout, &mut self.stderr] {
            stream
                .set_len(0)
                .and_then(|()| stream.rewind())
                .context("empty a memory file")?;
        }
        Ok(())
    }

    fn command(&self, trial: &Trial, argv: &[String]) -> Result<Command> {
        let stream = |file: &File| {
            file.try_clone()
                .map(Stdio::from)
                .context("duplicate a memory file")
        };
        let filled = |word: &String| {
            let places = self.noted.iter();
            places.fold(word.clone(), |word, (place, told)| word.replace(place, told))
        };
        let mut command = Command::new(&argv[0]);
        command
            .args(argv[1..].iter().map(filled))
            .env_clear()
            .envs(trial.env.iter().map(|(name, value)| (name, value)))
            .stdin(stream(&self.stdin)?)
            .stdout(stream(&self.stdout)?)
            .stderr(stream(&self.stderr)?);
        if let Some(account) = &trial.account {
            // std drops the supplementary groups along with the user id.
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

/// Reads a stream without moving its file position, which running programs share.
fn contents(stream: &File) -> Result<Vec<u8>> {
    let mut bytes = vec![0; STREAM_LIMIT];
    let length = stream.read_at(&mut bytes, 0).context("read a memory file")?;
    bytes.truncate(length);
    Ok(bytes)
}

/// Writes what is only in memory to the disks, and lets the kernel forget what it has of them. Needs root.
fn drop_caches() -> Result<()> {
    const SWITCH: &str = "/proc/sys/vm/drop_caches";
    rustix::fs::sync();
    std::fs::write(SWITCH, "3").with_context(|| format!("write {SWITCH}"))
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

/// Waits up to `left` for a child of this process, then kills it. Returns 1 if it was killed.
fn await_or_kill(pid: Pid, left: Duration) -> Result<usize> {
    // The process is not reaped yet, so the number cannot have passed to another.
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).context("open a pidfd")?;
    if ends_within(&pidfd, left)? {
        return Ok(0);
    }
    pidfd_send_signal(&pidfd, Signal::KILL).context("kill what was left behind")?;
    ends_within(&pidfd, GRACE)?;
    Ok(1)
}
