//! From an archive to batches of files: one thread parses and hashes while another one writes.

use crate::StoreError;
use crate::hashed::HashedFraming;
use crate::idle::ParserPlace;
use crate::key::{Attributes, AttributesHash, AttributesHasher, ContentHash, ContentHasher, Key, Owners};
use std::io::{Error, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender};
use tote_archive::{
    CHUNK, Change, Entry, EntryPath, Kind, Limits, MOST_LENT, Piece, ReadAhead, ReadError, Reader,
};
use tote_image::Digest;

/// Maximum bytes of a content that is read completely before anything is written, so that an existing one costs no
/// write.
const IN_MEMORY: u64 = 1 << 20;
/// Bytes of contents in a batch; a single file may exceed it. Handing over costs little then, and a processor's
/// cache holds a batch.
const BATCH: usize = 512 << 10;
/// Maximum number of parts in a batch, so that the writer gets work early if all files are small.
const BATCH_PARTS: usize = 256;
/// Bytes of the framing that are handed over together.
const FRAMING_PIECE: usize = 64 << 10;

/// Number of chunks of which a batch keeps pieces before it is handed over, besides those of its last file.
const LENT: usize = 2;
const _: () = assert!(IN_MEMORY as usize / CHUNK + 1 + LENT <= MOST_LENT);

/// A part of an archive that the parser hands over.
pub(crate) enum Parsed {
    /// Changes with the contents of files, or parts of a file.
    Changes(Batch),
    /// The next bytes of a layer's `framing`.
    Framing(Vec<u8>),
}

/// Changes of an archive in its order, with the contents of files.
#[derive(Default)]
pub(crate) struct Batch {
    parts: Vec<(Part, Bytes)>,
    /// Number of bytes of contents.
    size: usize,
    /// The contents of files that have holes: the archive has no such bytes to share.
    bytes: Vec<u8>,
    filled: usize,
}

/// The bytes of a part.
enum Bytes {
    /// They follow those of the part before in the batch's own buffer.
    Own(usize),
    /// The first piece of the archive, and all others.
    Shared(Option<Piece>, Vec<Piece>),
}

/// A part of a batch.
pub(crate) enum Part {
    /// A file with its whole content, and the hash of that.
    Whole(FoundFile, ContentHash),
    /// The beginning of a large file, with its path and size; without bytes.
    Begin(EntryPath, u64),
    /// The next bytes of a large file.
    Piece,
    /// The end of the large file whose pieces came before; without bytes.
    End(FoundFile),
    /// A change other than a regular file; without bytes.
    Other(Change),
}

/// A regular file of an archive.
pub(crate) struct FoundFile {
    /// Number of its change.
    pub(crate) number: u64,
    /// Bytes of its content, with holes.
    pub(crate) size: u64,
    pub(crate) attributes: Attributes,
    attributes_hash: AttributesHash,
    pub(crate) entry: Entry,
}

impl FoundFile {
    /// Returns the key of the file, whose content has this hash.
    pub(crate) fn key(&self, content: ContentHash) -> Key {
        Key {
            content,
            attributes: self.attributes_hash,
        }
    }
}

impl Batch {
    /// Calls `each` for all parts in the archive's order, with the pieces of their bytes, and takes them out of the batch.
    pub(crate) fn for_each<E>(
        &mut self,
        mut each: impl FnMut(Part, &[&[u8]]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut own = &self.bytes[..self.filled];
        for (part, bytes) in self.parts.drain(..) {
            match bytes {
                Bytes::Own(len) => {
                    let (bytes, after) = own.split_at(len);
                    own = after;
                    each(part, &[bytes])?;
                }
                Bytes::Shared(first, more) if more.is_empty() => {
                    each(part, &[first.as_deref().unwrap_or_default()])?;
                }
                Bytes::Shared(first, more) => {
                    let pieces: Vec<&[u8]> = first.iter().chain(&more).map(|piece| &**piece).collect();
                    each(part, &pieces)?;
                }
            }
        }
        Ok(())
    }

    /// Empties the batch and keeps its buffers.
    pub(crate) fn emptied(mut self) -> Self {
        self.filled = 0;
        self.size = 0;
        self.parts.clear();
        self
    }

    /// Returns a buffer of `len` bytes behind the present contents.
    fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.filled + len;
        if self.bytes.len() < end {
            self.bytes.resize(end.max(BATCH), 0);
        }
        &mut self.bytes[self.filled..end]
    }

