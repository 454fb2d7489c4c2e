//! Visitors: processes of tote in the same sandbox, each of which has the guest perform a plan in the container.
//!
//! A visitor speaks to the attendant as the attendant does to the guest, by the messages of `channel`. So the windows of both
//! conversations are the same, and what the attendant passes on it has room for.

use crate::VmmError;
use crate::member::{self, Begin, Next};
use crate::pass;
use crate::plug::Change;
use crate::vmm::Booted;
use rustix::event::PollFlags;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::collections::BTreeMap;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use tote_channel::{ChannelError, Event, Guest, Host, MAX_SESSIONS, Order, Session};
use tote_sys::Errno;

/// Name of the attendant's socket in the abstract namespace: it is in the sandbox's network namespace, which no other container shares
/// but those of the same machine. Their attendants have names of their own.
pub const NAME: &str = "tote-vm";

/// Bytes that are read of a visitor at a time.
const CHUNK: usize = 32 << 10;

/// The most messages that are kept for a process that waits for disks.
const MOST_HELD: usize = 1024;

/// Returns the socket on which an attendant of this name hears of visitors.
///
/// # Errors
/// [`VmmError::Kernel`].
pub fn listen(name: &str) -> Result<UnixListener, VmmError> {
    let listener = || {
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
        listener.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(listener)
    };
    listener().map_err(failed("listen for commands"))
}

/// Connects to the attendant of this name, in this network namespace.
pub(crate) fn connect(name: &str) -> Result<UnixStream, VmmError> {
    let connected = || {
        let stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?;
        stream.set_nonblocking(true)?;
        Ok::<_, std::io::Error>(stream)
    };
    connected().map_err(failed("reach the attendant of the virtual machine"))
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
}

#[derive(Debug)]
struct Visitor {
    /// The way to it, until it is gone.
    stream: Option<UnixStream>,
    guest: Guest,
    /// Its processes: the visitor's numbers of them, and the machine's.
    processes: BTreeMap<u16, Session>,
    /// A container that it has brought.
    member: Option<member::Guest>,
    /// Descriptors that have come, and bytes before its first message.
    early: (Vec<OwnedFd>, Vec<u8>),
    begun: bool,
    /// What has come for a process that waits for disks.
    held: Vec<Order>,
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
        }
    }

    /// Returns what to wait for.
    pub(crate) fn waits(&self) -> Vec<(Call, BorrowedFd<'_>, PollFlags)> {
        let is_full = self.all.len() >= MAX_SESSIONS;
        let listener = self.listener.as_ref().filter(|_| !is_full);
        let came = listener.map(|listener| (Call::Came, listener.as_fd(), PollFlags::IN));
        let speaks = self.all.iter().filter_map(|(number, visitor)| {
            let stream = visitor.stream.as_ref()?;
            let waits = visitor.guest.has_outgoing();
            let mut flags = PollFlags::IN;
            flags.set(PollFlags::OUT, waits);
            Some((Call::Speaks(*number), stream.as_fd(), flags))
        });
        came.into_iter().chain(speaks).collect()
    }

    /// True if disks of a container may come or go.
    pub(crate) fn has_members(&self) -> bool {
        self.all.values().any(|visitor| visitor.member.is_some())
    }

    /// Notes the release of the guest's kernel, which visitors are told.
    pub(crate) fn kernel(&mut self, release: &str) {
        release.clone_into(&mut self.kernel);
    }

    /// Does what a visitor asks for.
    pub(crate) fn serve(
        &mut self,
        call: Call,
        (host, container): (&mut Host, Session),
        machine: &mut dyn Booted,
    ) -> Result<(), VmmError> {
        let number = match call {
            Call::Came => {
                self.admit();
                return Ok(());
            }
            Call::Speaks(number) => number,
        };
        let Some(visitor) = self.all.get_mut(&number) else {
            return Ok(());
        };
        let is_gone = match visitor.read(host, container, machine) {
            Ok(()) => return Ok(()),
            Err(VmmError::Channel(_)) => visitor.go(host, machine)?,
            Err(error) => return Err(error),
        };
        if is_gone {
            self.all.remove(&number);
        }
        Ok(())
    }

    /// Takes what has become of disks.
    pub(crate) fn changed(
        &mut self,
        changes: Vec<Change>,
        (host, container): (&mut Host, Session),
        machine: &mut dyn Booted,
    ) -> Result<(), VmmError> {
        for change in changes {
            let (Change::Attached(serial) | Change::Refused(serial, _) | Change::Detached(serial)) = &change;
            let brings = |visitor: &&mut Visitor| {
                let member = visitor.member.as_ref();
                member.is_some_and(|member| member.brings(serial))
            };
            if let Some(visitor) = self.all.values_mut().find(brings) {
                visitor.changed(change, (&mut *host, container), machine)?;
            }
        }
        self.all.retain(|_, visitor| !visitor.is_forgotten());
        Ok(())
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
            stream: Some(stream),
            guest: Guest::new(&self.kernel),
            processes: BTreeMap::new(),
            member: None,
            early: Default::default(),
            begun: false,
            held: Vec::new(),
            ended: false,
        };
        self.all.insert(self.last, visitor);
    }

    /// Passes on what the guest says of another process than the container's first one.
    pub(crate) fn hear(
        &mut self,
        event: Event,
        host: &mut Host,
        machine: &mut dyn Booted,
    ) -> Result<(), VmmError> {
        let session = match &event {
            Event::Ready(_) => return Ok(()),
            Event::Runs(session)
            | Event::Output(session, ..)
            | Event::Room(session, _)
            | Event::Warning(session, _)
            | Event::Failed(session, ..)
            | Event::Ended(session, _) => *session,
        };
        let mut all = self.all.values_mut();
        let visitor = all.find(|visitor| visitor.processes.values().any(|own| *own == session));
        let is_end = matches!(event, Event::Ended(..) | Event::Failed(..));
        match visitor {
            Some(visitor) if is_end => match &mut visitor.member {
                // Its disks are needed no longer.
                Some(member) if member.first == Some(session) => {
                    return member.leave(Some(event), machine);
                }
                _ => visitor.tell(event, session),
            },
            Some(visitor) if visitor.stream.is_some() => visitor.tell(event, session),
            _ => {
                if let Event::Output(session, stream, bytes) = event {
                    host.consumed(session, stream, bytes.len());
                }
            }
        }
        Ok(())
    }

    /// Sends as much as the visitors take, and lets those go who know the end.
    pub(crate) fn send(&mut self) {
        self.all.retain(|_, visitor| visitor.send());
    }
}

