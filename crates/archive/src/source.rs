//! The bytes of an archive, with a buffer in which headers are parsed in place.

use crate::read_ahead::{Piece, ReadAhead};
use std::io::{self, ErrorKind, Read};

/// Size of the buffer in bytes, that of a decompressor's output: a larger one was not faster, a smaller one needs
/// more calls.
const CAPACITY: usize = 128 << 10;

/// A buffered reader that can look ahead by a known number of bytes, and knows its position.
#[derive(Debug)]
pub(crate) struct Source<R> {
    input: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// Bytes consumed so far.
    position: u64,
}

impl<R: Read> Source<R> {
    pub(crate) fn new(input: R) -> Self {
        Self::with_capacity(input, CAPACITY)
    }

    /// Reads through a buffer of that size, which is at least that of a block.
    pub(crate) fn with_capacity(input: R, capacity: usize) -> Self {
        Self {
            input,
            buffer: vec![0; capacity].into(),
            start: 0,
            end: 0,
            position: 0,
        }
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn input(&mut self) -> &mut R {
        &mut self.input
    }

    pub(crate) fn into_input(self) -> R {
        self.input
    }

    /// Returns the buffered bytes: at least `want` of them, fewer only at the end. `want` is at most the size of a
    /// block.
    pub(crate) fn peek(&mut self, want: usize) -> io::Result<&[u8]> {
        if self.end - self.start < want {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
            while self.end < want {
                match read(&mut self.input, &mut self.buffer[self.end..])? {
                    0 => break,
                    count => self.end += count,
                }
            }
        }
        Ok(&self.buffer[self.start..self.end])
    }

    /// Drops bytes that [`Self::peek`] has returned.
    pub(crate) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.end - self.start);
        self.start = (self.start + count).min(self.end);
        self.position = self.position.saturating_add(count as u64);
    }

    /// Consumes and returns up to `most` buffered bytes; an empty slice at the end.
    pub(crate) fn take(&mut self, most: u64) -> io::Result<&[u8]> {
        let shown = self.peek(1)?.len();
        let count = usize::try_from(most).map_or(shown, |most| shown.min(most));
        let start = self.start;
        self.consume(count);
        Ok(&self.buffer[start..start + count])
    }

    /// Reads once; into a large `out` without copying through the buffer.
    pub(crate) fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.start == self.end && out.len() >= self.buffer.len() / 2 {
            let count = read(&mut self.input, out)?;
            self.position = self.position.saturating_add(count as u64);
            return Ok(count);
        }
        let shown = self.peek(1)?;
        let count = shown.len().min(out.len());
        out[..count].copy_from_slice(&shown[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: Read> Source<ReadAhead<R>> {
    /// Consumes up to `most` bytes and shares them; none at the end.
    pub(crate) fn lend(&mut self, most: u64) -> io::Result<Piece> {
        if self.start < self.end {
            return self.take(most).map(Piece::copied);
        }
        let piece = self.input.lend(most)?;
        self.position = self.position.saturating_add(piece.len() as u64);
        Ok(piece)
    }
}

fn read(input: &mut impl Read, out: &mut [u8]) -> io::Result<usize> {
    loop {
        match input.read(out) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}
