//! From an archive to batches of files: one thread parses and hashes while another one writes.

use crate::StoreError;
use crate::key::{Attributes, Key, Owners};
use crate::twin::HashedFraming;
use sha2::{Digest as _, Sha256};
use std::io::{Error, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender};
use tote_archive::{Change, Entry, EntryPath, Kind, Limits, ReadAhead, ReadError, Reader};
use tote_image::Digest;

/// Maximum bytes of a content that is read completely before anything is written, so that an existing one costs no
/// write.
const IN_MEMORY: u64 = 1 << 20;
/// Bytes of contents in a batch; a single file may exceed it. Handing over costs little then, and a processor's
/// cache holds a batch.
const BATCH: usize = 256 << 10;
/// Maximum number of files in a batch, so that the writer gets work early if all files are small.
const BATCH_FILES: usize = 128;

/// A part of an archive that the parser hands over.
pub(crate) enum Parsed {
    /// Files, or parts of a file.
    Files(Batch),
    /// The next bytes of a layer's compressed `framing`.
    Framing(Vec<u8>),
}

/// Files of an archive in its order, with their contents.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// Number of bytes of contents; the rest of the buffer is free.
    filled: usize,
    parts: Vec<(Part, usize)>,
}

/// A part of a batch; its bytes follow those of the part before.
pub(crate) enum Part {
    /// A file with its whole content.
    Whole(FoundFile),
    /// The beginning of a large file, with its path and size; without bytes.
    Begin(EntryPath, u64),
    /// The next bytes of a large file.
    Piece,
    /// The end of the large file whose pieces came before; without bytes.
    End(FoundFile),
}

/// A regular file of an archive, hashed.
pub(crate) struct FoundFile {
    /// Number of its change.
    pub(crate) entry: u64,
    pub(crate) key: Key,
    /// Bytes of its content, with holes.
    pub(crate) size: u64,
    pub(crate) attributes: Attributes,
    pub(crate) path: EntryPath,
}

impl Batch {
    /// Iterates over the parts in the archive's order, each with its bytes.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&Part, &[u8])> {
        let mut rest = &self.bytes[..self.filled];
        self.parts.iter().map(move |(part, len)| {
            let (bytes, after) = rest.split_at(*len);
            rest = after;
            (part, bytes)
        })
    }

    /// Empties the batch and keeps its buffers.
    pub(crate) fn emptied(mut self) -> Self {
        self.filled = 0;
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
    fn push(&mut self, part: Part, len: usize) {
        self.filled += len;
        self.parts.push((part, len));
    }

    fn is_full(&self) -> bool {
        self.filled >= BATCH || self.parts.len() >= BATCH_FILES
    }
}

/// A writer that passes the compressed framing to the writing thread.
pub(crate) struct FramingOutput(SyncSender<Parsed>);