impl Visitor {
    fn tell(&mut self, event: Event, session: Session) {
        let mut processes = self.processes.iter();
        let Some(number) = processes.find_map(|(number, own)| (*own == session).then_some(*number)) else {
            return;
        };
        let guest = &mut self.guest;
        match event {
            Event::Ready(_) => {}
            Event::Runs(_) => guest.runs(number),
            Event::Output(_, stream, bytes) => _ = guest.output(number, stream, &bytes),
            Event::Room(_, bytes) => guest.consumed(number, bytes),
            Event::Warning(_, text) => guest.warn(number, &text),
            Event::Failed(_, code, text) => {
                guest.failed(number, code, &text);
                self.finish(number, session);
            }
            Event::Ended(_, end) => {
                guest.ended(number, end);
                self.finish(number, session);
            }
        }
    }

    /// Forgets a process that has ended; with its first one a visitor knows the end.
    fn finish(&mut self, number: u16, session: Session) {
        self.processes.remove(&number);
        self.ended |= self
            .member
            .as_ref()
            .is_none_or(|member| member.first == Some(session));
    }

    /// Lets a visitor go who says nothing more: its processes have lost their streams, so they are ended. True if nothing has to be
    /// waited for.
    fn go(&mut self, host: &mut Host, machine: &mut dyn Booted) -> Result<bool, VmmError> {
        self.stream = None;
        for session in self.processes.values().filter(|_| !self.ended) {
            host.signal(*session, 9);
        }
        match &mut self.member {
            Some(member) if member.first.is_none() => {
                member.waiting = None;
                member.leave(None, machine)?;
                Ok(member.is_out())
            }
            Some(member) => Ok(member.is_out()),
            None => Ok(true),
        }
    }

    /// True for one that is gone, with its disks.
    fn is_forgotten(&self) -> bool {
        self.stream.is_none() && self.member.as_ref().is_none_or(member::Guest::is_out)
    }

    fn changed(
        &mut self,
        change: Change,
        (host, container): (&mut Host, Session),
        machine: &mut dyn Booted,
    ) -> Result<(), VmmError> {
        let Some(member) = &mut self.member else {
            return Ok(());
        };
        match member.changed(change, machine)? {
            Next::Nothing | Next::Forget => {}
            Next::Begin(begin) => {
                self.begin(begin, container, &mut *host, machine)?;
                for order in std::mem::take(&mut self.held) {
                    // A process that could not begin needs nothing.
                    drop(self.follow(order, (&mut *host, container), machine));
                }
            }
            Next::Refuse(session, reason) => {
                let reason = format!("the virtual machine cannot have a disk of the container: {reason}");
                self.guest.failed(session, 125, &reason);
                self.ended = true;
            }
            Next::Tell(event) => {
                if let Some(session) = member.first {
                    self.tell(event, session);
                }
            }
        }
        Ok(())
    }

