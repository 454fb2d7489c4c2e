//! Client's side of an attachment: the caller's terminal, files or pipes, and its signals.

use crate::frame::{MOST, Report, Request, Size, Streams};
use crate::{Connection, MonitorError};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::process::Signal;
use rustix::stdio::{stderr, stdin, stdout};
use std::ops::Range;
use tote_runtime::{DetachKeys, Insistence};
use tote_sys::{Endless, Errno, SignalFd, SignalSet, Wait};

/// Signals that are not passed on: they concern the caller itself, or mean nothing to another process.
const KEPT: [Signal; 9] = [
    Signal::CHILD,
    Signal::CONT,
    Signal::PIPE,
    Signal::URG,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::SEGV,
    Signal::BUS,
];

/// Most bytes of one write to a descriptor that is ready for output: a pipe has room for this many then.
const PIECE: usize = 4096;

/// Way in which an attachment ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parting {
    /// The container has ended, with docker's exit code, and a line for people or an empty one.
    Ended(i32, String),
    /// The detach keys were typed.
    Detached,
    /// A signal came that is not passed on and ends programs.
    Signaled(i32),
    /// The third signal came that asks for the end: the container has received all of them, and goes on.
    Insisted,
    /// Standard output has no reader any more.
    NoReader,
    /// The monitor has closed the connection without a message: it was killed, or this client was too slow.
    Lost,
}

/// Options of an attachment.
pub struct Attachment<'a> {
    /// Streams to attach to.
    pub streams: Streams,
    /// True if the container has a terminal, whose size follows the caller's, and from which the client can detach.
    pub terminal: bool,
    /// Keys that detach.
    pub detach_keys: &'a DetachKeys,
    /// Passes a signal on to the container.
    pub proxy: Option<&'a mut dyn FnMut(i32)>,
}

impl std::fmt::Debug for Attachment<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attachment")
    }
}

/// Signals of the caller, kept from the moment in which this is made: that is before the container is started, so
/// that no signal is lost or ends the caller in between.
#[derive(Debug)]
pub struct Attendant(SignalFd);

impl Attendant {
    /// Keeps the signals.
    ///
    /// # Errors
    /// [`MonitorError::Prepare`].
    pub fn new() -> Result<Self, MonitorError> {
        let signals = KEPT
            .iter()
            .fold(SignalSet::full(), |set, signal| set.without(signal.as_raw()))
            .without_ignored_hangup();
        SignalFd::new(&signals)
            .map(Self)
            .map_err(|source| MonitorError::Prepare {
                attempt: "wait for signals",
                source,
            })
    }

    /// Attaches, and stays until one side is done. If the terminal is to be in raw mode, the caller has set that
    /// already.
    ///
    /// # Errors
    /// [`MonitorError::Watch`]; [`MonitorError::Output`] if the output cannot be written.
    pub fn attend<'a>(
        &'a self,
        connection: Connection,
        how: Attachment<'a>,
    ) -> Result<Parting, MonitorError> {
        let size = if how.terminal { size() } else { None };
        rustix::io::ioctl_fionbio(&connection, true).map_err(MonitorError::Watch)?;
        let mut session = Session {
            signals: &self.0,
            connection,
            keys: how.detach_keys.clone(),
            stdin: how.streams.stdin,
            typed: vec![0; MOST - 64], // held-back keys come along
            input: Vec::new(),
            unsent: Some(Unsent::Attach(size)),
            resized: false,
            insistence: Insistence::default(),
            output: None,
            how,
        };
        loop {
            if let Some(parting) = session.step()? {
                return Ok(parting);
            }
        }
    }
}

/// A message that waits for room in the socket.
#[derive(Clone, Copy, Debug)]
enum Unsent {
    Attach(Option<Size>),
    /// Contents of the session's `input`.
    Input,
    EndOfInput,
}

struct Session<'a> {
    signals: &'a SignalFd,
    connection: Connection,
    how: Attachment<'a>,
    keys: DetachKeys,
    /// True while standard input is read.
    stdin: bool,
    typed: Vec<u8>,
    input: Vec<u8>,
    unsent: Option<Unsent>,
    /// True if the terminal has got another size.
    resized: bool,
    insistence: Insistence,
    /// Range of the connection's buffer that is still to be written, and its destination.
    output: Option<(Target, Range<usize>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Stdout,
    Stderr,
}

impl Target {
    fn fd(self) -> BorrowedFd<'static> {
        match self {
            Self::Stdout => stdout(),
            Self::Stderr => stderr(),
        }
    }
}

