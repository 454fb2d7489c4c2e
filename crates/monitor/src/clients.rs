//! Who is connected to the container, and what each of them has not got yet.
//!
//! Nothing is kept for a client here: what it has not taken is in its socket, which the kernel bounds, and beyond that
//! the stream waits for it. How long depends on who it is: for the command that started the container in the
//! foreground as long as it takes, as a pipe would; for others [`crate::PATIENCE`], then they are cut off.

use crate::frame::{MOST, Report, Request, Size, Streams};
use crate::output::Kind;
use crate::socket::Listener;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::sockopt::set_socket_send_buffer_size;
use rustix::net::{RecvFlags, SendFlags, sendmsg};
use std::io::IoSlice;
use std::time::{Duration, Instant};
use tote_sys::{Errno, best_effort};

/// The most clients at once; more wait to be accepted.
pub(crate) const MOST_CLIENTS: usize = 200;

/// How long nobody is accepted after there was no descriptor for one.
const PAUSE: Duration = Duration::from_secs(1);

/// What a client's socket may hold while the container runs. At its end it is set to the most that the host allows, so
/// that what is left in the container's pipes goes out without waiting for anybody.
const SEND_BUFFER: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    streams: Streams,
    /// Whether it has said what it wants.
    attached: bool,
    /// Whether it may keep the container waiting for as long as it likes.
    trusted: bool,
    /// Streams whose last chunk it has not got.
    owed: Owed,
    /// When it began to keep the container waiting, or when it came and said nothing.
    since: Option<Instant>,
    /// Its other end is closed; there may be messages left of it.
    closed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Owed {
    stdout: bool,
    stderr: bool,
}

impl Owed {
    fn any(self) -> bool {
        self.stdout || self.stderr
    }

    fn of(&mut self, kind: Kind) -> &mut bool {
        match kind {
            Kind::Stdout => &mut self.stdout,
            Kind::Stderr => &mut self.stderr,
        }
    }
}

/// What came of reading a client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing that concerns others.
    Nothing,
    /// So many bytes of input, from the second of the buffer on.
    Input(usize),
    /// It has no more input.
    EndOfInput,
    /// Its terminal has this size.
    Size(Size),
    /// It is gone, or has said what nobody says; it is to be dropped.
    Gone,
}

impl Client {
    pub(crate) fn new(socket: OwnedFd, now: Instant) -> Self {
        // Without a bound of its own it has the host's.
        best_effort(set_socket_send_buffer_size(&socket, SEND_BUFFER));
        Self {
            socket,
            streams: Streams::default(),
            attached: false,
            trusted: false,
            owed: Owed::default(),
            since: Some(now),
            closed: false,
        }
    }

    /// The command that started the container in the foreground.
    pub(crate) fn trusted(socket: OwnedFd, streams: Streams, now: Instant) -> Result<Self, Errno> {
        rustix::io::ioctl_fionbio(&socket, true)?;
        Ok(Self {
            streams,
            attached: true,
            trusted: true,
            since: None,
            ..Self::new(socket, now)
        })
    }

    /// What to wait for. Whoever sends input is not heard while there is no room for it.
    fn poll_fd(&self, room: bool) -> Option<PollFd<'_>> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, room || !self.streams.stdin);
        flags.set(PollFlags::OUT, self.owed.any() && !self.closed);
        // Of a closed socket poll(2) says so always, which would be a loop without sleep.
        let waits = !flags.is_empty() || !self.closed;
        waits.then(|| PollFd::from_borrowed_fd(self.socket.as_fd(), flags))
    }

    /// When it has to be dropped.
    fn deadline(&self, patience: Duration) -> Option<Instant> {
        self.since.filter(|_| !self.trusted).map(|since| since + patience)
    }

    /// Sends a chunk of a stream that it wants.
    fn send(&mut self, kind: Kind, chunk: &[u8], now: Instant) -> Result<(), Errno> {
        let (wanted, report) = match kind {
            Kind::Stdout => (self.streams.stdout, Report::Stdout(chunk)),
            Kind::Stderr => (self.streams.stderr, Report::Stderr(chunk)),
        };
        *self.owed.of(kind) = false;
        if !wanted || self.closed {
            return Ok(());
        }
        match say(self.socket.as_fd(), report) {
            Err(Errno::AGAIN | Errno::INTR) => {
                *self.owed.of(kind) = true;
                self.since.get_or_insert(now);
                Ok(())
            }
            Err(errno) => Err(errno),
            Ok(()) => {
                if !self.owed.any() {
                    self.since = None;
                }
                Ok(())
            }
        }
    }

    /// Reads one message, into the buffer where it may be input.
    fn hear(&mut self, input: Option<&mut [u8]>) -> Heard {
        let mut short = [0; 16];
        let buffer = match input {
            Some(input) if self.streams.stdin => input,
            None if self.streams.stdin => return Heard::Nothing,
            _ => &mut short,
        };
        let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        let (message, length) = match rustix::net::recv(&self.socket, &mut *buffer, flags) {
            Err(Errno::AGAIN | Errno::INTR) => return Heard::Nothing,
            Ok((read, length)) if length > 0 && read == length => (&buffer[..read], length),
            // The end, an error, or a message that is longer than any.
            Ok(_) | Err(_) => return Heard::Gone,
        };
        match Request::parse(message) {
            Some(Request::Attach(streams, size)) => {
                (self.streams, self.attached, self.since) = (streams, true, None);
                size.map_or(Heard::Nothing, Heard::Size)
            }
            Some(Request::Input(_)) if self.streams.stdin => Heard::Input(length - 1),
            Some(Request::EndOfInput) if self.streams.stdin => Heard::EndOfInput,
            Some(Request::Resize(size)) if self.attached => Heard::Size(size),
            _ => Heard::Gone,
        }
    }

    pub(crate) fn sends_input(&self) -> bool {
        self.streams.stdin
    }
}

