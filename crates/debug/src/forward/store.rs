//! Bytes on their way from one end of a connection to the other.

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Number of bytes that are kept at most.
const MOST: usize = 64 << 10;

/// Number of descriptors in one message, the kernel's maximum.
const DESCRIPTORS: usize = 253;

/// A place for bytes that one end has sent and the other has not taken yet.
pub(super) enum Store {
    /// For TCP: the kernel moves the bytes.
    Pipe {
        reader: OwnedFd,
        writer: OwnedFd,
        length: usize,
    },
    /// For Unix sockets, whose messages may carry descriptors: a display server gets its pictures by them.
    Messages {
        /// Empty until the first message comes.
        buffer: Vec<u8>,
        /// Bytes of the buffer that are to be given.
        held: Range<usize>,
        descriptors: Vec<OwnedFd>,
    },
}

impl Store {
    pub(super) fn pipe() -> Result<Self, Errno> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self::Pipe {
            reader,
            writer,
            length: 0,
        })
    }

    pub(super) fn messages() -> Self {
        Self::Messages {
            buffer: Vec::new(),
            held: 0..0,
            descriptors: Vec::new(),
        }
    }

    /// Has messages, of which these bytes are the first ones that are to be given.
    pub(super) fn holding(bytes: Vec<u8>) -> Self {
        Self::Messages {
            held: 0..bytes.len(),
            buffer: bytes,
            descriptors: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::Pipe { length, .. } => *length == 0,
            Self::Messages { held, .. } => held.is_empty(),
        }
    }

    /// True if no byte more is to be taken: a message with descriptors is passed on before the next one is read.
    fn is_full(&self) -> bool {
        match self {
            Self::Pipe { length, .. } => *length >= MOST,
            Self::Messages { held, .. } => !held.is_empty(),
        }
    }

    /// Takes bytes that this end has sent. Returns their number, 0 at the end of the stream; `None` if it has to wait.
    pub(super) fn fill(&mut self, from: BorrowedFd<'_>) -> Result<Option<usize>, Errno> {
        if self.is_full() {
            return Ok(None);
        }
        match self {
            Self::Pipe { writer, length, .. } => {
                let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                let Some(moved) = or_wait(splice(from, None, writer.as_fd(), None, MOST - *length, flags))?
                else {
                    return Ok(None);
                };
                *length += moved;
                Ok(Some(moved))
            }
            Self::Messages {
                buffer,
                held,
                descriptors,
            } => {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
                let mut control = RecvAncillaryBuffer::new(&mut space);
                buffer.resize(MOST, 0);
                let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
                let received = recvmsg(from, &mut [IoSliceMut::new(buffer)], &mut control, flags);
                *held = 0..received.as_ref().map_or(0, |message| message.bytes);
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(fds) = message {
                        descriptors.extend(fds);
                    }
                }
                or_wait(received.map(|message| message.bytes))
            }
        }
    }

    /// Gives bytes to this end. Returns their number; `None` if it has to wait.
    pub(super) fn drain(&mut self, to: BorrowedFd<'_>) -> Result<Option<usize>, Errno> {
        if self.is_empty() {
            return Ok(None);
        }
        match self {
            Self::Pipe { reader, length, .. } => {
                let flags = SpliceFlags::NONBLOCK | SpliceFlags::MOVE;
                let moved = or_wait(splice(reader.as_fd(), None, to, None, *length, flags))?;
                *length -= moved.unwrap_or(0);
                Ok(moved)
            }
            Self::Messages {
                buffer,
                held,
                descriptors,
            } => {
                let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
                let mut control = SendAncillaryBuffer::new(&mut space);
                let bytes = buffer.get(held.clone()).unwrap_or_default();
                let borrowed: Vec<BorrowedFd<'_>> = descriptors.iter().map(|fd| fd.as_fd()).collect();
                if !borrowed.is_empty() {
                    control.push(SendAncillaryMessage::ScmRights(&borrowed));
                }
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                let sent = or_wait(sendmsg(to, &[IoSlice::new(bytes)], &mut control, flags))?;
                if let Some(sent) = sent {
                    held.start += sent;
                    descriptors.clear();
                }
                Ok(sent)
            }
        }
    }
}

/// Turns "not now" into `None`.
fn or_wait(moved: Result<usize, Errno>) -> Result<Option<usize>, Errno> {
    match moved {
        Ok(moved) => Ok(Some(moved)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
    }
}
