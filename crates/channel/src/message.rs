//! The messages, and their payloads.

use crate::frame::{Frame, MAX_PAYLOAD, push};
use crate::{ChannelError, MAX_TEXT};

/// Output stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output, or the terminal.
    Out,
    /// Standard error.
    Err,
}

impl Stream {
    /// Returns the number of the descriptor.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Out => 1,
            Self::Err => 2,
        }
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Self::Out => 0,
            Self::Err => 1,
        }
    }

    fn of(number: u8, kind: u8) -> Result<Self, ChannelError> {
        match number {
            1 => Ok(Self::Out),
            2 => Ok(Self::Err),
            _ => Err(ChannelError::Payload(kind)),
        }
    }
}

/// End of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Exit code of a process that ended by itself.
    Code(u8),
    /// Number of the signal that killed it.
    Signal(u8),
}

/// News for a guest that was saved before anything of its container was there, and goes on as another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Time in nanoseconds since 1970.
    pub time: u64,
    /// Number of disks that the machine has, from the first one that the guest has let go.
    pub disks: u8,
    /// Number of network devices, from the first one, that the machine has.
    pub links: u8,
    /// Secret random bytes.
    pub seed: [u8; SEED],
}

/// Random bytes of a [`Wake`].
pub const SEED: usize = 64;

/// Kind of [`ToGuest::Wake`].
const WAKE: u8 = 20;

impl Wake {
    fn payload(&self) -> Vec<u8> {
        [
            &self.time.to_le_bytes()[..],
            &[self.disks, self.links],
            &self.seed,
        ]
        .concat()
    }

    fn of(bytes: &[u8]) -> Option<Self> {
        let (time, rest) = bytes.split_first_chunk()?;
        let ([disks, links], seed) = rest.split_first_chunk()?;
        Some(Self {
            time: u64::from_le_bytes(*time),
            disks: *disks,
            links: *links,
            seed: seed.try_into().ok()?,
        })
    }
}

/// Message from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToGuest {
    /// The next piece of a new process's plan.
    Plan(Vec<u8>),
    /// The plan is complete: the process is to begin.
    Begin {
        /// Rows and columns of its terminal, if it has one.
        terminal: Option<(u16, u16)>,
        /// Number of the process whose namespaces it joins, if it is not a container of its own.
        joins: Option<u16>,
    },
    /// Bytes for standard input.
    Input(Vec<u8>),
    /// Standard input has ended.
    InputEnd,
    /// A signal for the process.
    Signal(u8),
    /// The terminal has another size: rows and columns.
    Resize(u16, u16),
    /// The host is rid of this number of bytes of an output.
    Credit(Stream, u32),
    /// The machine is to end.
    PowerOff,
    /// The machine was saved, and goes on as another one.
    Wake(Wake),
}

/// Message from the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToHost {
    /// The machine is up, with this version of the messages and this kernel.
    Ready {
        /// [`crate::VERSION`] of the guest.
        version: u16,
        /// Release of the guest's kernel, as uname(2) has it.
        kernel: String,
    },
    /// The process has become its program.
    Runs,
    /// Bytes of an output.
    Output(Stream, Vec<u8>),
    /// The process has read this number of bytes of its input.
    Credit(u32),
    /// Something that the process has to do without, in one line.
    Warning(String),
    /// The process could not begin, with an exit code and the reason in one line.
    Failed(u8, String),
    /// The process has ended, after its last output.
    Ended(End),
}

impl ToGuest {
    /// Appends the message.
    pub fn push(&self, session: u16, out: &mut Vec<u8>) {
        let (kind, payload) = match self {
            Self::Plan(bytes) => return push(out, 1, session, bytes),
            Self::Begin { terminal, joins } => {
                let size = terminal.map_or(Vec::new(), |(rows, columns)| size(rows, columns));
                match joins {
                    None => (2, size),
                    Some(joins) => (9, [&joins.to_le_bytes()[..], &size].concat()),
                }
            }
            Self::Input(bytes) => return push(out, 3, session, bytes),
            Self::InputEnd => (4, Vec::new()),
            Self::Signal(number) => (5, vec![*number]),
            Self::Resize(rows, columns) => (6, size(*rows, *columns)),
            Self::Credit(stream, bytes) => (7, [&[stream.number()], &bytes.to_le_bytes()[..]].concat()),
            Self::PowerOff => (8, Vec::new()),
            Self::Wake(wake) => (WAKE, wake.payload()),
        };
        push(out, kind, session, &payload);
    }

