//! The attendant: the loop between a container's streams and its machine.

mod begin;
mod ready;

use crate::bringer::Bringer;
use crate::console::{Tail, last_words};
use crate::shares::Server;
use crate::sleeper::Sleeper;
use crate::streams::{KILL_IN_GUEST, OUTPUTS, RESIZED, Streams, Waiting};
use crate::visitors::Visitors;
use crate::vmm::{Booted, Vmm};
use crate::{Machine, VmmError};
use rustix::fd::AsFd as _;
use std::io::IoSlice;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tote_channel::{End, Event, Host, Session};
use tote_sys::Errno;

/// Time in which the guest has to come up: TCG on a host with ten times as many tasks as processors takes a minute.
pub(crate) const BOOT: Duration = Duration::from_secs(180);

/// Bytes that are read of a stream at a time.
const CHUNK: usize = 32 << 10;

/// Signals by which a machine ends that has not begun its container.
const ENDING: [i32; 4] = [1, 2, 3, 15];

/// End of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Exit code, as docker has it.
    pub code: u8,
    /// Something that the user has to know, in one line.
    pub message: Option<String>,
}

impl Verdict {
    fn code(code: u8) -> Self {
        Self { code, message: None }
    }
}

/// Runs a container in a machine: boots it, has it perform the plan, and passes streams and signals on until the end.
/// `warn` gets lines about what the container has to do without.
#[must_use]
pub fn attend(
    vmm: &dyn Vmm,
    machine: &Machine,
    plan: &[u8],
    streams: Streams<'_>,
    warn: &mut dyn FnMut(String),
) -> Verdict {
    attend_within(BOOT, (vmm, machine), (plan, None), streams, warn)
}

/// Does so with a plan that comes once the guest is ready.
#[must_use]
pub fn attend_later(
    (vmm, machine): (&dyn Vmm, &Machine),
    bringer: Box<dyn Bringer>,
    streams: Streams<'_>,
    warn: &mut dyn FnMut(String),
) -> Verdict {
    attend_within(BOOT, (vmm, machine), (&[], Some(bringer)), streams, warn)
}

/// Does so for a guest that has this time to come up.
pub(crate) fn attend_within(
    patience: Duration,
    (vmm, machine): (&dyn Vmm, &Machine),
    (plan, mut bringer): (&[u8], Option<Box<dyn Bringer>>),
    streams: Streams<'_>,
    warn: &mut dyn FnMut(String),
) -> Verdict {
    let (mut attendant, booted) = match Attendant::boot((vmm, machine), streams, warn) {
        Ok(begun) => begun,
        Err(error) => {
            let verdict = failed(&error, false);
            if let (Some(bringer), Some(reason)) = (&mut bringer, &verdict.message) {
                bringer.failed(reason);
            }
            return verdict;
        }
    };
    (attendant.patience, attendant.bringer) = (patience, bringer);
    attendant.attend(booted, (Some(vmm), plan), warn)
}

/// Returns the verdict of a machine that failed: docker's 137 of a killed container, once there is one.
pub(crate) fn failed(error: &VmmError, runs: bool) -> Verdict {
    Verdict {
        code: if runs { 137 } else { 125 },
        message: Some(tote_sys::chain(error)),
    }
}

pub(crate) struct Attendant<'a> {
    streams: Streams<'a>,
    /// The process in whose namespaces the plan is performed.
    joins: Option<Session>,
    visitors: Visitors,
    host: Host,
    channel: UnixStream,
    /// True once nothing more comes through the channel.
    channel_ended: bool,
    /// The console of the kernel, until it has ended.
    console: Option<UnixStream>,
    /// Server of shared directories.
    server: Option<Server>,
    /// The machine, as long as it goes on from a template and has not said that it is up.
    sleeper: Option<Sleeper>,
    /// The one that brings the plan, until the program runs.
    bringer: Option<Box<dyn Bringer>>,
    last: Tail,
    waiting: [Waiting; 2],
    session: Option<Session>,
    /// The process of a rehearsal, until it has ended.
    rehearsal: Option<Session>,
    input_ended: bool,
    /// True if the input is a file that the first message brings.
    brings: bool,
    runs: bool,
    begin: Instant,
    /// Time that the guest has to come up.
    patience: Duration,
}