impl Session<'_> {
    /// Waits until something can be done, and does it.
    fn step(&mut self) -> Result<Option<Parting>, MonitorError> {
        let to_send = self.unsent.is_some() || self.resized;
        let mut of_socket = PollFlags::empty();
        of_socket.set(PollFlags::IN, self.output.is_none());
        of_socket.set(PollFlags::OUT, to_send);
        let wanted = [
            (Some(self.signals.as_fd()), PollFlags::IN),
            ((self.stdin && !to_send).then(stdin), PollFlags::IN),
            // poll(2) would report a closed socket all the time.
            (
                Some(self.connection.as_fd()).filter(|_| !of_socket.is_empty()),
                of_socket,
            ),
            (
                self.output.as_ref().map(|(target, _)| target.fd()),
                PollFlags::OUT,
            ),
        ];
        let waited = wanted
            .iter()
            .filter_map(|(fd, flags)| Some(PollFd::from_borrowed_fd((*fd)?, *flags)));
        let mut fds: Vec<_> = waited.collect();
        match Wait::endless(Endless::User).poll(&mut fds) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(MonitorError::Watch(errno)),
        }
        let mut said = fds.iter().map(PollFd::revents);
        let [signal, typed, socket, output] = wanted.map(|(fd, _)| {
            let said = if fd.is_some() { said.next() } else { None };
            said.unwrap_or(PollFlags::empty())
        });
        drop(fds);
        if !signal.is_empty()
            && let Some(parting) = self.signals().map_err(MonitorError::Watch)?
        {
            return Ok(Some(parting));
        }
        if !typed.is_empty()
            && let Some(parting) = self.read()
        {
            return Ok(Some(parting));
        }
        if to_send && !socket.is_empty() {
            self.send();
        }
        if !output.is_empty() && self.write()? {
            return Ok(Some(Parting::NoReader));
        }
        if self.output.is_none() && socket.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return self.hear().map_err(MonitorError::Watch);
        }
        Ok(None)
    }

    /// Passes signals on; returns the end of the attachment if a signal means that.
    fn signals(&mut self) -> Result<Option<Parting>, Errno> {
        while let Some(signo) = self.signals.next()? {
            if signo == Signal::WINCH.as_raw() {
                self.resized = self.how.terminal && size().is_some();
                continue;
            }
            // docker's behaviour: a closed window detaches, and the container goes on.
            let closed = signo == Signal::HUP.as_raw() && self.how.terminal;
            match &mut self.how.proxy {
                Some(_) if self.insistence.note(signo) => return Ok(Some(Parting::Insisted)),
                Some(proxy) if !closed => proxy(signo),
                _ => return Ok(Some(Parting::Signaled(signo))),
            }
        }
        Ok(None)
    }

    /// Reads typed input; returns the end of the attachment if it was the detach keys, or if the terminal is gone.
    fn read(&mut self) -> Option<Parting> {
        let length = match rustix::io::read(stdin(), &mut self.typed) {
            Err(Errno::AGAIN | Errno::INTR) => return None,
            Ok(length) => length,
            Err(_) => 0,
        };
        if length == 0 {
            // Input from a terminal in raw mode ends only when the terminal is gone, and read(2) may show that before
            // SIGHUP comes.
            if self.how.terminal && rustix::termios::tcgetattr(stdin()).is_err() {
                return Some(Parting::Signaled(Signal::HUP.as_raw()));
            }
            (self.stdin, self.unsent) = (false, Some(Unsent::EndOfInput));
            return None;
        }
        let typed = &self.typed[..length];
        let detached = if self.how.terminal {
            let detached;
            (self.input, detached) = self.keys.pass(typed);
            detached
        } else {
            self.input.clear();
            self.input.extend_from_slice(typed);
            false
        };
        if !self.input.is_empty() {
            self.unsent = Some(Unsent::Input);
            self.send();
        }
        detached.then_some(Parting::Detached)
    }

    /// Sends waiting messages, as far as there is room. If the monitor is gone, nothing is left to send.
    fn send(&mut self) {
        while let Some(request) = self.next_request() {
            match self.connection.say(request) {
                Err(Errno::AGAIN) => return,
                Ok(()) if self.unsent.is_some() => self.unsent = None,
                Ok(()) => self.resized = false,
                Err(_) => (self.unsent, self.resized, self.stdin) = (None, false, false),
            }
        }
        self.resized = false;
    }

    fn next_request(&self) -> Option<Request<'_>> {
        match self.unsent {
            Some(Unsent::Attach(size)) => Some(Request::Attach(self.how.streams, size)),
            Some(Unsent::Input) => Some(Request::Input(&self.input)),
            Some(Unsent::EndOfInput) => Some(Request::EndOfInput),
            None if self.resized => size().map(Request::Resize),
            None => None,
        }
    }

    /// Writes a piece of the container's output; true if its reader has gone.
    fn write(&mut self) -> Result<bool, MonitorError> {
        let Some((target, range)) = &mut self.output else {
            return Ok(false);
        };
        let end = range.end.min(range.start + PIECE);
        match rustix::io::write(target.fd(), self.connection.bytes(range.start..end)) {
            Ok(length) => range.start += length,
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) if *target == Target::Stderr => range.start = range.end,
            Err(Errno::PIPE) => return Ok(true),
            Err(source) => return Err(MonitorError::Output(source)),
        }
        if range.start >= range.end {
            self.output = None;
        }
        Ok(false)
    }

    fn hear(&mut self) -> Result<Option<Parting>, Errno> {
        let (target, length) = match self.connection.hear() {
            Err(Errno::AGAIN) => return Ok(None),
            Err(errno) => return Err(errno),
            Ok(None) => return Ok(Some(Parting::Lost)),
            Ok(Some(Report::Ended(code, text))) => {
                let text = String::from_utf8_lossy(text).into_owned();
                return Ok(Some(Parting::Ended(code, text)));
            }
            // It is for clients that tell something.
            Ok(Some(Report::Done)) => return Ok(None),
            Ok(Some(Report::Stdout(bytes))) => (Target::Stdout, bytes.len()),
            Ok(Some(Report::Stderr(bytes))) => (Target::Stderr, bytes.len()),
        };
        self.output = Some((target, 1..1 + length)).filter(|_| length > 0);
        Ok(None)
    }
}

/// Returns rows and columns of the caller's terminal, whichever standard descriptor is one.
fn size() -> Option<Size> {
    let sizes = [stdin(), stdout(), stderr()].map(|fd| rustix::termios::tcgetwinsize(fd).ok());
    let known = |size: &rustix::termios::Winsize| (size.ws_row, size.ws_col) != (0, 0);
    let size = sizes.into_iter().flatten().find(known)?;
    Some((size.ws_row, size.ws_col))
}