    pub(crate) fn of(frame: Frame) -> Result<Self, ChannelError> {
        let wrong = ChannelError::Payload(frame.kind);
        Ok(match (frame.kind, &*frame.payload) {
            (1, _) => Self::Plan(frame.payload),
            (2, size) => Self::Begin {
                terminal: terminal(size).ok_or(wrong)?,
                joins: None,
            },
            (9, [a, b, size @ ..]) => Self::Begin {
                terminal: terminal(size).ok_or(wrong)?,
                joins: Some(u16::from_le_bytes([*a, *b])),
            },
            (3, _) => Self::Input(frame.payload),
            (4, []) => Self::InputEnd,
            (5, [number]) => Self::Signal(*number),
            (6, [a, b, c, d]) => Self::Resize(u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d])),
            (7, [stream, a, b, c, d]) => {
                Self::Credit(Stream::of(*stream, 7)?, u32::from_le_bytes([*a, *b, *c, *d]))
            }
            (8, []) => Self::PowerOff,
            (WAKE, bytes) => Self::Wake(Wake::of(bytes).ok_or(wrong)?),
            (1..=9, _) => return Err(wrong),
            (kind, _) => return Err(ChannelError::Kind(kind)),
        })
    }
}

impl ToHost {
    /// Appends the message. Texts are cut at [`MAX_TEXT`] bytes.
    pub fn push(&self, session: u16, out: &mut Vec<u8>) {
        let (kind, payload) = match self {
            Self::Ready { version, kernel } => {
                (129, [&version.to_le_bytes()[..], cut(kernel).as_bytes()].concat())
            }
            Self::Runs => (130, Vec::new()),
            Self::Output(Stream::Out, bytes) => return push(out, 131, session, bytes),
            Self::Output(Stream::Err, bytes) => return push(out, 132, session, bytes),
            Self::Credit(bytes) => (133, bytes.to_le_bytes().to_vec()),
            Self::Warning(text) => (134, cut(text).as_bytes().to_vec()),
            Self::Failed(code, text) => (135, [&[*code], cut(text).as_bytes()].concat()),
            Self::Ended(End::Code(code)) => (136, vec![0, *code]),
            Self::Ended(End::Signal(number)) => (136, vec![1, *number]),
        };
        push(out, kind, session, &payload);
    }

    pub(crate) fn of(frame: Frame) -> Result<Self, ChannelError> {
        let wrong = ChannelError::Payload(frame.kind);
        Ok(match (frame.kind, &*frame.payload) {
            (129, [a, b, kernel @ ..]) => Self::Ready {
                version: u16::from_le_bytes([*a, *b]),
                kernel: text(kernel, 129)?,
            },
            (130, []) => Self::Runs,
            (131, [_, ..]) => Self::Output(Stream::Out, frame.payload),
            (132, [_, ..]) => Self::Output(Stream::Err, frame.payload),
            (133, [a, b, c, d]) => Self::Credit(u32::from_le_bytes([*a, *b, *c, *d])),
            (134, bytes) => Self::Warning(text(bytes, 134)?),
            (135, [code, bytes @ ..]) => Self::Failed(*code, text(bytes, 135)?),
            (136, [0, code]) => Self::Ended(End::Code(*code)),
            (136, [1, number]) => Self::Ended(End::Signal(*number)),
            (129..=136, _) => return Err(wrong),
            (kind, _) => return Err(ChannelError::Kind(kind)),
        })
    }
}

/// Reads the size of a terminal, if it has one: no bytes say that it has not.
fn terminal(bytes: &[u8]) -> Option<Option<(u16, u16)>> {
    match bytes {
        [] => Some(None),
        [a, b, c, d] => Some(Some((u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d])))),
        _ => None,
    }
}

fn size(rows: u16, columns: u16) -> Vec<u8> {
    [rows.to_le_bytes(), columns.to_le_bytes()].concat()
}

/// Cuts a text where its limit is, at the end of a character.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_TEXT)]
}

/// Reads a text of one line: control characters would change the terminal of its reader.
fn text(bytes: &[u8], kind: u8) -> Result<String, ChannelError> {
    if bytes.len() > MAX_TEXT {
        return Err(ChannelError::Payload(kind));
    }
    let text = String::from_utf8_lossy(bytes);
    Ok(text
        .chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect())
}

/// Splits bytes into pieces that fit into a frame.
pub(crate) fn pieces(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.chunks(MAX_PAYLOAD)
}