    /// Adds a part whose bytes were written to the buffer.
    fn push_own(&mut self, part: Part, len: usize) {
        self.filled += len;
        self.size += len;
        self.parts.push((part, Bytes::Own(len)));
    }

    /// Adds a part with pieces of the archive.
    fn push(&mut self, part: Part, first: Option<Piece>, more: Vec<Piece>) {
        self.size += first.iter().chain(&more).map(|piece| piece.len()).sum::<usize>();
        self.parts.push((part, Bytes::Shared(first, more)));
    }

    fn is_full(&self) -> bool {
        self.size >= BATCH || self.parts.len() >= BATCH_PARTS
    }
}

/// A writer that passes the framing to the writing thread, which compresses it.
pub(crate) struct FramingOutput {
    full: SyncSender<Parsed>,
    pending: Vec<u8>,
}

impl Write for FramingOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= FRAMING_PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        // A larger one would be new memory each time.
        let next = Vec::with_capacity(FRAMING_PIECE + FRAMING_PIECE / 4);
        let sent = self
            .full
            .send(Parsed::Framing(std::mem::replace(&mut self.pending, next)));
        sent.map_err(|_| ErrorKind::BrokenPipe.into())
    }
}

/// The thread between the one that reads an archive and the one that writes its files.
pub(crate) struct Parser<R> {
    reader: Reader<ReadAhead<R>, HashedFraming<FramingOutput>>,
    /// Digest of the layer, for messages.
    layer: Option<Digest>,
    owners: Owners,
    attributes_hasher: AttributesHasher,
    place: ParserPlace,
    batch: Batch,
    full: SyncSender<Parsed>,
    empty: Receiver<Batch>,
}

/// A parsed archive.
pub(crate) struct Whole<R> {
    pub(crate) input: R,
    /// Length of the texts of all symbolic links.
    pub(crate) links: u64,
    /// Digest and size, if the parser has computed them.
    pub(crate) archive: Option<(Digest, u64)>,
}

