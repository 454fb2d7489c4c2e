//! Visitors: processes of tote in the same sandbox, each of which has the guest perform a plan in the container.
//!
//! A visitor speaks to the attendant as the attendant does to the guest, by the messages of `channel`. So the windows of both
//! conversations are the same, and what the attendant passes on it has room for.

use crate::VmmError;
use crate::exchange::Exchange;
use crate::machine::Spare;
use crate::vmm::Booted;
use rustix::event::{PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::collections::BTreeMap;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::{Duration, Instant};
use tote_channel::{ChannelError, Event, Guest, Host, MAX_SESSIONS, Order, Session};
use tote_sys::Errno;

/// Name of the attendant's socket in the abstract namespace: it is in the sandbox's network namespace, which no other container shares.
const NAME: &[u8] = b"tote-vm";

/// Attempt of a visitor.
const REACH: &str = "reach the attendant of the virtual machine";

/// Time in which an attendant that has just been started begins to listen.
const MOMENT: Duration = Duration::from_secs(5);

/// Time between two attempts to reach it.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 1_000_000,
};

/// Bytes that are read of a visitor at a time.
const CHUNK: usize = 32 << 10;

/// Returns the socket on which an attendant hears of visitors.
///
/// # Errors
/// [`VmmError::Kernel`].
pub fn listen() -> Result<UnixListener, VmmError> {
    let listener = || {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(NAME)?)?;
        listener.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(listener)
    };
    listener().map_err(failed("listen for commands"))
}

/// Connects to the attendant of this sandbox.
pub(crate) fn connect() -> Result<UnixStream, VmmError> {
    let socket = rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    );
    connect_by(socket.map_err(VmmError::kernel(REACH))?)
}

/// Connects to the attendant of the sandbox to whose network namespace the socket belongs.
pub(crate) fn connect_by(socket: OwnedFd) -> Result<UnixStream, VmmError> {
    let connected = reach(&socket, NAME).and_then(|()| rustix::io::ioctl_fionbio(&socket, true));
    connected.map_err(VmmError::kernel(REACH))?;
    Ok(socket.into())
}

/// Connects to that name, at which an attendant may listen only in a moment: a container counts as started when the attendant begins.
pub(crate) fn reach(socket: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let address = SocketAddrUnix::new_abstract_name(name)?;
    let begin = Instant::now();
    loop {
        match rustix::net::connect(socket, &address) {
            Err(Errno::CONNREFUSED) if begin.elapsed() < MOMENT => _ = poll(&mut [], Some(&PAUSE)),
            done => return done,
        }
    }
}

fn failed(attempt: &'static str) -> impl FnOnce(std::io::Error) -> VmmError {
    move |error| VmmError::kernel(attempt)(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

/// All visitors of a machine.
#[derive(Debug)]
pub(crate) struct Visitors {
    listener: Option<UnixListener>,
    all: BTreeMap<u32, Visitor>,
    last: u32,
    /// Release of the guest's kernel, once it is up.
    kernel: String,
    exchange: Exchange,
}

#[derive(Debug)]
struct Visitor {
    stream: UnixStream,
    guest: Guest,
    /// File that it has brought, for the spare disk of the machine.
    file: Option<OwnedFd>,
    /// Its process: the visitor's number of it, and the machine's.
    process: Option<(u16, Session)>,
    /// True once nothing more is said to it than what waits to be sent.
    ended: bool,
}

/// Something that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// A visitor has come.
    Came,
    /// The one of this number has something to say, or can be told something.
    Speaks(u32),
}

impl Visitors {
    pub(crate) fn new(listener: Option<UnixListener>) -> Self {
        Self {
            listener,
            all: BTreeMap::new(),
            last: 0,
            kernel: String::new(),
            exchange: Exchange::default(),
        }
    }

    /// Takes a spare disk, for files that visitors bring.
    pub(crate) fn have(&mut self, spare: Option<Spare>) {
        self.exchange = Exchange::of(spare);
    }

    /// Puts the file of a visitor on the spare disk, as far as the guest and the VMM are ready.
    pub(crate) fn exchange(&mut self, booted: &mut dyn Booted, host: &mut Host) {
        let Some((session, done)) = self.exchange.advance(booted, host) else {
            return;
        };
        let Some(visitor) = of(&mut self.all, session) else {
            return;
        };
        match done {
            Ok(()) => visitor.tell(Event::Runs(session)),
            Err(reason) => {
                visitor.tell(Event::Failed(session, 126, reason));
                visitor.process = None;
            }
        }
    }

    /// Returns what to wait for.
    pub(crate) fn waits(&self) -> Vec<(Call, BorrowedFd<'_>, PollFlags)> {
        let is_full = self.all.len() >= MAX_SESSIONS;
        let listener = self.listener.as_ref().filter(|_| !is_full);
        let came = listener.map(|listener| (Call::Came, listener.as_fd(), PollFlags::IN));
        let speaks = self.all.iter().map(|(number, visitor)| {
            let waits = visitor.guest.has_outgoing();
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, waits);
            (Call::Speaks(*number), visitor.stream.as_fd(), flags)
        });
        came.into_iter().chain(speaks).collect()
    }

    /// Notes the release of the guest's kernel, which visitors are told.
    pub(crate) fn kernel(&mut self, release: &str) {
        release.clone_into(&mut self.kernel);
    }

    /// Does what a visitor asks for.
    pub(crate) fn serve(&mut self, call: Call, host: &mut Host, container: Session) {
        let number = match call {
            Call::Came => return self.admit(),
            Call::Speaks(number) => number,
        };
        let Some(visitor) = self.all.get_mut(&number) else {
            return;
        };
        if visitor.read(host, container, &mut self.exchange).is_err() {
            // Its process has lost its streams, so it is ended; what it still says is passed over.
            if let Some((_, session)) = visitor.process.filter(|_| !visitor.ended) {
                host.signal(session, 9);
            }
            self.all.remove(&number);
        }
    }

    fn admit(&mut self) {
        // One that has gone already is not there.
        let Some(Ok((stream, _))) = self.listener.as_ref().map(UnixListener::accept) else {
            return;
        };
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        self.last = self.last.wrapping_add(1);
        let visitor = Visitor {
            stream,
            guest: Guest::new(&self.kernel),
            file: None,
            process: None,
            ended: false,
        };
        self.all.insert(self.last, visitor);
    }

    /// Passes on what the guest says of another process than the container's first one.
    pub(crate) fn hear(&mut self, event: Event, host: &mut Host) {
        if self.exchange.hear(&event) {
            return;
        }
        let session = match &event {
            Event::Ready(_) => return,
            Event::Runs(session)
            | Event::Output(session, ..)
            | Event::Room(session, _)
            | Event::Warning(session, _)
            | Event::Failed(session, ..)
            | Event::Ended(session, _) => *session,
        };
        match of(&mut self.all, session) {
            Some(visitor) => visitor.tell(event),
            None => {
                if let Event::Output(session, stream, bytes) = event {
                    host.consumed(session, stream, bytes.len());
                }
            }
        }
    }

    /// Sends as much as the visitors take, and lets those go who know the end.
    pub(crate) fn send(&mut self) {
        self.all.retain(|_, visitor| visitor.send());
    }
}