/// Everybody.
#[derive(Debug)]
pub(crate) struct Clients {
    listener: Listener,
    list: Vec<Client>,
    patience: Duration,
    /// Until when nobody is accepted.
    pause: Option<Instant>,
}

/// Where a client's buffer for input is as long as its longest message.
pub(crate) const INPUT: usize = MOST + 1;

impl Clients {
    pub(crate) fn new(listener: Listener, patience: Duration) -> Self {
        Self {
            listener,
            list: Vec::new(),
            patience,
            pause: None,
        }
    }

    pub(crate) fn add(&mut self, client: Client) {
        self.list.push(client);
    }

    /// The listening socket, while there is room for one more client.
    pub(crate) fn listener(&self, now: Instant) -> Option<BorrowedFd<'_>> {
        let room = self.list.len() < MOST_CLIENTS && self.pause.is_none_or(|until| until <= now);
        room.then(|| self.listener.as_fd())
    }

    /// Each client's, in order; `None` for who is not waited for.
    pub(crate) fn poll_fds(&self, room: bool) -> impl Iterator<Item = Option<PollFd<'_>>> {
        self.list.iter().map(move |client| client.poll_fd(room))
    }

    /// When something is to be done about one of them.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let pause = self.pause.filter(|until| *until > now);
        let clients = self
            .list
            .iter()
            .filter_map(|client| client.deadline(self.patience));
        clients.chain(pause).min()
    }

    /// Lets in who waits.
    pub(crate) fn accept(&mut self, now: Instant) {
        self.pause = None;
        while self.list.len() < MOST_CLIENTS {
            match self.listener.accept() {
                Ok(Some(socket)) => self.list.push(Client::new(socket, now)),
                Ok(None) => return,
                Err(_) => {
                    self.pause = Some(now + PAUSE);
                    return;
                }
            }
        }
    }

    /// Sends a new chunk to all; whether somebody has not got it.
    pub(crate) fn send(&mut self, kind: Kind, chunk: &[u8], now: Instant) -> bool {
        for client in &mut self.list {
            if client.send(kind, chunk, now).is_err() {
                // Whatever it has sent before is heard; then it is dropped.
                client.closed = true;
            }
        }
        self.owe(kind)
    }

    /// Sends the chunk again to those that have not got it; whether there is one still.
    pub(crate) fn resend(&mut self, kind: Kind, chunk: &[u8], now: Instant) -> bool {
        for client in &mut self.list {
            if *client.owed.of(kind) && client.send(kind, chunk, now).is_err() {
                client.closed = true;
            }
        }
        self.owe(kind)
    }

    pub(crate) fn owe(&mut self, kind: Kind) -> bool {
        self.list.iter_mut().any(|client| *client.owed.of(kind))
    }

    /// Hears the client of that place; one that sends input only where there is a buffer for it.
    pub(crate) fn hear(&mut self, place: usize, input: Option<&mut [u8]>) -> Heard {
        self.list
            .get_mut(place)
            .map_or(Heard::Nothing, |client| client.hear(input))
    }

    /// poll(2) says that the other end of that place is closed.
    pub(crate) fn closed(&mut self, place: usize) {
        if let Some(client) = self.list.get_mut(place) {
            (client.closed, client.owed) = (true, Owed::default());
        }
    }

    pub(crate) fn remove(&mut self, place: usize) -> Client {
        self.list.swap_remove(place)
    }

    /// The place of one whose patience is over.
    pub(crate) fn overdue(&self, now: Instant) -> Option<usize> {
        self.list.iter().position(|client| {
            client
                .deadline(self.patience)
                .is_some_and(|deadline| deadline <= now)
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether nobody is connected, and whether that takes no memory.
    pub(crate) fn rest(&mut self) {
        if self.list.is_empty() {
            self.list = Vec::new();
        }
    }

    /// The container's end: sockets may hold more from here on.
    pub(crate) fn widen(&self) {
        for client in &self.list {
            widen(client.socket.as_fd());
        }
    }

    /// Cuts off everybody who has not got all.
    pub(crate) fn drop_owed(&mut self) {
        self.list.retain(|client| !client.owed.any());
    }

    /// Those who keep the stream waiting, for poll(2).
    pub(crate) fn owed_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.list
            .iter()
            .filter(|client| client.owed.any())
            .map(|client| PollFd::from_borrowed_fd(client.socket.as_fd(), PollFlags::OUT))
    }

    /// Tells everybody, also those who are not accepted yet, that the container has ended.
    pub(crate) fn farewell(&mut self, code: i32, text: &str) {
        for client in self.list.drain(..) {
            farewell(client.socket.as_fd(), code, text);
        }
        self.list = Vec::new();
        while let Ok(Some(socket)) = self.listener.accept() {
            farewell(socket.as_fd(), code, text);
        }
    }
}

fn widen(socket: BorrowedFd<'_>) {
    // Linux takes the least of this and of what it allows.
    best_effort(set_socket_send_buffer_size(socket, 1 << 24));
}

/// The last message. A client whose socket is full even now finds out by its being closed.
pub(crate) fn farewell(socket: BorrowedFd<'_>, code: i32, text: &str) {
    widen(socket);
    best_effort(say(socket, Report::Ended(code, text.as_bytes())));
}

fn say(socket: BorrowedFd<'_>, report: Report<'_>) -> Result<(), Errno> {
    let (head, rest) = report.encode();
    let pieces = [IoSlice::new(head.bytes()), IoSlice::new(rest)];
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    sendmsg(socket, &pieces, &mut Default::default(), flags).map(drop)
}