/// Why a parser ends early.
pub(crate) enum Interrupted {
    /// The archive is invalid or cannot be read.
    Failed(StoreError),
    /// The writer has ended, and knows the reason.
    Writer,
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl<R: Read> Parser<R> {
    /// Parses `input`, sends batches to `full`, and takes used buffers from `empty`; hashes the archive if that is asked.
    pub(crate) fn new(
        input: ReadAhead<R>,
        (layer, limits): (Option<Digest>, Limits),
        owners: Owners,
        (full, empty): (SyncSender<Parsed>, Receiver<Batch>),
        (hashes_archive, place): (bool, ParserPlace),
    ) -> Self {
        let framing = FramingOutput {
            full: full.clone(),
            pending: Vec::new(),
        };
        Self {
            reader: Reader::lending(input, limits, HashedFraming::new(framing, hashes_archive)),
            layer,
            owners,
            attributes_hasher: AttributesHasher::default(),
            place,
            batch: Batch::default(),
            full,
            empty,
        }
    }

    /// Parses the archive to its end.
    pub(crate) fn run(mut self) -> Result<Whole<R>, Interrupted> {
        let (layer, mut links) = (self.layer, 0);
        let failed = |source| StoreError::Layer {
            layer,
            source: Box::new(source),
        };
        while let Some(change) = self.reader.next_change().map_err(failed)? {
            match change {
                Change::Add(entry) if let Kind::File { size } = entry.kind => self.file(entry, size)?,
                other => {
                    if let Change::Add(Entry {
                        kind: Kind::Symlink { target },
                        ..
                    }) = &other
                    {
                        links += target.len() as u64;
                    }
                    self.batch.push(Part::Other(other), None, Vec::new());
                }
            }
            self.hand_over_if_full()?;
        }
        self.hand_over()?;
        let (ahead, framing) = self.reader.into_parts();
        let input = ahead.finish().map_err(|source| unreadable(layer, source))?;
        // Writing the framing fails only if the writer has ended.
        let (mut framing, archive) = framing.finish().map_err(|_| Interrupted::Writer)?;
        framing.flush().map_err(|_| Interrupted::Writer)?;
        Ok(Whole {
            input,
            links,
            archive,
        })
    }

    fn file(&mut self, entry: Entry, size: u64) -> Result<(), Interrupted> {
        let is_stored_whole = self.is_stored_whole(size);
        if size > IN_MEMORY {
            return self.large_file(entry, size, is_stored_whole);
        }
        let mut hash = ContentHasher::default();
        if is_stored_whole {
            let first = self.piece(&entry)?;
            let mut more = Vec::new();
            while let Some(piece) = self.piece(&entry)? {
                more.push(piece);
            }
            first.iter().chain(&more).for_each(|piece| hash.update(piece));
            let file = self.found(entry, size);
            self.batch.push(Part::Whole(file, hash.finish()), first, more);
            return Ok(());
        }
        let len = usize::try_from(size).unwrap_or_default();
        let content = self.batch.room(len);
        let read = self.reader.read_exact(content);
        hash.update(content);
        read.map_err(|source| self.broken_off(&entry, source))?;
        let file = self.found(entry, size);
        self.batch.push_own(Part::Whole(file, hash.finish()), len);
        Ok(())
    }

    /// Hands over a file in pieces, which the writer hashes: it has less work with a large file than this thread.
    fn large_file(&mut self, entry: Entry, size: u64, is_stored_whole: bool) -> Result<(), Interrupted> {
        self.batch
            .push(Part::Begin(entry.path.clone(), size), None, Vec::new());
        if is_stored_whole {
            while let Some(piece) = self.piece(&entry)? {
                self.batch.push(Part::Piece, Some(piece), Vec::new());
                self.hand_over_if_full()?;
            }
        } else {
            self.large_file_with_holes(&entry)?;
        }
        let file = self.found(entry, size);
        self.batch.push(Part::End(file), None, Vec::new());
        Ok(())
    }

    fn large_file_with_holes(&mut self, entry: &Entry) -> Result<(), Interrupted> {
        loop {
            let room = self.batch.room(BATCH);
            match self.reader.read(room) {
                Ok(0) => return Ok(()),
                Ok(read) => self.batch.push_own(Part::Piece, read),
                Err(source) => return Err(self.broken_off(entry, source).into()),
            }
            self.hand_over_if_full()?;
        }
    }

    /// Returns the next piece of the present file, which has no holes.
    fn piece(&mut self, entry: &Entry) -> Result<Option<Piece>, Interrupted> {
        let piece = self.reader.next_piece();
        piece.map_err(|error| self.broken_off(entry, error.into()).into())
    }

    /// True if all of the present file is in the archive: false if its content has holes.
    fn is_stored_whole(&self, size: u64) -> bool {
        let extents = self.reader.content_extents().iter();
        extents.map(|extent| extent.len).sum::<u64>() == size
    }

    fn found(&mut self, entry: Entry, size: u64) -> FoundFile {
        let attributes = Attributes::of(&entry, self.owners);
        FoundFile {
            number: self.reader.entry(),
            size,
            attributes_hash: self.attributes_hasher.hash(&attributes),
            attributes,
            entry,
        }
    }

    fn hand_over_if_full(&mut self) -> Result<(), Interrupted> {
        match self.batch.is_full() || self.reader.input().lent() > LENT {
            true => self.hand_over(),
            false => Ok(()),
        }
    }

    fn hand_over(&mut self) -> Result<(), Interrupted> {
        self.reader.input().forget_lent();
        let next = self.empty.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        let sent = self.full.send(Parsed::Changes(batch));
        self.place.note();
        sent.map_err(|_| Interrupted::Writer)
    }

    fn broken_off(&self, entry: &Entry, source: Error) -> StoreError {
        StoreError::Content {
            layer: self.layer,
            path: entry.path.to_string(),
            source,
        }
    }
}

/// Builds the error of an archive that cannot be read.
pub(crate) fn unreadable(layer: Option<Digest>, source: Error) -> StoreError {
    let position = 0;
    StoreError::Layer {
        layer,
        source: Box::new(ReadError::Input { position, source }),
    }
}