impl Write for FramingOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let sent = self.0.send(Parsed::Framing(bytes.to_vec()));
        sent.map_err(|_| Error::from(ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

type Framing = HashedFraming<zstd::Encoder<'static, FramingOutput>>;

/// The thread between the one that reads an archive and the one that writes its files.
pub(crate) struct Parser<'scope, R> {
    reader: Reader<ReadAhead<'scope, R>, Framing>,
    /// Digest of the layer, for messages.
    layer: Option<Digest>,
    owners: Owners,
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

impl<'scope, R: Read + Send + 'scope> Parser<'scope, R> {
    /// Parses `input`, sends batches to `full`, and takes used buffers from `empty`; hashes the archive if that is asked.
    ///
    /// # Errors
    /// The compressor for the framing cannot be created.
    pub(crate) fn new(
        input: ReadAhead<'scope, R>,
        (layer, limits): (Option<Digest>, Limits),
        owners: Owners,
        (full, empty): (SyncSender<Parsed>, Receiver<Batch>),
        hashes_archive: bool,
    ) -> std::io::Result<Self> {
        // Headers are mostly zeros: even the fastest level makes them ten times smaller.
        let framing = zstd::Encoder::new(FramingOutput(full.clone()), 1)?;
        Ok(Self {
            reader: Reader::with_framing(input, limits, HashedFraming::new(framing, hashes_archive)),
            layer,
            owners,
            batch: Batch::default(),
            full,
            empty,
        })
    }

    /// Parses the archive to its end.
    pub(crate) fn run(mut self) -> Result<Whole<R>, Interrupted> {
        let (layer, mut links) = (self.layer, 0);
        let failed = |source| StoreError::Layer {
            layer,
            source: Box::new(source),
        };
        while let Some(change) = self.reader.next_change().map_err(failed)? {
            let Change::Add(entry) = change else {
                continue;
            };
            match &entry.kind {
                Kind::File { size } => {
                    let size = *size;
                    self.file(entry, size)?;
                    if self.batch.is_full() {
                        self.hand_over()?;
                    }
                }
                Kind::Symlink { target } => links += target.len() as u64,
                _ => {}
            }
        }
        self.hand_over()?;
        let (ahead, framing) = self.reader.into_parts();
        let input = ahead.finish().map_err(|source| unreadable(layer, source))?;
        // Writing the framing fails only if the writer has ended.
        let (framing, archive) = framing.finish().map_err(|_| Interrupted::Writer)?;
        framing.finish().map_err(|_| Interrupted::Writer)?;
        Ok(Whole {
            input,
            links,
            archive,
        })
    }

    fn file(&mut self, entry: Entry, size: u64) -> Result<(), Interrupted> {
        if size > IN_MEMORY {
            return self.large_file(entry, size);
        }
        let len = usize::try_from(size).unwrap_or_default();
        let is_hashed_on_the_way = self.begin_hash(size);
        let content = self.batch.room(len);
        let read = self.reader.read_exact(content);
        let hash = if is_hashed_on_the_way {
            self.reader.framing().end_file()
        } else {
            Sha256::digest(&*content).into()
        };
        read.map_err(|source| self.broken_off(&entry, source))?;
        let file = self.found(entry, hash, size);
        self.batch.push(Part::Whole(file), len);
        Ok(())
    }

    fn large_file(&mut self, entry: Entry, size: u64) -> Result<(), Interrupted> {
        let is_hashed_on_the_way = self.begin_hash(size);
        self.batch.push(Part::Begin(entry.path.clone(), size), 0);
        let mut hash = Sha256::new();
        loop {
            let room = self.batch.room(BATCH);
            match self.reader.read(room) {
                Ok(0) => break,
                Ok(read) => {
                    if !is_hashed_on_the_way {
                        hash.update(&room[..read]);
                    }
                    self.batch.push(Part::Piece, read);
                }
                Err(source) => return Err(self.broken_off(&entry, source).into()),
            }
            if self.batch.is_full() {
                self.hand_over()?;
            }
        }
        let hash = if is_hashed_on_the_way {
            self.reader.framing().end_file()
        } else {
            hash.finalize().into()
        };
        let file = self.found(entry, hash, size);
        self.batch.push(Part::End(file), 0);
        Ok(())
    }

    /// Begins to hash a file while it is read; false if its content has holes, which the archive has not.
    fn begin_hash(&mut self, size: u64) -> bool {
        let stored: u64 = self
            .reader
            .content_extents()
            .iter()
            .map(|extent| extent.len)
            .sum();
        if stored == size {
            self.reader.framing().begin_file();
        }
        stored == size
    }

    fn found(&self, entry: Entry, hash: [u8; 32], size: u64) -> FoundFile {
        let attributes = Attributes::of(&entry, self.owners);
        FoundFile {
            entry: self.reader.entry(),
            key: Key::new(hash, &attributes),
            size,
            attributes,
            path: entry.path,
        }
    }

    fn hand_over(&mut self) -> Result<(), Interrupted> {
        let next = self.empty.try_recv().unwrap_or_default();
        let batch = std::mem::replace(&mut self.batch, next);
        self.full
            .send(Parsed::Files(batch))
            .map_err(|_| Interrupted::Writer)
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