    /// Has the guest begin a process in the namespaces of another one.
    fn begin(
        &mut self,
        begin: Begin,
        joins: Session,
        host: &mut Host,
        machine: &mut dyn Booted,
    ) -> Result<(), VmmError> {
        self.begun = true;
        match host.begin(&begin.plan, begin.terminal, Some(joins)) {
            Ok(own) => {
                self.processes.insert(begin.session, own);
                if let Some(member) = &mut self.member {
                    member.first.get_or_insert(own);
                }
            }
            Err(error) => {
                self.guest.failed(begin.session, 126, &error.to_string());
                match &mut self.member {
                    Some(member) if member.first.is_none() => {
                        self.ended = true;
                        member.leave(None, machine)?;
                    }
                    Some(_) => {}
                    None => self.ended = true,
                }
            }
        }
        Ok(())
    }

    /// Reads what has come; [`VmmError::Channel`] if the visitor is gone, or speaks another language.
    fn read(
        &mut self,
        host: &mut Host,
        container: Session,
        machine: &mut dyn Booted,
    ) -> Result<(), VmmError> {
        let gone = || ChannelError::Order("a command");
        let stream = self.stream.as_ref().ok_or_else(gone)?;
        let mut buffer = vec![0; CHUNK];
        let length = match pass::receive(stream, &mut buffer, &mut self.early.0) {
            Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
            Ok(0) | Err(_) => return Err(gone().into()),
            Ok(length) => length,
        };
        buffer.truncate(length);
        if !self.begun && self.member.is_none() {
            buffer = self.admitted(buffer, machine)?;
        } else if !self.early.0.is_empty() {
            return Err(gone().into());
        }
        for order in self.guest.received(&buffer)? {
            self.follow(order, (&mut *host, container), machine)?;
        }
        Ok(())
    }

    /// Takes the line with disks from the first bytes of a visitor, if it begins with one; returns the rest.
    fn admitted(&mut self, bytes: Vec<u8>, machine: &mut dyn Booted) -> Result<Vec<u8>, VmmError> {
        let (fds, early) = &mut self.early;
        early.extend(bytes);
        let is_member = early.first() == Some(&member::BEGINS);
        if !is_member || !early.contains(&b'\n') {
            let waits = is_member && early.len() < CHUNK;
            return Ok(if waits { Vec::new() } else { std::mem::take(early) });
        }
        let brought = member::brought(early, std::mem::take(fds));
        let (plugs, length) = brought.ok_or(ChannelError::Order("the disks of a container"))?;
        let rest = early.split_off(length);
        self.member = Some(member::Guest::come(plugs, machine)?);
        Ok(rest)
    }

    fn follow(
        &mut self,
        order: Order,
        (host, container): (&mut Host, Session),
        machine: &mut dyn Booted,
    ) -> Result<(), VmmError> {
        let own = |number: u16| self.processes.get(&number).copied();
        let joined = |joins: Option<u16>| {
            let joined = if self.begun {
                joins.and_then(own)
            } else {
                joins.map(|_| container)
            };
            joined.ok_or(ChannelError::Order("a command"))
        };
        let order = match order {
            Order::Begin {
                session,
                plan,
                terminal,
                joins,
            } => {
                if self.begun && self.member.is_none() {
                    return Err(ChannelError::Order("a command").into());
                }
                let joined = joined(joins)?;
                let begin = Begin {
                    session,
                    plan,
                    terminal,
                };
                return match &mut self.member {
                    Some(member) if !member.has_all() => {
                        member.waiting = Some(begin);
                        self.begun = true;
                        Ok(())
                    }
                    _ => self.begin(begin, joined, host, machine),
                };
            }
            order
                if self
                    .member
                    .as_ref()
                    .is_some_and(|member| member.waiting.is_some()) =>
            {
                if self.held.len() >= MOST_HELD {
                    return Err(ChannelError::Window.into());
                }
                self.held.push(order);
                return Ok(());
            }
            order => order,
        };
        let (Order::Input(number, _)
        | Order::InputEnd(number)
        | Order::Signal(number, _)
        | Order::Resize(number, ..)
        | Order::Room(number, ..)) = order
        else {
            return Err(ChannelError::Order("a command").into());
        };
        // What comes before the process does is for no process.
        let Some(own) = own(number) else {
            return Ok(());
        };
        match order {
            Order::Input(_, bytes) => _ = host.input(own, &bytes),
            Order::InputEnd(_) => host.end_input(own),
            Order::Signal(_, signal) => host.signal(own, signal),
            Order::Resize(_, rows, columns) => host.resize(own, rows, columns),
            Order::Room(_, stream, bytes) => host.consumed(own, stream, bytes),
            Order::Begin { .. } | Order::PowerOff => {}
        }
        Ok(())
    }

    /// Sends what waits; false once the visitor knows the end.
    fn send(&mut self) -> bool {
        let Some(stream) = &self.stream else {
            return !self.is_forgotten();
        };
        let out = self.guest.outgoing();
        while !out.is_empty() {
            match rustix::io::write(stream, out) {
                Ok(length) => _ = out.drain(..length),
                Err(Errno::INTR) => {}
                // One that is gone is found by reading.
                Err(_) => return true,
            }
        }
        !self.ended
    }
}
