//! The host's end, which trusts nothing.

use crate::frame::Frames;
use crate::message::{End, Stream, ToGuest, ToHost, Wake, pieces};
use crate::{ChannelError, MAX_PLAN, MAX_SESSIONS, MAX_WARNINGS, VERSION, WINDOW};
use std::collections::BTreeMap;

/// Bytes that wait at most for a guest that goes on speaking: several plans, and the input of all processes.
const BACKLOG: usize = 128 << 20;

/// Number of a process in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Session(u16);

impl Session {
    /// The first process of a machine.
    pub const FIRST: Self = Self(1);

    /// Returns the number.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }
}

/// Something that the guest has said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The machine is up, with a kernel of this release.
    Ready(String),
    /// The process has become its program.
    Runs(Session),
    /// Bytes of an output; [`Host::consumed`] has to be called once the caller is rid of them.
    Output(Session, Stream, Vec<u8>),
    /// There is room for this number of bytes more of input.
    Room(Session, usize),
    /// Something that the process has to do without.
    Warning(Session, String),
    /// The process could not begin, with an exit code and a reason.
    Failed(Session, u8, String),
    /// The process has ended; nothing more comes from it.
    Ended(Session, End),
}

/// State of a process.
#[derive(Debug)]
struct Process {
    runs: bool,
    /// Bytes of the outputs that the guest may still send.
    allowed: [usize; 2],
    /// Bytes of the outputs that the caller is rid of, and the guest has not been told of.
    owed: [usize; 2],
    /// Bytes of input that may still be sent.
    room: usize,
    input_ended: bool,
    warnings: usize,
}

/// The host's end of the channel.
#[derive(Debug, Default)]
pub struct Host {
    frames: Frames,
    out: Vec<u8>,
    ready: bool,
    processes: BTreeMap<u16, Process>,
    last: u16,
}

impl Host {
    /// Begins a conversation.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the bytes that have to be sent; what was sent is removed by the caller.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// True if the guest has said that it is up.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Begins a process with this plan, in the namespaces of the process that it joins.
    ///
    /// # Errors
    /// [`ChannelError::Plan`] if the plan is too large, [`ChannelError::Sessions`] if there are too many processes.
    pub fn begin(
        &mut self,
        plan: &[u8],
        terminal: Option<(u16, u16)>,
        joins: Option<Session>,
    ) -> Result<Session, ChannelError> {
        if plan.len() > MAX_PLAN {
            return Err(ChannelError::Plan);
        }
        if self.processes.len() >= MAX_SESSIONS {
            return Err(ChannelError::Sessions);
        }
        let number = self.unused();
        self.last = number;
        for piece in pieces(plan) {
            ToGuest::Plan(piece.to_vec()).push(number, &mut self.out);
        }
        let joins = joins.map(Session::number);
        ToGuest::Begin { terminal, joins }.push(number, &mut self.out);
        let process = Process {
            runs: false,
            allowed: [WINDOW; 2],
            owed: [0; 2],
            room: WINDOW,
            input_ended: false,
            warnings: 0,
        };
        self.processes.insert(number, process);
        Ok(Session(number))
    }

    /// Returns the next number that no process has, so that what is on its way to one that has ended does not reach another one.
    fn unused(&self) -> u16 {
        let mut number = self.last;
        loop {
            number = number.wrapping_add(1).max(1);
            if !self.processes.contains_key(&number) {
                return number;
            }
        }
    }

    /// Returns the number of bytes of input that may be sent now.
    #[must_use]
    pub fn room(&self, session: Session) -> usize {
        let process = self.processes.get(&session.0);
        process.map_or(0, |process| if process.input_ended { 0 } else { process.room })
    }

