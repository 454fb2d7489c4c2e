//! Stages that are built at once, and are at work: what they write, the signals that reach them, and their ends.

use super::stage_inputs::Inputs;
use super::stage_output::StageOutput;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use rustix::fs::FlockOperation;
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tote_build::Event;
use tote_runtime::Insistence;
use tote_sys::{Endless, SignalFd, SignalSet, Wait, best_effort};

/// Time that stages have to end when they are asked to.
pub(crate) const GRACE: Duration = Duration::from_secs(10);

/// Time that they have when their commands are killed.
const LAST_GRACE: Duration = Duration::from_secs(5);

/// Signals that the user may send to a build.
const SIGNALS: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// Stages at work, or the part of a process that works at one.
#[derive(Default)]
pub(crate) struct Stages {
    pub(crate) running: Vec<Running>,
    /// Signals that the user sends, from the first stage on.
    pub(crate) signals: Option<SignalFd>,
    insistence: Insistence,
    /// Number of the signal by which the user has ended the build.
    pub(crate) interrupted: Option<i32>,
    /// Time at which more is done to end stages that are still there.
    pub(crate) until: Option<Instant>,
    /// True if stages have been told to kill their commands.
    pub(crate) insisted: bool,
    /// Inputs for attestations.
    pub(crate) inputs: Inputs,
    /// In the process of a stage: directory of the files by whose locks stages tell one another what they make.
    pub(crate) claims: Option<PathBuf>,
    /// Lock of the result that this process makes.
    pub(crate) claim: Option<OwnedFd>,
}

/// Process of a stage.
pub(crate) struct Running {
    pub(crate) at: usize,
    pub(crate) text: String,
    pub(crate) process: OwnedFd,
    pub(crate) outputs: [StageOutput; 2],
    pub(crate) dir: PathBuf,
}

impl Stages {
    /// Ends a claim.
    pub(crate) fn release(&mut self) {
        // A process that a command has left behind has a copy of the descriptor: only an unlock frees all copies.
        if let Some(claim) = self.claim.take() {
            best_effort(tote_sys::flock(&claim, FlockOperation::Unlock));
        }
    }

    /// Lets signals end the process of a stage, between its commands. A command has them blocked, to pass them on.
    pub(crate) fn unblock_signals(&self) {
        if self.claims.is_some() {
            best_effort(tote_sys::unblock_signals(&signals()));
        }
    }

    /// Sends a signal to all stages at work.
    pub(crate) fn send(&self, signal: Signal) {
        for stage in &self.running {
            // A process that has just ended needs no signal.
            best_effort(pidfd_send_signal(&stage.process, signal));
        }
    }

    /// Passes signals of the user on. The third one that asks for the end makes each stage kill its command.
    fn pass_signals_on(&mut self) -> Result<(), Errno> {
        while let Some(number) = self.signals.as_ref().map_or(Ok(None), SignalFd::next)? {
            let Some(signal) = Signal::from_named_raw(number) else {
                continue;
            };
            self.send(signal);
            if [Signal::USR1, Signal::USR2].contains(&signal) {
                continue;
            }
            self.interrupted.get_or_insert(number);
            self.until.get_or_insert_with(|| Instant::now() + GRACE);
            if self.insistence.note(number) && !std::mem::replace(&mut self.insisted, true) {
                self.until = Some(Instant::now() + LAST_GRACE);
            }
        }
        Ok(())
    }

    /// Does more to end the stages that are still there after the time to do so.
    fn hurry(&mut self) {
        if self.until.is_none_or(|until| until > Instant::now()) {
            return;
        }
        if std::mem::replace(&mut self.insisted, true) {
            self.send(Signal::KILL);
            // A process that is killed ends, whatever it does.
            self.until = None;
            return;
        }
        // With the one from before these are three, at which a stage kills its command and clears up. Two equal signals can become one.
        self.send(Signal::INT);
        self.send(Signal::TERM);
        self.until = Some(Instant::now() + LAST_GRACE);
    }

    /// Waits for output, a signal or the end of a stage; returns the place of one that has ended.
    pub(crate) fn turn(&mut self, say: &mut dyn FnMut(Event<'_>)) -> Result<Option<usize>, Errno> {
        let mut fds = Vec::new();
        for stage in &self.running {
            fds.push(PollFd::new(&stage.process, PollFlags::IN));
            fds.extend(stage.outputs.iter().filter_map(|output| {
                let pipe = output.pipe()?;
                Some(PollFd::from_borrowed_fd(pipe, PollFlags::IN))
            }));
        }
        fds.extend(
            self.signals
                .as_ref()
                .map(|signals| PollFd::new(signals, PollFlags::IN)),
        );
        match Wait::until_or(self.until, Endless::Worker).poll(&mut fds) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
        drop(fds);
        self.pass_signals_on()?;
        self.hurry();
        for stage in &mut self.running {
            let text = &stage.text;
            for output in &mut stage.outputs {
                let is_error = output.is_error;
                output.read(&mut |line| {
                    say(Event::Line {
                        stage: text,
                        line,
                        is_error,
                    });
                });
            }
        }
        let ended = self.running.iter().position(|stage| is_over(&stage.process));
        Ok(ended)
    }
}

impl Drop for Stages {
    fn drop(&mut self) {
        // A signal that came after the last stage has its usual effect. One that has ended the build was heard.
        if self.signals.is_some() && self.interrupted.is_none() {
            best_effort(tote_sys::unblock_signals(&signals()));
        }
    }
}

/// True if a process has ended.
fn is_over(process: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    matches!(Wait::now().poll(&mut fds), Ok(1))
}

pub(crate) fn signals() -> SignalSet {
    let all = SIGNALS.iter();
    all.fold(SignalSet::empty(), |set, signal| set.with(signal.as_raw()))
        .without_ignored_hangup()
}
