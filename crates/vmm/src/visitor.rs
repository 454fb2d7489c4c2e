//! A visitor, as the attendant of its machine knows it.

use crate::VmmError;
use crate::exchange::Exchange;
use crate::member::{self, Begin, Next};
use crate::plug::Change;
use crate::vmm::Booted;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::RecvFlags;
use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use tote_channel::{ChannelError, Event, Guest, Host, Order, Session};
use tote_sys::Errno;

/// Bytes that are read of a visitor at a time.
const CHUNK: usize = 32 << 10;

/// The most messages that are kept for a process that waits for disks.
const MOST_HELD: usize = 1024;

/// Machine and containers that visitors come to.
pub(crate) struct Scene<'a> {
    pub(crate) host: &'a mut Host,
    pub(crate) machine: &'a mut dyn Booted,
    /// First process of the attendant's own container.
    pub(crate) container: Session,
    /// First processes of members, by their names.
    pub(crate) members: &'a BTreeMap<String, Session>,
    /// The spare disk.
    pub(crate) exchange: &'a mut Exchange,
}

/// A visitor.
#[derive(Debug)]
pub(crate) struct Visitor {
    /// The way to it, until it is gone.
    pub(crate) stream: Option<UnixStream>,
    pub(crate) guest: Guest,
    /// Its processes: the visitor's numbers of them, and the machine's.
    pub(crate) processes: BTreeMap<u16, Session>,
    /// A container that it has brought.
    pub(crate) member: Option<member::Guest>,
    /// Name of the member that it visits, if it does not visit the attendant's own container.
    visits: Option<String>,
    /// Descriptors that have come, and bytes before its first message.
    early: (Vec<OwnedFd>, Vec<u8>),
    /// True once it has said whether it is a member.
    opened: bool,
    begun: bool,
    /// Messages for a process that waits for disks.
    held: Vec<Order>,
    /// True once nothing more is said to it than what waits to be sent.
    ended: bool,
}

impl Visitor {
    /// Greets a visitor, who is told the release of the guest's kernel.
    pub(crate) fn new(stream: UnixStream, kernel: &str) -> Self {
        Self {
            stream: Some(stream),
            guest: Guest::new(kernel),
            processes: BTreeMap::new(),
            member: None,
            visits: None,
            early: Default::default(),
            opened: false,
            begun: false,
            held: Vec::new(),
            ended: false,
        }
    }

    /// True for one that has not said what it is.
    pub(crate) fn is_new(&self) -> bool {
        !self.begun && self.member.is_none()
    }