    /// Sends input, of at most [`Host::room`] bytes; returns how many of them were taken.
    pub fn input(&mut self, session: Session, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room(session));
        for piece in pieces(&bytes[..taken]) {
            ToGuest::Input(piece.to_vec()).push(session.0, &mut self.out);
        }
        if let Some(process) = self.processes.get_mut(&session.0) {
            process.room -= taken;
        }
        taken
    }

    /// Ends the input.
    pub fn end_input(&mut self, session: Session) {
        if let Some(process) = self.processes.get_mut(&session.0)
            && !process.input_ended
        {
            process.input_ended = true;
            ToGuest::InputEnd.push(session.0, &mut self.out);
        }
    }

    /// Sends a signal to a process; it is dropped if the process has ended.
    pub fn signal(&mut self, session: Session, number: u8) {
        self.tell(session, &ToGuest::Signal(number));
    }

    /// Tells the size of the terminal.
    pub fn resize(&mut self, session: Session, rows: u16, columns: u16) {
        self.tell(session, &ToGuest::Resize(rows, columns));
    }

    /// Tells the guest that this number of bytes of an output has been passed on. It is told of many bytes at once: for each byte a message
    /// would wait for a guest that writes and does not read.
    pub fn consumed(&mut self, session: Session, stream: Stream, bytes: usize) {
        let Some(process) = self.processes.get_mut(&session.0) else {
            return;
        };
        let at = stream.index();
        let (allowed, owed) = (&mut process.allowed[at], &mut process.owed[at]);
        *owed = (*owed + bytes).min(WINDOW - *allowed);
        if *owed < WINDOW / 4 {
            return;
        }
        let bytes = std::mem::take(owed);
        *allowed += bytes;
        if let Ok(bytes) = u32::try_from(bytes) {
            ToGuest::Credit(stream, bytes).push(session.0, &mut self.out);
        }
    }

    /// Wakes a machine that was saved: before it says that it is up, it hears nothing else.
    pub fn wake(&mut self, wake: &Wake) {
        ToGuest::Wake(*wake).push(0, &mut self.out);
    }

    /// Asks the machine to end.
    pub fn power_off(&mut self) {
        ToGuest::PowerOff.push(0, &mut self.out);
    }

    fn tell(&mut self, session: Session, message: &ToGuest) {
        if self.processes.contains_key(&session.0) {
            message.push(session.0, &mut self.out);
        }
    }

    /// Takes bytes of the guest, and returns what they say.
    ///
    /// # Errors
    /// [`ChannelError`]; the machine cannot be trusted to say anything any more, and has to be ended.
    pub fn received(&mut self, bytes: &[u8]) -> Result<Vec<Event>, ChannelError> {
        if self.out.len() > BACKLOG {
            return Err(ChannelError::Deaf);
        }
        self.frames.push(bytes);
        let mut events = Vec::new();
        while let Some(frame) = self.frames.next()? {
            let session = frame.session;
            let message = ToHost::of(frame)?;
            events.push(self.hear(session, message)?);
        }
        Ok(events)
    }

    fn hear(&mut self, session: u16, message: ToHost) -> Result<Event, ChannelError> {
        if let ToHost::Ready { version, kernel } = message {
            return self.greeted(session, version, kernel);
        }
        let process = self.processes.get_mut(&session);
        let process = process.ok_or(ChannelError::Session(session))?;
        let session = Session(session);
        Ok(match message {
            ToHost::Ready { .. } => return Err(ChannelError::Order("the machine")),
            ToHost::Runs if process.runs => return Err(ChannelError::Order("the start of a process")),
            ToHost::Runs => {
                process.runs = true;
                Event::Runs(session)
            }
            ToHost::Output(stream, bytes) => {
                let allowed = &mut process.allowed[stream.index()];
                *allowed = allowed.checked_sub(bytes.len()).ok_or(ChannelError::Window)?;
                Event::Output(session, stream, bytes)
            }
            ToHost::Credit(bytes) => {
                let room = process.room.checked_add(bytes as usize);
                let room = room.filter(|room| *room <= WINDOW);
                process.room = room.ok_or(ChannelError::Credit)?;
                Event::Room(session, bytes as usize)
            }
            ToHost::Warning(text) => {
                process.warnings += 1;
                if process.warnings > MAX_WARNINGS {
                    return Err(ChannelError::Warnings);
                }
                Event::Warning(session, text)
            }
            ToHost::Failed(..) if process.runs => return Err(ChannelError::Order("the start of a process")),
            ToHost::Failed(code, text) => {
                self.processes.remove(&session.0);
                Event::Failed(session, code, text)
            }
            ToHost::Ended(end) => {
                self.processes.remove(&session.0);
                Event::Ended(session, end)
            }
        })
    }

    fn greeted(&mut self, session: u16, version: u16, kernel: String) -> Result<Event, ChannelError> {
        if session != 0 || self.ready {
            return Err(ChannelError::Order("the machine"));
        }
        if version != VERSION {
            return Err(ChannelError::Version(version));
        }
        self.ready = true;
        Ok(Event::Ready(kernel))
    }
}
