//! The digest of a layer's archive and those of its files, computed together.
//!
//! A file's bytes belong to its own digest and to that of the archive. In a tar archive both begin a block of the hash at the
//! same byte, so a processor with instructions for SHA-256 takes each block into both hashes in the time of one. Without
//! such instructions a thread of its own hashes the archive ([`crate::intake`]).

use crate::idle::Helped;
use sha2::block_api::compress256;
use std::io::{Result, Write};
use tote_archive::{Content, Framing, FramingWriter, Piece};
use tote_image::Digest;
use tote_sys::{Sha256State, sha256_twice};

/// The state before the first block (FIPS 180-4, 5.3.3).
const START: Sha256State = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

const BLOCK: usize = 64;

/// A SHA-256 whose state is known between blocks.
#[derive(Clone, Debug)]
pub(crate) struct BlockHash {
    state: Sha256State,
    /// The beginning of the next block.
    partial: [u8; BLOCK],
    /// Bytes so far.
    size: u64,
}

impl BlockHash {
    pub(crate) fn new() -> Self {
        Self {
            state: START,
            partial: [0; BLOCK],
            size: 0,
        }
    }

    /// Bytes in `partial`.
    fn pending(&self) -> usize {
        usize::try_from(self.size % BLOCK as u64).unwrap_or_default()
    }

    pub(crate) fn update(&mut self, mut bytes: &[u8]) {
        let pending = self.pending();
        self.size += bytes.len() as u64;
        if pending > 0 {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK - pending));
            self.partial[pending..pending + now.len()].copy_from_slice(now);
            if pending + now.len() < BLOCK {
                return;
            }
            compress256(&mut self.state, &[self.partial]);
            bytes = later;
        }
        let (blocks, rest) = bytes.as_chunks::<BLOCK>();
        compress256(&mut self.state, blocks);
        self.partial[..rest.len()].copy_from_slice(rest);
    }

    /// Takes the same bytes into two hashes.
    pub(crate) fn update_both(&mut self, other: &mut Self, bytes: &[u8]) {
        let mut rest = bytes;
        if self.pending() == 0 && other.pending() == 0 {
            let (blocks, after) = bytes.as_chunks::<BLOCK>();
            if sha256_twice(&mut self.state, &mut other.state, blocks) {
                let taken = (bytes.len() - after.len()) as u64;
                self.size += taken;
                other.size += taken;
                rest = after;
            }
        }
        self.update(rest);
        other.update(rest);
    }

    pub(crate) fn finish(mut self) -> [u8; 32] {
        let bits = (self.size * 8).to_be_bytes();
        let pending = self.pending();
        // A byte 0x80, zeros, and the number of bits at the end of a block.
        let mut padding = [0; 2 * BLOCK];
        padding[0] = 0x80;
        let length = (pending + 1 + bits.len()).next_multiple_of(BLOCK) - pending;
        padding[length - bits.len()..length].copy_from_slice(&bits);
        self.update(&padding[..length]);
        let mut digest = [0; 32];
        for (out, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.state) {
            *out = word.to_be_bytes();
        }
        digest
    }
}

/// A writer of a framing that hashes the archive, and with it the files that it is told about.
#[derive(Debug)]
pub(crate) struct HashedFraming<W> {
    framing: FramingWriter<W>,
    /// `None` if another thread hashes the archive.
    archive: Option<BlockHash>,
    file: Option<BlockHash>,
    /// The writer, which may help.
    helped: Helped,
}

impl<W: Write> HashedFraming<W> {
    /// Writes the framing to `out`; hashes the archive itself only if it is told so, and a file with the help of another thread.
    pub(crate) fn new(out: W, hashes_archive: bool, helped: Helped) -> Self {
        Self {
            framing: FramingWriter::new(out),
            archive: hashes_archive.then(BlockHash::new),
            file: None,
            helped,
        }
    }

    /// Notes that the writer has other work than to help.
    pub(crate) fn note_work(&self) {
        self.helped.note_work();
    }

    /// Begins the hash of a file whose content is about to be read, and which has no holes.
    pub(crate) fn begin_file(&mut self) {
        self.file = Some(BlockHash::new());
    }

    /// Ends the hash of the file, and returns it.
    pub(crate) fn end_file(&mut self) -> [u8; 32] {
        self.file.take().unwrap_or_else(BlockHash::new).finish()
    }

    /// Writes the rest, and hands back the output and, if it was computed here, the digest of the archive and its size.
    ///
    /// # Errors
    /// Those of the output.
    pub(crate) fn finish(self) -> Result<(W, Option<(Digest, u64)>)> {
        let archive = self.archive.map(|archive| {
            let size = archive.size;
            (Digest::sha256(archive.finish()), size)
        });
        Ok((self.framing.finish()?, archive))
    }
}

impl<W: Write> Framing for HashedFraming<W> {
    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(archive) = &mut self.archive {
            archive.update(bytes);
        }
        self.framing.inline(bytes)
    }

    fn content(&mut self, content: Content) -> Result<()> {
        self.framing.content(content)
    }

    fn stored(&mut self, bytes: &[u8]) {
        match (&mut self.archive, &mut self.file) {
            (Some(archive), Some(file)) => archive.update_both(file, bytes),
            (Some(hash), None) | (None, Some(hash)) => hash.update(bytes),
            (None, None) => {}
        }
    }

    fn lent(&mut self, piece: &Piece) {
        match (&mut self.archive, &mut self.file) {
            (Some(archive), Some(file)) => self.helped.update_both(archive, file, piece),
            _ => self.stored(piece),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BlockHash;
    use sha2::{Digest as _, Sha256};

    #[test]
    fn hashes_are_those_of_the_crate_whatever_the_pieces() {
        let bytes: Vec<u8> = (0..1000_u32).flat_map(|at| (at * 7919).to_le_bytes()).collect();
        for length in (0..300).chain([1024, 4000]) {
            for first in [0, 1, 55, 56, 63, 64, 65, 128, 200] {
                let (before, both) = bytes[..length].split_at(first.min(length));
                let (mut one, mut other) = (BlockHash::new(), BlockHash::new());
                one.update(before);
                for piece in both.chunks(512) {
                    one.update_both(&mut other, piece);
                }
                let expected: [u8; 32] = Sha256::digest(&bytes[..length]).into();
                assert_eq!(one.finish(), expected, "{length} bytes, {first} of them first");
                let expected: [u8; 32] = Sha256::digest(both).into();
                assert_eq!(other.finish(), expected, "{length} bytes after {first}");
            }
        }
    }
}
