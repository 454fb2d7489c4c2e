//! The monitor as its caller sees it.

use crate::MonitorError;
use crate::clients::{Client, Clients};
use crate::door::Door;
use crate::frame::Streams;
use crate::log::LogFile;
use crate::socket::Listener;
use crate::watch::Watch;
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::process::Signal;
use std::time::{Duration, Instant};
use tote_sys::{ExitStatus, Footprint, Guardian, SignalFd, SignalSet};

/// How a monitor behaves.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// The signal that asks the container to end, sent when this process is asked to.
    pub stop_signal: i32,
    /// How long after that it is killed; never without.
    pub stop_timeout: Option<Duration>,
    /// Whether standard input ends with the first client that has sent some, docker's `StdinOnce`.
    pub stdin_once: bool,
    /// How long a client may keep the container's output waiting, or stay silent after it has connected: [`PATIENCE`].
    pub patience: Duration,
}

/// What is reasonable for [`Settings::patience`].
pub const PATIENCE: Duration = Duration::from_secs(10);

/// What is watched: the parent's ends of a container whose program runs, or is about to.
#[derive(Debug)]
pub struct Container<'a> {
    /// Its first process.
    pub pidfd: BorrowedFd<'a>,
    /// The parent of that, where this process is not.
    pub guardian: Option<&'a Guardian>,
    /// The writing end of its standard input.
    pub stdin: Option<OwnedFd>,
    /// The reading end of its standard output.
    pub stdout: Option<OwnedFd>,
    /// The reading end of its standard error.
    pub stderr: Option<OwnedFd>,
    /// The master of its terminal, in place of the three.
    pub console: Option<OwnedFd>,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By a signal.
    Signal(i32),
}

impl Exit {
    /// docker's exit code.
    #[must_use]
    pub fn code(self) -> i32 {
        match self {
            Self::Code(code) => code & 0xff,
            Self::Signal(signal) => 128 + signal,
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match status {
            ExitStatus::Code(code) => Self::Code(code),
            ExitStatus::Signal(signal) => Self::Signal(signal),
        }
    }
}

/// The end of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub exit: Exit,
    /// Whether this process was asked to end it, by SIGTERM or SIGINT.
    pub asked_to_stop: bool,
    /// Entries of the log that the disk did not take, since the log was opened.
    pub lost_entries: u64,
}

/// Whether the container may live on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Live,
    /// It is killed; where there is none, waiting is over. Why is for the caller to remember.
    Kill,
}

/// What the caller does while the monitor waits: time limits, health checks. None of it may block for long.
pub trait Chores {
    /// When it wants to be called next.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Descriptors for whose readability it wants to be called.
    fn waits_for(&self) -> [Option<BorrowedFd<'_>>; 3] {
        [None; 3]
    }

    /// Called when either has happened.
    fn perform(&mut self, now: Instant) -> Verdict {
        let _ = now;
        Verdict::Live
    }

    /// This process was asked to end: the container's stop signal follows.
    fn asked_to_stop(&mut self) {}
}

/// Nothing.
impl Chores for () {}

/// A container's monitor. It outlives the container's runs: clients that come in between wait for the next.
#[derive(Debug)]
pub struct Monitor {
    pub(crate) signals: SignalFd,
    pub(crate) clients: Clients,
    pub(crate) log: Option<LogFile>,
    pub(crate) settings: Settings,
    /// Looked at when there is time for it.
    pub(crate) footprint: Option<Footprint>,
}

impl Monitor {
    /// From here on SIGTERM and SIGINT are kept for the loop; before the container is made, so that none is lost.
    ///
    /// # Errors
    /// [`MonitorError::Prepare`].
    pub fn new(listener: Listener, log: Option<LogFile>, settings: Settings) -> Result<Self, MonitorError> {
        let signals = SignalSet::empty()
            .with(Signal::TERM.as_raw())
            .with(Signal::INT.as_raw());
        let signals = SignalFd::new(&signals).map_err(|source| MonitorError::Prepare {
            attempt: "wait for signals",
            source,
        })?;
        Ok(Self {
            signals,
            clients: Clients::new(listener, settings.patience),
            log,
            settings,
            footprint: None,
        })
    }

    /// Takes a client that is connected already and gets everything from the start: the command that starts the
    /// container in the foreground. What it does not read keeps the container waiting, as a pipe would.
    ///
    /// # Errors
    /// [`MonitorError::Prepare`].
    pub fn adopt(&mut self, socket: OwnedFd, streams: Streams) -> Result<(), MonitorError> {
        let client = Client::trusted(socket, streams, Instant::now());
        self.clients.add(client.map_err(|source| MonitorError::Prepare {
            attempt: "use the connection to the command",
            source,
        })?);
        Ok(())
    }

    /// Takes those who wait at the door of the command that has watched the container before.
    ///
    /// # Errors
    /// [`MonitorError::Prepare`].
    pub fn take_over(&mut self, door: Door) -> Result<(), MonitorError> {
        for socket in door.waiting {
            self.adopt(socket, Streams::default())?;
        }
        for socket in door.silent {
            self.clients.add(Client::new(socket, Instant::now()));
        }
        while let Ok(Some(socket)) = door.listener.accept() {
            self.clients.add(Client::new(socket, Instant::now()));
        }
        Ok(())
    }

    /// Watches a container until it has ended. It is reaped then, and the last of its output is in the log and with
    /// the clients; that it has ended they do not know yet.
    ///
    /// # Errors
    /// [`MonitorError`]; the container may run still.
    pub fn watch(
        &mut self,
        container: Container<'_>,
        chores: &mut dyn Chores,
    ) -> Result<Ended, MonitorError> {
        Watch::new(self, Some(container))?.through_its_end(chores)
    }

    /// Waits for a moment, as before a restart. Gives false when this process is asked to end before.
    ///
    /// # Errors
    /// [`MonitorError::Watch`].
    pub fn wait_until(&mut self, moment: Instant, chores: &mut dyn Chores) -> Result<bool, MonitorError> {
        Watch::new(self, None)?.until(moment, chores)
    }

    /// Tells all clients that the container has ended, and closes their connections. After its end is written down:
    /// who hears of it may look.
    pub fn farewell(&mut self, code: i32, text: &str) {
        self.clients.farewell(code, text);
    }
}