impl<'a> Attendant<'a> {
    fn boot(
        (vmm, machine): (&dyn Vmm, &Machine),
        streams: Streams<'a>,
        warn: &mut dyn FnMut(String),
    ) -> Result<(Self, Box<dyn Booted>), VmmError> {
        if streams.size().is_some() {
            streams.silence()?;
        }
        let served = machine.shares.as_ref();
        let served = served.and_then(|shares| Some((shares.server.as_deref()?, shares)));
        let (server, shares) = match served.map(Server::begin).transpose()? {
            Some((server, stream)) => (Some(server), Some(stream)),
            None => (None, None),
        };
        let (sleeper, (channel, console, booted)) = Sleeper::begin(vmm, machine, shares, warn)?;
        let mut attendant = Self {
            server,
            sleeper,
            ..Self::new(streams, channel, Some(console))
        };
        attendant.visitors.have(machine.spare.clone());
        Ok((attendant, booted))
    }

    fn new(mut streams: Streams<'a>, channel: UnixStream, console: Option<UnixStream>) -> Self {
        let (input_ended, patience) = (streams.mute, streams.patience);
        Self {
            visitors: Visitors::new(streams.visitors.take()),
            streams,
            joins: None,
            host: Host::new(),
            channel,
            channel_ended: false,
            console,
            server: None,
            sleeper: None,
            bringer: None,
            last: Tail::default(),
            waiting: [Waiting::default(), Waiting::default()],
            session: None,
            rehearsal: None,
            input_ended,
            brings: false,
            runs: false,
            begin: Instant::now(),
            patience,
        }
    }

    /// Speaks to the attendant of a machine that exists, to have a plan performed in its container.
    pub(crate) fn join(streams: Streams<'a>, channel: UnixStream) -> Self {
        Self {
            joins: Some(Session::FIRST),
            ..Self::new(streams, channel, None)
        }
    }

    /// Brings the input along as a file, with the first message.
    pub(crate) fn bringing(self) -> Self {
        Self {
            brings: true,
            input_ended: true,
            ..self
        }
    }