    pub(crate) fn tell(&mut self, event: Event, session: Session) {
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
    pub(crate) fn go(&mut self, host: &mut Host, machine: &mut dyn Booted) -> Result<bool, VmmError> {
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
    pub(crate) fn is_forgotten(&self) -> bool {
        self.stream.is_none() && self.member.as_ref().is_none_or(member::Guest::is_out)
    }

    pub(crate) fn changed(&mut self, change: Change, scene: &mut Scene<'_>) -> Result<(), VmmError> {
        let Some(member) = &mut self.member else {
            return Ok(());
        };
        let next = member.changed(change, scene.machine)?;
        self.go_on(next, scene)
    }

    /// Does what follows for the container of a member.
    fn go_on(&mut self, next: Next, scene: &mut Scene<'_>) -> Result<(), VmmError> {
        match next {
            Next::Nothing | Next::Forget => {}
            Next::Begin(begin) => {
                self.begin(begin, scene.container, scene)?;
                for order in std::mem::take(&mut self.held) {
                    // A process that could not begin needs nothing.
                    drop(self.follow(order, scene));
                }
            }
            Next::Refuse(session, reason) => {
                let reason = format!("the virtual machine cannot have a disk of the container: {reason}");
                self.guest.failed(session, 125, &reason);
                self.ended = true;
            }
            Next::Tell(event) => {
                if let Some(session) = self.member.as_ref().and_then(|member| member.first) {
                    self.tell(event, session);
                }
            }
        }
        Ok(())
    }

    /// Has the guest begin a process in the namespaces of another one, with a file on the spare disk if the visitor has brought one.
    fn begin(&mut self, begin: Begin, joins: Session, scene: &mut Scene<'_>) -> Result<(), VmmError> {
        self.begun = true;
        let file = std::mem::take(&mut self.early.0).into_iter().next();
        let begun = match file {
            Some(file) => scene.exchange.begin((file, &begin.plan), joins, scene.host),
            None => {
                let begun = scene.host.begin(&begin.plan, begin.terminal, Some(joins));
                begun.map_err(|error| error.to_string())
            }
        };
        match begun {
            Ok(own) => {
                self.processes.insert(begin.session, own);
                if let Some(member) = &mut self.member {
                    member.first.get_or_insert(own);
                }
            }
            Err(reason) => {
                self.guest.failed(begin.session, 126, &reason);
                match &mut self.member {
                    Some(member) if member.first.is_none() => {
                        self.ended = true;
                        member.leave(None, scene.machine)?;
                    }
                    Some(_) => {}
                    None => self.ended = true,
                }
            }
        }
        Ok(())
    }

    /// Reads what has come; [`VmmError::Channel`] if the visitor is gone, or speaks another language.
    pub(crate) fn read(&mut self, scene: &mut Scene<'_>) -> Result<(), VmmError> {
        let gone = || ChannelError::Order("a command");
        let stream = self.stream.as_ref().ok_or_else(gone)?;
        let mut buffer = vec![0; CHUNK];
        let length = match tote_sys::receive_with(stream.as_fd(), &mut buffer, RecvFlags::empty()) {
            Err(Errno::AGAIN) => return Ok(()),
            Ok((0, _)) | Err(_) => return Err(gone().into()),
            Ok((length, files)) => {
                self.early.0.extend(files);
                length
            }
        };
        buffer.truncate(length);
        if !self.opened {
            buffer = self.admitted(buffer, scene.machine)?;
        }
        // A member brings disks alone, and others a file before their process.
        if (self.begun || self.member.is_some()) && !self.early.0.is_empty() {
            return Err(gone().into());
        }
        for order in self.guest.received(&buffer)? {
            self.follow(order, scene)?;
        }
        Ok(())
    }

    /// Takes the line about a member from the first bytes of a visitor, if it begins with one; returns the rest.
    fn admitted(&mut self, bytes: Vec<u8>, machine: &mut dyn Booted) -> Result<Vec<u8>, VmmError> {
        let (fds, early) = &mut self.early;
        early.extend(bytes);
        if early.first() != Some(&member::BEGINS) {
            self.opened = true;
            return Ok(std::mem::take(early));
        }
        if !early.contains(&b'\n') {
            return if early.len() < CHUNK {
                Ok(Vec::new())
            } else {
                Err(ChannelError::Order("a line about a container").into())
            };
        }
        let opened = member::opened(early, fds).ok_or(ChannelError::Order("the disks of a container"))?;
        let rest = early.split_off(opened.length);
        early.clear();
        self.opened = true;
        match opened.plugs {
            Some(plugs) => self.member = Some(member::Guest::come(opened.name, plugs, machine)?),
            None => self.visits = Some(opened.name),
        }
        Ok(rest)
    }

    fn follow(&mut self, order: Order, scene: &mut Scene<'_>) -> Result<(), VmmError> {
        let waits = self
            .member
            .as_ref()
            .is_some_and(|member| member.waiting.is_some());
        match order {
            Order::Begin {
                session,
                plan,
                terminal,
                joins,
            } => {
                let begin = Begin {
                    session,
                    plan,
                    terminal,
                };
                self.ask((begin, joins), scene)
            }
            _ if waits && self.held.len() >= MOST_HELD => Err(ChannelError::Window.into()),
            order if waits => {
                self.held.push(order);
                Ok(())
            }
            order => self.pass_on(order, scene.host),
        }
    }

    /// Takes a process that is to begin: a visitor's first one joins the container of this attendant or the member that it names, and each
    /// further one of a member that member's.
    fn ask(&mut self, (begin, joins): (Begin, Option<u16>), scene: &mut Scene<'_>) -> Result<(), VmmError> {
        let wrong = || ChannelError::Order("a command");
        match &mut self.member {
            Some(_) | None if joins.is_none() => Err(wrong().into()),
            Some(member) if !self.begun => {
                self.begun = true;
                let next = member.ask(begin);
                self.go_on(next, scene)
            }
            Some(_) => {
                let joined = joins.and_then(|joins| self.processes.get(&joins).copied());
                self.begin(begin, joined.ok_or_else(wrong)?, scene)
            }
            None if self.begun => Err(wrong().into()),
            None => match self.visited(scene) {
                Some(joined) => self.begin(begin, joined, scene),
                None => {
                    let reason = "the container does not run in this virtual machine";
                    self.guest.failed(begin.session, 126, reason);
                    self.ended = true;
                    Ok(())
                }
            },
        }
    }

    /// Returns the first process of the container that a visitor comes to, while it is there.
    fn visited(&self, scene: &Scene<'_>) -> Option<Session> {
        match &self.visits {
            None => Some(scene.container),
            Some(name) => scene.members.get(name).copied(),
        }
    }

    /// Passes on what is for a process.
    fn pass_on(&mut self, order: Order, host: &mut Host) -> Result<(), VmmError> {
        let (Order::Input(number, _)
        | Order::InputEnd(number)
        | Order::Signal(number, _)
        | Order::Resize(number, ..)
        | Order::Room(number, ..)) = order
        else {
            return Err(ChannelError::Order("a command").into());
        };
        // A process that has not begun, or has ended, needs nothing.
        let Some(own) = self.processes.get(&number).copied() else {
            return Ok(());
        };
        match order {
            Order::Input(_, bytes) => _ = host.input(own, &bytes),
            Order::InputEnd(_) => host.end_input(own),
            Order::Signal(_, signal) => host.signal(own, signal),
            Order::Resize(_, rows, columns) => host.resize(own, rows, columns),
            Order::Room(_, stream, bytes) => host.consumed(own, stream, bytes),
            Order::Begin { .. } | Order::PowerOff | Order::Wake(_) => {}
        }
        Ok(())
    }

    /// Sends what waits; false once the visitor knows the end.
    pub(crate) fn send(&mut self) -> bool {
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
