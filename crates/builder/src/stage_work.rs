//! Stages that are built at once: one process each, a fork of the build. What such a process writes comes through pipes and is passed on by
//! lines; what it has made is said in a file at its end.
//!
//! A process for a stage, and not only for its commands: a large copy, a download and the packing of a layer then go on beside the other stages
//! as well, on a processor of their own, and the code that carries out an instruction knows nothing of it.

use super::stage_output::StageOutput;
use super::stage_report::StageReport;
use super::stages::{GRACE, Running, Stages, signals};
use super::worker::Building;
use super::workspace::make_dir;
use super::{BuildFault, StageFault};
use crate::EngineError;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tote_build::{BuildError, Event, Key, Outcome, StageLabel, StageWork};
use tote_sys::{ExitStatus, LockKind, SignalFd, WORK_LOCK, best_effort, lock_within};

/// Name of the file in a stage's directory by which its process says how it went.
const REPORT: &str = "report";

fn failed(attempt: &'static str) -> impl Fn(Errno) -> EngineError {
    move |source| EngineError::Kernel { attempt, source }
}

impl Building<'_> {
    /// Starts the process of a stage.
    pub(crate) fn start_stage(
        &mut self,
        stage: &StageLabel,
        work: StageWork<'_, Self>,
    ) -> Result<(), EngineError> {
        let (dir, claims) = (self.workspace.next(), self.workspace.path().join("claims"));
        for dir in [&dir, &claims] {
            make_dir(dir, 0o700)?;
        }
        if self.stages.signals.is_none() {
            // Before the first fork, so that no signal comes between.
            let fd = SignalFd::new(&signals()).map_err(failed("listen to signals during the build"))?;
            self.stages.signals = Some(fd);
        }
        let pipe = failed("make a pipe for the output of a stage");
        let (out, to_out) = StageOutput::new(false).map_err(&pipe)?;
        let (err, to_err) = StageOutput::new(true).map_err(&pipe)?;
        // What this process has not written yet would be written by both.
        best_effort(std::io::stdout().flush());
        let parent = getpid();
        // process: stage of a build
        let forked = tote_sys::fork_worker(|| {
            // Without it the stage would go on although its build has ended, now or before this line.
            best_effort(tote_sys::die_with_parent());
            if getppid() != Some(parent) {
                return 1;
            }
            self.work_apart((&dir, claims), [to_out, to_err], work)
        });
        let pid = forked.map_err(failed("start the process of a stage"))?;
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(failed("watch the process of a stage"))?;
        self.stages.running.push(Running {
            at: stage.at,
            text: stage.text.clone(),
            process,
            outputs: [out, err],
            dir,
        });
        Ok(())
    }

    /// Works at a stage in its own process.
    fn work_apart(
        &mut self,
        (dir, claims): (&Path, PathBuf),
        [out, err]: [OwnedFd; 2],
        work: StageWork<'_, Self>,
    ) -> u8 {
        let workspace = self.workspace.path().to_owned();
        // The keys of a terminal reach the build, which passes them on: a command is to get each once.
        best_effort(rustix::process::setpgid(None::<Pid>, None::<Pid>));
        let given = rustix::stdio::dup2_stdout(&out).and_then(|()| rustix::stdio::dup2_stderr(&err));
        if given.is_err() {
            return 1;
        }
        drop((out, err));
        // This also lets signals end this process.
        self.stages = Stages::default();
        self.stages.claims = Some(claims);
        self.workspace.move_to(dir);
        let (commits, downloaded) = (self.commits.len(), self.downloaded.len());
        let outcome = work(self);
        // The build has those from before.
        self.commits.drain(..commits);
        self.downloaded.drain(..downloaded);
        self.ingest.tell_doubts();
        let report = StageReport::of(self, outcome, &workspace);
        // Without the file the build fails.
        let written =
            serde_json::to_vec(&report).map(|text| tote_state::closed::write(&dir.join(REPORT), text));
        best_effort(std::io::stdout().flush());
        u8::from(!matches!(written, Ok(Ok(()))))
    }

    /// Waits for the end of a stage.
    pub(crate) fn ended_stage(&mut self) -> Result<(usize, Outcome<Self>), EngineError> {
        let wait = failed("wait for the stages of the build");
        let stage = loop {
            if let Some(place) = self.stages.turn(&mut *self.say).map_err(&wait)? {
                break self.stages.running.remove(place);
            }
        };
        let (at, outcome) = self.hear_of(stage)?;
        match self.stages.interrupted {
            // Each stage ends in its own way then, and the first of them is not the reason.
            Some(signal) => Err(BuildFault::from(StageFault::Interrupted { signal }).into()),
            None => Ok((at, outcome)),
        }
    }

    /// Reads the rest of a stage's output and its report.
    fn hear_of(&mut self, mut stage: Running) -> Result<(usize, Outcome<Self>), EngineError> {
        for output in &mut stage.outputs {
            let (text, is_error) = (&stage.text, output.is_error);
            output.finish(&mut |line| {
                (self.say)(Event::Line {
                    stage: text,
                    line,
                    is_error,
                });
            });
        }
        let status = ExitStatus::of(stage.process.as_fd());
        let status = status.map_err(failed("learn how a stage has ended"))?;
        // absence: a stage without a report is an error of its own below
        let report = std::fs::read(stage.dir.join(REPORT)).unwrap_or_default();
        if let Ok(report) = serde_json::from_slice::<StageReport>(&report) {
            return Ok((stage.at, report.hear(stage.at, self)?));
        }
        let fault = match (status, self.stages.interrupted) {
            (_, Some(signal)) => StageFault::Interrupted { signal },
            (ExitStatus::Signal(signal), None) => StageFault::Gone {
                how: format!("was ended by signal {signal}"),
            },
            (ExitStatus::Code(code), None) => StageFault::Gone {
                how: format!("has left no report (exit code {code})"),
            },
        };
        let error = BuildError::Result(BuildFault::from(fault).into());
        Ok((stage.at, Err(error)))
    }

    /// Ends all stages that are at work: asks them to end, and kills those that have not done so within the grace.
    pub(crate) fn stop_stages(&mut self) {
        if self.stages.running.is_empty() {
            return;
        }
        if self.stages.interrupted.is_none() {
            self.stages.send(Signal::TERM);
        }
        self.stages.until.get_or_insert_with(|| Instant::now() + GRACE);
        while !self.stages.running.is_empty() {
            match self.stages.turn(&mut *self.say) {
                Ok(Some(place)) => {
                    let stage = self.stages.running.remove(place);
                    // The error that ends the build is another one. What a stage has made until now is in the cache.
                    best_effort(self.hear_of(stage).map(drop));
                }
                Ok(None) => {}
                Err(_) => {
                    // It cannot be waited for: the end of this process ends them.
                    self.stages.send(Signal::KILL);
                    self.stages.running.clear();
                }
            }
        }
    }

    /// Takes the lock of a key; true if this process had to wait for another stage.
    pub(crate) fn claim_key(&mut self, key: &Key) -> Result<bool, EngineError> {
        let Some(claims) = &self.stages.claims else {
            return Ok(false);
        };
        let path = claims.join(tote_store::sha256(key.as_bytes()).hex());
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR);
        let file = file.map_err(EngineError::file("open", &path))?;
        let waited = match tote_sys::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => false,
            Err(Errno::WOULDBLOCK) => {
                lock_within(file.as_fd(), LockKind::Exclusive, WORK_LOCK, &path)
                    .map_err(EngineError::file("lock", &path))?;
                true
            }
            Err(errno) => return Err(EngineError::file("lock", &path)(errno)),
        };
        self.stages.claim = Some(file);
        Ok(waited)
    }
}