    /// Passes everything on until the end.
    pub(crate) fn attend(
        mut self,
        mut booted: Box<dyn Booted>,
        (vmm, plan): (Option<&dyn Vmm>, &[u8]),
        warn: &mut dyn FnMut(String),
    ) -> Verdict {
        // If the boot in place of a template fails as well, its own error says why.
        let mut warning = None;
        let verdict = loop {
            let turned = self.turn(booted.as_mut(), plan, warn);
            if self.runs || matches!(turned, Ok(Some(_))) {
                warning.take().into_iter().for_each(&mut *warn);
            }
            let error = match turned {
                Ok(None) => continue,
                Ok(Some(verdict)) => break Ok(verdict),
                Err(error) => error,
            };
            let (Some(vmm), Some(sleeper)) = (vmm, self.sleeper.take()) else {
                break Err(error);
            };
            let words = booted.end();
            match sleeper.boot_instead(vmm, &self.explained(error, words)) {
                Ok((text, (channel, console, instead))) => {
                    warning = Some(text);
                    (self.channel, self.console, booted) = (channel, Some(console), instead);
                    (self.host, self.channel_ended, self.begin) = (Host::new(), false, Instant::now());
                }
                Err(error) => break Err(error),
            }
        };
        // Some may have ended just before.
        self.visitors.send();
        let words = booted.end();
        for (waiting, to) in self.waiting.iter_mut().zip(self.streams.outputs) {
            waiting.finish(to);
        }
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(error) => failed(&self.explained(error, words), self.runs),
        };
        if let (Some(bringer), None, Some(reason)) = (&mut self.bringer, self.session, &verdict.message) {
            bringer.failed(reason);
        }
        verdict
    }

    /// Adds last words to an error that says little.
    fn explained(&self, error: VmmError, words: String) -> VmmError {
        let words: Vec<String> = Some(words)
            .filter(|words| !words.is_empty())
            .into_iter()
            .collect();
        let served = self.server.as_ref().map_or_else(Vec::new, Server::lines);
        let last = || last_words(&[served, words, self.last.lines(2)]);
        match error {
            VmmError::Ended { .. } => VmmError::Ended { last: last() },
            VmmError::Silent { seconds, .. } => VmmError::Silent {
                seconds,
                last: last(),
            },
            error => error,
        }
    }

    fn turn(
        &mut self,
        booted: &mut dyn Booted,
        plan: &[u8],
        warn: &mut dyn FnMut(String),
    ) -> Result<Option<Verdict>, VmmError> {
        if let Some(sleeper) = self.sleeper.as_mut().filter(|_| booted.runs()) {
            sleeper.wake(&mut self.host)?;
        }
        let ready = self.wait(booted)?;
        if ready.control {
            self.advance(booted)?;
        }
        if ready.console {
            self.read_console();
        }
        if let Some(server) = self.server.as_mut().filter(|_| ready.server) {
            server.advance()?;
        }
        if ready.channel
            && let Some(verdict) = self.read_channel(plan, booted, warn)?
        {
            return Ok(Some(verdict));
        }
        if ready.signals
            && let Some(verdict) = self.take_signals()?
        {
            return Ok(Some(verdict));
        }
        if ready.bringer
            && let Some(verdict) = self.take_plan()?
        {
            return Ok(Some(verdict));
        }
        if ready.input {
            self.read_input()?;
        }
        for (index, is_ready) in ready.outputs.into_iter().enumerate() {
            if is_ready {
                let count = self.waiting[index].write(self.streams.outputs[index]);
                if let Some(session) = self.session {
                    self.host.consumed(session, OUTPUTS[index], count);
                }
            }
        }
        for call in ready.calls {
            if let Some(container) = self.session {
                self.visitors.serve(call, (&mut self.host, container), booted)?;
            }
        }
        if self.visitors.has_members() {
            self.advance(booted)?;
        }
        self.visitors.exchange(booted, &mut self.host);
        self.write_channel();
        self.visitors.send();
        // What it has said before is read first.
        if ready.ended && (self.channel_ended || !ready.channel) {
            return Err(VmmError::Ended { last: String::new() });
        }
        if self.is_awaited() && self.begin.elapsed() >= self.patience {
            return Err(VmmError::Silent {
                seconds: self.patience.as_secs(),
                last: String::new(),
            });
        }
        Ok(None)
    }

    /// Hears of the VMM what has become of disks.
    fn advance(&mut self, booted: &mut dyn Booted) -> Result<(), VmmError> {
        loop {
            let changes = booted.advance()?;
            let (Some(container), false) = (self.session, changes.is_empty()) else {
                return Ok(());
            };
            self.visitors
                .changed(changes, (&mut self.host, container), booted)?;
        }
    }

    fn read_console(&mut self) {
        let Some(console) = &self.console else { return };
        let mut buffer = [0; 4096];
        match rustix::io::read(console, &mut buffer) {
            Ok(length) if length > 0 => self.last.push(&buffer[..length]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(_) | Err(_) => self.console = None,
        }
    }

    /// Takes what the guest says; returns the verdict if that was the end.
    fn read_channel(
        &mut self,
        plan: &[u8],
        booted: &mut dyn Booted,
        warn: &mut dyn FnMut(String),
    ) -> Result<Option<Verdict>, VmmError> {
        let mut buffer = vec![0; CHUNK];
        let length = match rustix::io::read(&self.channel, &mut buffer) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(None),
            Ok(0) | Err(_) => {
                self.channel_ended = true;
                return Ok(None);
            }
            Ok(length) => length,
        };
        for event in self.host.received(&buffer[..length])? {
            match event {
                Event::Ready(kernel) => {
                    self.sleeper = None;
                    self.visitors.kernel(&kernel);
                    match &mut self.bringer {
                        Some(bringer) => match bringer.rehearsal() {
                            Some(plan) => self.rehearsal = Some(self.host.begin(&plan, None, None)?),
                            None => bringer.ready()?,
                        },
                        None if self.session.is_none() => self.begin_container(plan)?,
                        None => {}
                    }
                }
                Event::Failed(session, ..) | Event::Ended(session, _) if self.rehearsal == Some(session) => {
                    self.rehearsal = None;
                    self.bringer.as_mut().map_or(Ok(()), |bringer| bringer.ready())?;
                }
                // A rehearsal warns of nothing: the container gives the same warning later.
                Event::Warning(session, _) if self.rehearsal == Some(session) => {}
                Event::Runs(session) if self.is_own(session) => {
                    (self.runs, self.bringer) = (true, None);
                }
                Event::Output(session, stream, bytes) if self.is_own(session) => {
                    self.waiting[usize::from(stream.number()) - 1].push(&bytes);
                }
                Event::Warning(session, text) if self.is_own(session) => warn(text),
                Event::Failed(session, code, text) if self.is_own(session) => {
                    let message = Some(text);
                    return Ok(Some(Verdict { code, message }));
                }
                Event::Ended(session, end) if self.is_own(session) => {
                    return Ok(Some(Verdict::code(match end {
                        End::Code(code) => code,
                        End::Signal(number) => 128_u8.saturating_add(number),
                    })));
                }
                event => self.visitors.hear(event, &mut self.host, booted)?,
            }
        }
        Ok(None)
    }

    /// True for the process whose streams these are.
    fn is_own(&self, session: Session) -> bool {
        self.session == Some(session)
    }

    /// Passes signals on; returns the verdict of a machine that has not begun its container.
    fn take_signals(&mut self) -> Result<Option<Verdict>, VmmError> {
        while let Some(number) = self
            .streams
            .signals
            .next()
            .map_err(VmmError::kernel("get signals"))?
        {
            let known = u8::try_from(number).unwrap_or_default();
            match (self.session, number) {
                (Some(session), RESIZED) => {
                    if let Some((rows, columns)) = self.streams.size() {
                        self.host.resize(session, rows, columns);
                    }
                }
                (Some(session), KILL_IN_GUEST) => self.host.signal(session, 9),
                (Some(session), _) => self.host.signal(session, known),
                (None, KILL_IN_GUEST) => return Ok(Some(Verdict::code(128 + 9))),
                (None, number) if ENDING.contains(&number) => {
                    return Ok(Some(Verdict::code(128 + known)));
                }
                (None, _) => {}
            }
        }
        Ok(None)
    }

    fn read_input(&mut self) -> Result<(), VmmError> {
        let Some(session) = self.session else {
            return Ok(());
        };
        let mut buffer = vec![0; self.host.room(session).min(CHUNK)];
        match rustix::io::read(self.streams.input, &mut buffer) {
            Ok(length) if length > 0 => _ = self.host.input(session, &buffer[..length]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // The other side of a terminal is gone: EIO is its end.
            Ok(_) | Err(_) => {
                self.input_ended = true;
                self.host.end_input(session);
            }
        }
        Ok(())
    }

    /// Sends as much as the channel takes. An end of it is found by reading.
    fn write_channel(&mut self) {
        let out = self.host.outgoing();
        while !out.is_empty() {
            let brought = self.brings.then_some(self.streams.input);
            let bytes = [IoSlice::new(out)];
            match tote_sys::send_with(self.channel.as_fd(), &bytes, brought.as_slice()) {
                Ok(length) => {
                    self.brings = false;
                    out.drain(..length);
                }
                Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}
