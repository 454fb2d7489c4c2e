//! Clients that are connected to the container, and the output that each of them has not received yet.
//!
//! The monitor buffers nothing for a client: unread output is in the client's socket, whose size the kernel bounds,
//! and after that the stream waits for the client. The command that started the container in the foreground may take
//! as long as it likes, as with a pipe; others are cut off after [`crate::PATIENCE`].

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

/// Most clients at once; more wait to be accepted.
pub(crate) const MOST_CLIENTS: usize = 200;

/// Time without accepting after there was no descriptor for a client.
const PAUSE: Duration = Duration::from_secs(1);

/// Bytes that a client's socket may hold while the container runs. At its end the size is set to the most that the
/// host allows, so that the rest in the container's pipes can be sent without waiting for any client.
const SEND_BUFFER: usize = 64 * 1024;

#[derive(Debug)]
pub(crate) struct Client {
    socket: OwnedFd,
    streams: Streams,
    /// True once it has sent its request.
    attached: bool,
    /// True if it may keep the container waiting for as long as it likes.
    trusted: bool,
    /// Streams whose last chunk it has not received.
    owed: Owed,
    /// Time at which it began to keep the container waiting, or connected without a request.
    since: Option<Instant>,
    /// True once its other end is closed; messages of it may be left.
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

/// Result of reading a client's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Nothing that concerns other clients.
    Nothing,
    /// Input of this many bytes, from the second one of the buffer on.
    Input(usize),
    /// End of its input.
    EndOfInput,
    /// Size of its terminal.
    Size(Size),
    /// The container is in other networks; the client waits for [`Client::done`], and for nothing else.
    Networks,
    /// The client has gone, or has sent an invalid message; it has to be dropped.
    Gone,
}

impl Client {
    pub(crate) fn new(socket: OwnedFd, now: Instant) -> Self {
        // If this fails, the socket keeps the host's default size.
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

    /// Makes a client of the command that started the container in the foreground.
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

    /// Returns what to wait for. A client that sends input is not read while there is no room for it.
    fn poll_fd(&self, room: bool) -> Option<PollFd<'_>> {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, room || !self.streams.stdin);
        flags.set(PollFlags::OUT, self.owed.any() && !self.closed);
        // poll(2) reports a closed socket all the time, so polling it would be a loop without sleep.
        let waits = !flags.is_empty() || !self.closed;
        waits.then(|| PollFd::from_borrowed_fd(self.socket.as_fd(), flags))
    }

    /// Returns when it has to be dropped.
    fn deadline(&self, patience: Duration) -> Option<Instant> {
        self.since.filter(|_| !self.trusted).map(|since| since + patience)
    }

    /// Sends a chunk of a stream if the client wants that stream.
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

    /// Reads one message, into the buffer if it may be input.
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
            // This is the end, an error, or a message that is too long.
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
            Some(Request::Networks) if !self.attached => Heard::Networks,
            _ => Heard::Gone,
        }
    }

    /// Tells it that what it has told is done. One that is gone needs no answer.
    pub(crate) fn done(&self) {
        best_effort(say(self.socket.as_fd(), Report::Done));
    }

    pub(crate) fn sends_input(&self) -> bool {
        self.streams.stdin
    }
}

/// All clients, with the socket for new ones.
#[derive(Debug)]
pub(crate) struct Clients {
    listener: Listener,
    list: Vec<Client>,
    patience: Duration,
    /// Time until which no client is accepted.
    pause: Option<Instant>,
}

/// Length of a buffer for a client's input: that of its longest message.
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

    /// Returns the listening socket, while there is room for one more client.
    pub(crate) fn listener(&self, now: Instant) -> Option<BorrowedFd<'_>> {
        let room = self.list.len() < MOST_CLIENTS && self.pause.is_none_or(|until| until <= now);
        room.then(|| self.listener.as_fd())
    }

    /// Returns what to wait for, for each client in order; `None` for clients that are not waited for.
    pub(crate) fn poll_fds(&self, room: bool) -> impl Iterator<Item = Option<PollFd<'_>>> {
        self.list.iter().map(move |client| client.poll_fd(room))
    }

    /// Returns when the next client is overdue, or accepting resumes.
    pub(crate) fn deadline(&self, now: Instant) -> Option<Instant> {
        let pause = self.pause.filter(|until| *until > now);
        let clients = self
            .list
            .iter()
            .filter_map(|client| client.deadline(self.patience));
        clients.chain(pause).min()
    }

    /// Accepts the clients that wait.
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

    /// Sends a new chunk to all clients; true if some client has not received it.
    pub(crate) fn send(&mut self, kind: Kind, chunk: &[u8], now: Instant) -> bool {
        for client in &mut self.list {
            if client.send(kind, chunk, now).is_err() {
                // Its earlier messages are still read; then it is dropped.
                client.closed = true;
            }
        }
        self.owe(kind)
    }

    /// Sends the chunk again to the clients that have not received it; true if some client still has not.
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

    /// Reads from the client at this place; if it sends input, only when there is a buffer for that.
    pub(crate) fn hear(&mut self, place: usize, input: Option<&mut [u8]>) -> Heard {
        self.list
            .get_mut(place)
            .map_or(Heard::Nothing, |client| client.hear(input))
    }

    /// Notes that the other end of the client at this place is closed, as reported by poll(2).
    pub(crate) fn closed(&mut self, place: usize) {
        if let Some(client) = self.list.get_mut(place) {
            (client.closed, client.owed) = (true, Owed::default());
        }
    }

    pub(crate) fn remove(&mut self, place: usize) -> Client {
        self.list.swap_remove(place)
    }

    /// Returns the place of a client whose time is over.
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

    /// Gives memory back if no client is connected.
    pub(crate) fn rest(&mut self) {
        if self.list.is_empty() {
            self.list = Vec::new();
        }
    }

    /// Lets the sockets hold more, for the end of the container.
    pub(crate) fn widen(&self) {
        for client in &self.list {
            widen(client.socket.as_fd());
        }
    }

    /// Cuts off every client that has not received everything.
    pub(crate) fn drop_owed(&mut self) {
        self.list.retain(|client| !client.owed.any());
    }

    /// Returns the clients that keep the stream waiting, for poll(2).
    pub(crate) fn owed_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.list
            .iter()
            .filter(|client| client.owed.any())
            .map(|client| PollFd::from_borrowed_fd(client.socket.as_fd(), PollFlags::OUT))
    }

    /// Tells all clients, including those not accepted yet, that the container has ended.
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
    // Linux takes the smaller of this and the host's limit.
    best_effort(set_socket_send_buffer_size(socket, 1 << 24));
}

/// Sends the last message. A client whose socket is full even now learns of the end by the close.
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
