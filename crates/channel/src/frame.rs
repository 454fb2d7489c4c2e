//! Frames: the pieces of the stream.

use crate::ChannelError;

/// Longest payload of a frame in bytes.
pub const MAX_PAYLOAD: usize = 32 << 10;

/// Bytes before the payload.
pub(crate) const HEADER: usize = 8;

/// A message that is not decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) session: u16,
    pub(crate) payload: Vec<u8>,
}

/// Appends a frame; a longer payload than [`MAX_PAYLOAD`] must have been split.
pub(crate) fn push(out: &mut Vec<u8>, kind: u8, session: u16, payload: &[u8]) {
    debug_assert!(payload.len() <= MAX_PAYLOAD, "a frame of {} bytes", payload.len());
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&[kind, 0]);
    out.extend_from_slice(&session.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(payload);
}

/// Bytes that came, until they are frames.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    at: usize,
}

impl Frames {
    /// Adds bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns the next whole frame.
    pub(crate) fn next(&mut self) -> Result<Option<Frame>, ChannelError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Some((header, rest)) = rest.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [kind, zero, s0, s1, l0, l1, l2, l3] = *header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]);
        if length as usize > MAX_PAYLOAD {
            return Err(ChannelError::Length(length));
        }
        if zero != 0 {
            return Err(ChannelError::Payload(kind));
        }
        let Some(payload) = rest.get(..length as usize) else {
            return Ok(None);
        };
        let frame = Frame {
            kind,
            session: u16::from_le_bytes([s0, s1]),
            payload: payload.to_vec(),
        };
        self.at += HEADER + payload.len();
        Ok(Some(frame))
    }
}
