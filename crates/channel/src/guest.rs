//! The guest's end.

use crate::frame::{Frames, MAX_PAYLOAD};
use crate::message::{End, Stream, ToGuest, ToHost, Wake};
use crate::{ChannelError, MAX_PLAN, MAX_SESSIONS, VERSION, WINDOW};
use std::collections::BTreeMap;

/// Something that the host wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// A process is to begin.
    Begin {
        /// Number of the process.
        session: u16,
        /// Its plan in the byte form.
        plan: Vec<u8>,
        /// Rows and columns of its terminal, if it has one.
        terminal: Option<(u16, u16)>,
        /// Number of the process whose namespaces it joins.
        joins: Option<u16>,
    },
    /// Bytes for standard input; [`Guest::consumed`] has to be called once the process has them.
    Input(u16, Vec<u8>),
    /// Standard input has ended.
    InputEnd(u16),
    /// A signal for the process.
    Signal(u16, u8),
    /// The terminal has this size in rows and columns.
    Resize(u16, u16, u16),
    /// There is room for this number of bytes more of an output.
    Room(u16, Stream, usize),
    /// The machine is to end.
    PowerOff,
    /// The machine was saved, and goes on as another one.
    Wake(Wake),
}

/// State of a process.
#[derive(Debug)]
struct Process {
    /// Bytes of input that the host may still send.
    allowed: usize,
    /// Bytes of each output that may still be sent.
    room: [usize; 2],
}

/// The guest's end of the channel.
#[derive(Debug, Default)]
pub struct Guest {
    frames: Frames,
    out: Vec<u8>,
    plans: BTreeMap<u16, Vec<u8>>,
    processes: BTreeMap<u16, Process>,
}

impl Guest {
    /// Begins a conversation: says that the machine is up with a kernel of this release.
    #[must_use]
    pub fn new(kernel: &str) -> Self {
        let mut guest = Self::default();
        let ready = ToHost::Ready {
            version: VERSION,
            kernel: kernel.to_owned(),
        };
        ready.push(0, &mut guest.out);
        guest
    }

    /// Returns the bytes that have to be sent; what was sent is removed by the caller.
    pub fn outgoing(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// True if something has to be sent.
    #[must_use]
    pub fn has_outgoing(&self) -> bool {
        !self.out.is_empty()
    }

    /// Says that the process has become its program.
    pub fn runs(&mut self, session: u16) {
        self.tell(session, &ToHost::Runs);
    }

    /// Passes on a warning.
    pub fn warn(&mut self, session: u16, text: &str) {
        self.tell(session, &ToHost::Warning(text.to_owned()));
    }

    /// Returns the number of bytes of an output that may be sent now.
    #[must_use]
    pub fn room(&self, session: u16, stream: Stream) -> usize {
        let process = self.processes.get(&session);
        process.map_or(0, |process| process.room[stream.index()].min(MAX_PAYLOAD))
    }

    /// Sends output, of at most [`Guest::room`] bytes; returns how many of them were taken.
    pub fn output(&mut self, session: u16, stream: Stream, bytes: &[u8]) -> usize {
        let taken = bytes.len().min(self.room(session, stream));
        if taken > 0
            && let Some(process) = self.processes.get_mut(&session)
        {
            process.room[stream.index()] -= taken;
            ToHost::Output(stream, bytes[..taken].to_vec()).push(session, &mut self.out);
        }
        taken
    }

    /// Tells the host that the process has this number of bytes of its input.
    pub fn consumed(&mut self, session: u16, bytes: usize) {
        let Some(process) = self.processes.get_mut(&session) else {
            return;
        };
        let bytes = bytes.min(WINDOW - process.allowed);
        process.allowed += bytes;
        if let Some(bytes) = u32::try_from(bytes).ok().filter(|bytes| *bytes > 0) {
            ToHost::Credit(bytes).push(session, &mut self.out);
        }
    }

    /// Says that the process could not begin.
    pub fn failed(&mut self, session: u16, code: u8, reason: &str) {
        self.tell(session, &ToHost::Failed(code, reason.to_owned()));
        self.processes.remove(&session);
    }

    /// Says that the process has ended.
    pub fn ended(&mut self, session: u16, end: End) {
        self.tell(session, &ToHost::Ended(end));
        self.processes.remove(&session);
    }

    fn tell(&mut self, session: u16, message: &ToHost) {
        if self.processes.contains_key(&session) {
            message.push(session, &mut self.out);
        }
    }

    /// Takes bytes of the host, and returns what they say.
    ///
    /// # Errors
    /// [`ChannelError`].
    pub fn received(&mut self, bytes: &[u8]) -> Result<Vec<Order>, ChannelError> {
        self.frames.push(bytes);
        let mut orders = Vec::new();
        while let Some(frame) = self.frames.next()? {
            let session = frame.session;
            let message = ToGuest::of(frame)?;
            orders.extend(self.hear(session, message)?);
        }
        Ok(orders)
    }

    fn hear(&mut self, session: u16, message: ToGuest) -> Result<Option<Order>, ChannelError> {
        match message {
            ToGuest::Plan(bytes) => self.take_plan(session, &bytes).map(|()| None),
            ToGuest::Begin { terminal, joins } => {
                let plan = self.plans.remove(&session);
                let plan = plan.ok_or(ChannelError::Order("the start of a process"))?;
                let process = Process {
                    allowed: WINDOW,
                    room: [WINDOW; 2],
                };
                self.processes.insert(session, process);
                Ok(Some(Order::Begin {
                    session,
                    plan,
                    terminal,
                    joins,
                }))
            }
            ToGuest::PowerOff => Ok(Some(Order::PowerOff)),
            ToGuest::Wake(wake) => Ok(Some(Order::Wake(wake))),
            // The process may have ended while the message was on its way.
            _ if !self.processes.contains_key(&session) => Ok(None),
            ToGuest::Input(bytes) => {
                if let Some(process) = self.processes.get_mut(&session) {
                    let allowed = process.allowed.checked_sub(bytes.len());
                    process.allowed = allowed.ok_or(ChannelError::Window)?;
                }
                Ok(Some(Order::Input(session, bytes)))
            }
            ToGuest::InputEnd => Ok(Some(Order::InputEnd(session))),
            ToGuest::Signal(number) => Ok(Some(Order::Signal(session, number))),
            ToGuest::Resize(rows, columns) => Ok(Some(Order::Resize(session, rows, columns))),
            ToGuest::Credit(stream, bytes) => {
                if let Some(process) = self.processes.get_mut(&session) {
                    let room = process.room[stream.index()].checked_add(bytes as usize);
                    let room = room.filter(|room| *room <= WINDOW);
                    process.room[stream.index()] = room.ok_or(ChannelError::Credit)?;
                }
                Ok(Some(Order::Room(session, stream, bytes as usize)))
            }
        }
    }

    fn take_plan(&mut self, session: u16, bytes: &[u8]) -> Result<(), ChannelError> {
        if session == 0 || self.processes.contains_key(&session) {
            return Err(ChannelError::Order("a plan"));
        }
        if self.plans.len() + self.processes.len() >= MAX_SESSIONS && !self.plans.contains_key(&session) {
            return Err(ChannelError::Sessions);
        }
        let plan = self.plans.entry(session).or_default();
        if plan.len() + bytes.len() > MAX_PLAN {
            return Err(ChannelError::Plan);
        }
        plan.extend_from_slice(bytes);
        Ok(())
    }
}
