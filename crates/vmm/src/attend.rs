//! The attendant: the loop between a container's streams and its machine.

use crate::console::{Tail, last_words};
use crate::shares::Server;
use crate::streams::{KILL_IN_GUEST, OUTPUTS, RESIZED, Streams, Waiting};
use crate::visitors::{Call, Visitors};
use crate::vmm::{Booted, Vmm, Wires};
use crate::{Machine, VmmError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::AsFd as _;
use std::io::IoSlice;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use tote_channel::{End, Event, Host, Session};
use tote_sys::Errno;

/// Time in which the guest has to come up: TCG on a host with ten times as many tasks as processors takes a minute.
const BOOT: Duration = Duration::from_secs(180);

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
    attend_within(BOOT, (vmm, machine), plan, streams, warn)
}

/// Does so for a guest that has this time to come up.
pub(crate) fn attend_within(
    patience: Duration,
    (vmm, machine): (&dyn Vmm, &Machine),
    plan: &[u8],
    streams: Streams<'_>,
    warn: &mut dyn FnMut(String),
) -> Verdict {
    let (mut attendant, booted) = match Attendant::boot(vmm, machine, streams) {
        Ok(begun) => begun,
        Err(error) => return failed(&error, false),
    };
    attendant.patience = patience;
    attendant.attend(booted, plan, warn)
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
    last: Tail,
    waiting: [Waiting; 2],
    session: Option<Session>,
    input_ended: bool,
    /// True if the input is a file that the first message brings.
    brings: bool,
    runs: bool,
    begin: Instant,
    /// Time that the guest has to come up.
    patience: Duration,
}

/// Descriptors that are ready.
#[derive(Clone, Debug, Default)]
struct Ready {
    channel: bool,
    console: bool,
    control: bool,
    server: bool,
    ended: bool,
    signals: bool,
    input: bool,
    outputs: [bool; 2],
    calls: Vec<Call>,
}

impl<'a> Attendant<'a> {
    fn boot(
        vmm: &dyn Vmm,
        machine: &Machine,
        streams: Streams<'a>,
    ) -> Result<(Self, Box<dyn Booted>), VmmError> {
        if streams.size().is_some() {
            streams.silence()?;
        }
        let pair = || {
            let (ours, theirs) = UnixStream::pair()?;
            ours.set_nonblocking(true)?;
            Ok::<_, std::io::Error>((ours, theirs))
        };
        let served = machine.shares.as_ref();
        let served = served.and_then(|shares| Some((shares.server.as_deref()?, shares)));
        let (server, shares) = match served.map(Server::begin).transpose()? {
            Some((server, stream)) => (Some(server), Some(stream)),
            None => (None, None),
        };
        let make = || Ok::<_, std::io::Error>((pair()?, pair()?));
        let ((channel, theirs), (console, console_theirs)) = make().map_err(|error| {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            VmmError::kernel("make sockets for the virtual machine")(errno)
        })?;
        let wires = Wires {
            channel: theirs,
            console: console_theirs,
            shares,
        };
        let booted = vmm.boot(machine, wires)?;
        let mut attendant = Self {
            server,
            ..Self::new(streams, channel, Some(console))
        };
        attendant.visitors.have(machine.spare.clone());
        Ok((attendant, booted))
    }

    fn new(mut streams: Streams<'a>, channel: UnixStream, console: Option<UnixStream>) -> Self {
        Self {
            visitors: Visitors::new(streams.visitors.take()),
            streams,
            joins: None,
            host: Host::new(),
            channel,
            channel_ended: false,
            console,
            server: None,
            last: Tail::default(),
            waiting: [Waiting::default(), Waiting::default()],
            session: None,
            input_ended: false,
            brings: false,
            runs: false,
            begin: Instant::now(),
            patience: BOOT,
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
        plan: &[u8],
        warn: &mut dyn FnMut(String),
    ) -> Verdict {
        let verdict = loop {
            match self.turn(booted.as_mut(), plan, warn) {
                Ok(None) => {}
                Ok(Some(verdict)) => break Ok(verdict),
                Err(error) => break Err(error),
            }
        };
        // Some may have ended just before.
        self.visitors.send();
        let words = booted.end();
        for (waiting, to) in self.waiting.iter_mut().zip(self.streams.outputs) {
            waiting.finish(to);
        }
        match verdict {
            Ok(verdict) => verdict,
            Err(error) => failed(&self.explained(error, words), self.runs),
        }
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
        if !self.host.is_ready() && self.begin.elapsed() >= self.patience {
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

    fn wait(&mut self, booted: &dyn Booted) -> Result<Ready, VmmError> {
        let mut channel = PollFlags::IN;
        channel.set(PollFlags::OUT, !self.host.outgoing().is_empty());
        let room = self.session.map_or(0, |session| self.host.room(session));
        let wants_input = room > 0 && !self.input_ended;
        let [out, err] = self.streams.outputs;
        let candidates = [
            (!self.channel_ended).then(|| PollFd::from_borrowed_fd(self.channel.as_fd(), channel)),
            self.console
                .as_ref()
                .map(|console| PollFd::from_borrowed_fd(console.as_fd(), PollFlags::IN)),
            booted
                .control()
                .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)),
            self.server
                .as_ref()
                .map(|server| PollFd::from_borrowed_fd(server.errors(), PollFlags::IN)),
            Some(PollFd::from_borrowed_fd(booted.ended(), PollFlags::IN)),
            Some(PollFd::new(&self.streams.signals, PollFlags::IN)),
            wants_input.then(|| PollFd::from_borrowed_fd(self.streams.input, PollFlags::IN)),
            (!self.waiting[0].is_empty()).then(|| PollFd::from_borrowed_fd(out, PollFlags::OUT)),
            (!self.waiting[1].is_empty()).then(|| PollFd::from_borrowed_fd(err, PollFlags::OUT)),
        ];
        let asked = candidates.each_ref().map(Option::is_some);
        let mut fds: Vec<_> = candidates.into_iter().flatten().collect();
        // Who comes before the container has begun is heard then.
        let waits = if self.runs {
            self.visitors.waits()
        } else {
            Vec::new()
        };
        fds.extend(
            waits
                .iter()
                .map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)),
        );
        let left = self.patience.saturating_sub(self.begin.elapsed());
        let timeout = Timespec::try_from(left).ok().filter(|_| !self.host.is_ready());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok(Ready::default()),
            Err(errno) => return Err(VmmError::kernel("wait for the virtual machine")(errno)),
        }
        let mut found = fds.iter().map(|fd| !fd.revents().is_empty());
        let [channel, console, control, server, ended, signals, input, out, err] =
            asked.map(|asked| asked && found.next() == Some(true));
        let calls = waits.iter().filter(|_| found.next() == Some(true));
        Ok(Ready {
            channel,
            console,
            control,
            server,
            ended,
            signals,
            input,
            outputs: [out, err],
            calls: calls.map(|(call, ..)| *call).collect(),
        })
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
                    self.visitors.kernel(&kernel);
                    self.begin_container(plan)?;
                }
                Event::Runs(session) if self.is_own(session) => self.runs = true,
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

    fn begin_container(&mut self, plan: &[u8]) -> Result<(), VmmError> {
        let terminal = self.streams.size();
        if terminal.is_some() {
            self.streams.make_raw()?;
        }
        self.session = Some(self.host.begin(plan, terminal, self.joins)?);
        Ok(())
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
