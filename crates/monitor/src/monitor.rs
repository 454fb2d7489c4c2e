//! Interface of the monitor.

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

/// Settings of a monitor.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Signal that asks the container to end, sent when this process is asked to.
    pub stop_signal: i32,
    /// Time after that until it is killed; `None` for never.
    pub stop_timeout: Option<Duration>,
    /// True if standard input ends with the first client that has sent some, docker's `StdinOnce`.
    pub stdin_once: bool,
    /// Time for which a client may keep the container's output waiting, or stay silent after it has connected:
    /// [`PATIENCE`].
    pub patience: Duration,
    /// Upper bound of the bytes that the container may write to its output: it is killed at the first byte beyond.
    pub output_limit: Option<u64>,
}

/// Reasonable value of [`Settings::patience`].
pub const PATIENCE: Duration = Duration::from_secs(10);

/// Container to watch: the parent's ends of it; its program runs, or is about to.
#[derive(Debug)]
pub struct Container<'a> {
    /// Pidfd of its first process.
    pub pidfd: BorrowedFd<'a>,
    /// Parent of that process, where this process is not the parent.
    pub guardian: Option<&'a Guardian>,
    /// Writing end of its standard input.
    pub stdin: Option<OwnedFd>,
    /// Reading end of its standard output.
    pub stdout: Option<OwnedFd>,
    /// Reading end of its standard error.
    pub stderr: Option<OwnedFd>,
    /// Master of its terminal, in place of the three.
    pub console: Option<OwnedFd>,
}

/// Way in which a container ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Ended by itself, with this code.
    Code(i32),
    /// Killed by a signal.
    Signal(i32),
}

impl Exit {
    /// Returns docker's exit code.
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

/// End of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Exit status.
    pub exit: Exit,
    /// True if this process was asked to end it, by SIGTERM or SIGINT.
    pub asked_to_stop: bool,
    /// True if it was killed because it has written more than [`Settings::output_limit`].
    pub output_over: bool,
    /// Number of entries of the log that the disk did not take, since the log was opened.
    pub lost_entries: u64,
}

/// Decision whether the container may live on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The container may live on.
    Live,
    /// The container is killed; without one, waiting is over. The caller remembers the reason.
    Kill,
    /// The container gets its stop signal, and is killed where that does not end it in time.
    End,
    /// The container ends for good, as if this process was asked by SIGTERM.
    Stop,
}

/// Work of the caller while the monitor waits: time limits, health checks. No method may block for long.
pub trait Chores {
    /// Returns when it wants to be called next.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// Returns descriptors for whose readability it wants to be called.
    fn waits_for(&self) -> [Option<BorrowedFd<'_>>; 3] {
        [None; 3]
    }

    /// Called when the time has come or a descriptor is readable.
    fn perform(&mut self, now: Instant) -> Verdict {
        let _ = now;
        Verdict::Live
    }

    /// Called when this process was asked to end: the container's stop signal follows.
    fn asked_to_stop(&mut self) {}

    /// Called when the container is in other networks than before. True if it has what it needs of this process there.
    fn networks_changed(&mut self) -> bool {
        false
    }
}

/// No work.
impl Chores for () {}

/// Monitor of a container. It outlives the container's runs: clients that come in between wait for the next.
#[derive(Debug)]
pub struct Monitor {
    pub(crate) signals: SignalFd,
    pub(crate) clients: Clients,
    pub(crate) log: Option<LogFile>,
    pub(crate) settings: Settings,
    /// Measured when there is time for it.
    pub(crate) footprint: Option<Footprint>,
}

impl Monitor {
    /// Keeps SIGTERM and SIGINT for the loop from here on; called before the container is made, so that no signal is
    /// lost.
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
    /// container in the foreground. If it does not read, the container waits, as with a pipe.
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

    /// Takes the clients that wait at the socket of the command that has watched the container before.
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
    /// the clients, which have not been told about the end yet.
    ///
    /// # Errors
    /// [`MonitorError`]; the container may still be running.
    pub fn watch(
        &mut self,
        container: Container<'_>,
        chores: &mut dyn Chores,
    ) -> Result<Ended, MonitorError> {
        Watch::new(self, Some(container))?.through_its_end(chores)
    }

    /// Waits for a moment, as before a restart; false if this process was asked to end before.
    ///
    /// # Errors
    /// [`MonitorError::Watch`].
    pub fn wait_until(&mut self, moment: Instant, chores: &mut dyn Chores) -> Result<bool, MonitorError> {
        Watch::new(self, None)?.until(moment, chores)
    }

    /// Tells all clients that the container has ended, and closes their connections. Call it after the end has been
    /// recorded: clients may look at the record at once.
    pub fn farewell(&mut self, code: i32, text: &str) {
        self.clients.farewell(code, text);
    }
}