/// Finds the visitor whose process this is.
fn of(all: &mut BTreeMap<u32, Visitor>, session: Session) -> Option<&mut Visitor> {
    let mut all = all.values_mut();
    all.find(|visitor| visitor.process.is_some_and(|(_, own)| own == session))
}

impl Visitor {
    fn tell(&mut self, event: Event) {
        let (guest, Some((number, _))) = (&mut self.guest, self.process) else {
            return;
        };
        match event {
            Event::Ready(_) => {}
            Event::Runs(_) => guest.runs(number),
            Event::Output(_, stream, bytes) => _ = guest.output(number, stream, &bytes),
            Event::Room(_, bytes) => guest.consumed(number, bytes),
            Event::Warning(_, text) => guest.warn(number, &text),
            Event::Failed(_, code, text) => {
                guest.failed(number, code, &text);
                self.ended = true;
            }
            Event::Ended(_, end) => {
                guest.ended(number, end);
                self.ended = true;
            }
        }
    }

    /// Reads what has come; fails if the visitor is gone, or speaks another language.
    fn read(
        &mut self,
        host: &mut Host,
        container: Session,
        exchange: &mut Exchange,
    ) -> Result<(), ChannelError> {
        let gone = ChannelError::Order("a command");
        let mut buffer = vec![0; CHUNK];
        let length = match tote_sys::receive_with(self.stream.as_fd(), &mut buffer, RecvFlags::empty()) {
            Err(Errno::AGAIN) => return Ok(()),
            Ok((0, _)) | Err(_) => return Err(gone),
            Ok((length, files)) => {
                self.file = files.into_iter().next().or(self.file.take());
                length
            }
        };
        for order in self.guest.received(&buffer[..length])? {
            match (order, self.process) {
                (
                    Order::Begin {
                        session,
                        plan,
                        terminal,
                        joins: Some(_),
                    },
                    None,
                ) => {
                    let begun = match self.file.take() {
                        Some(file) => exchange.begin((file, &plan), container, host),
                        None => host
                            .begin(&plan, terminal, Some(container))
                            .map_err(|error| error.to_string()),
                    };
                    match begun {
                        Ok(own) => self.process = Some((session, own)),
                        Err(reason) => {
                            self.guest.failed(session, 126, &reason);
                            self.ended = true;
                        }
                    }
                }
                (Order::Input(_, bytes), Some((_, own))) => _ = host.input(own, &bytes),
                (Order::InputEnd(_), Some((_, own))) => host.end_input(own),
                (Order::Signal(_, number), Some((_, own))) => host.signal(own, number),
                (Order::Resize(_, rows, columns), Some((_, own))) => host.resize(own, rows, columns),
                (Order::Room(_, stream, bytes), Some((_, own))) => host.consumed(own, stream, bytes),
                _ => return Err(gone),
            }
        }
        Ok(())
    }

    /// Sends what waits; false once the visitor knows the end, or is gone.
    fn send(&mut self) -> bool {
        let out = self.guest.outgoing();
        while !out.is_empty() {
            match rustix::io::write(&self.stream, out) {
                Ok(length) => _ = out.drain(..length),
                Err(Errno::INTR) => {}
                // One that is gone is found by reading.
                Err(_) => return true,
            }
        }
        !self.ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attendant_may_listen_later() {
        let name = format!("tote-vmm-test-{}-later", std::process::id());
        let socket = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        let (tries, tried) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let reached = scope.spawn(|| {
                tries.send(()).unwrap();
                reach(&socket, name.as_bytes())
            });
            tried.recv().unwrap();
            let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
            assert_eq!(reached.join().unwrap(), Ok(()));
        });
    }
}
