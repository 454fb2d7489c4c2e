//! An archive becomes batches of files: what is read and hashed by one thread while another one writes.

use crate::StoreError;
use crate::key::{Attributes, Key, Owners};
use sha2::{Digest as _, Sha256};
use std::io::{Error, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender};
use tote_archive::{Change, Entry, EntryPath, FramingWriter, Kind, Limits, ReadAhead, ReadError, Reader};
use tote_image::Digest;

/// Contents up to this size, in bytes, are read before anything is written, so that one that is there costs no write.
const IN_MEMORY: u64 = 1 << 20;
/// Bytes of contents that are handed over at once, or more by one file: handing over costs little, and a processor's
/// cache holds them.
const BATCH: usize = 256 << 10;
/// Files that are handed over at once at most, so that the writer has something to do where all files are small.
const BATCH_FILES: usize = 128;

/// A part of an archive that the parser hands over.
pub(crate) enum Parsed {
    /// Files, or parts of one.
    Files(Batch),
    /// The next bytes of a layer's compressed `framing`.
    Framing(Vec<u8>),
}

/// Files of an archive in its order, with their contents.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// How many of them are contents; what is behind them is room that an earlier batch has made.
    filled: usize,
    parts: Vec<(Part, usize)>,
}

/// A part of a batch, which has the bytes that follow those of the part before.
pub(crate) enum Part {
    /// A file whose whole content the bytes are.
    Whole(FoundFile),
    /// The bytes are the next ones of a large file.
    Piece,
    /// The large file whose pieces came before; it has no bytes of its own.
    End(FoundFile),
}

/// A regular file of an archive, hashed.
pub(crate) struct FoundFile {
    /// The number of its change.
    pub(crate) entry: u64,
    pub(crate) key: Key,
    /// Bytes of its content, with holes.
    pub(crate) size: u64,
    pub(crate) attributes: Attributes,
    pub(crate) path: EntryPath,
}

impl Batch {
    /// The parts in the archive's order, each with its bytes.
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

    /// Room for so many bytes behind those that are there.
    fn room(&mut self, len: usize) -> &mut [u8] {
        let end = self.filled + len;
        if self.bytes.len() < end {
            self.bytes.resize(end.max(BATCH), 0);
        }
        &mut self.bytes[self.filled..end]
    }

    /// Adds a part whose bytes are in the room.
    fn push(&mut self, part: Part, len: usize) {
        self.filled += len;
        self.parts.push((part, len));
    }

    fn is_full(&self) -> bool {
        self.filled >= BATCH || self.parts.len() >= BATCH_FILES
    }
}

/// The compressed framing on its way to the writer.
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

type Framing = FramingWriter<zstd::Encoder<'static, FramingOutput>>;

/// The thread between the one that reads an archive and the one that writes its files.
pub(crate) struct Parser<'scope, R> {
    reader: Reader<ReadAhead<'scope, R>, Framing>,
    /// For messages.
    layer: Option<Digest>,
    owners: Owners,
    batch: Batch,
    full: SyncSender<Parsed>,
    empty: Receiver<Batch>,
}

/// Why a parser ends early.
pub(crate) enum Interrupted {
    /// The archive is not as it should be, or cannot be read.
    Failed(StoreError),
    /// The writer takes no more, and knows why.
    Writer,
}

impl From<StoreError> for Interrupted {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

impl<'scope, R: Read + Send + 'scope> Parser<'scope, R> {
    /// Parses `input`, hands over to `full`, and takes buffers that were used before from `empty`.
    ///
    /// # Errors
    /// No compressor can be made for the framing.
    pub(crate) fn new(
        input: ReadAhead<'scope, R>,
        (layer, limits): (Option<Digest>, Limits),
        owners: Owners,
        (full, empty): (SyncSender<Parsed>, Receiver<Batch>),
    ) -> std::io::Result<Self> {
        // Headers are mostly zeros: the fastest level makes a tenth of them.
        let framing = zstd::Encoder::new(FramingOutput(full.clone()), 1)?;
        Ok(Self {
            reader: Reader::with_framing(input, limits, FramingWriter::new(framing)),
            layer,
            owners,
            batch: Batch::default(),
            full,
            empty,
        })
    }

    /// Reads the archive to its end, and hands back the input.
    pub(crate) fn run(mut self) -> Result<R, Interrupted> {
        let layer = self.layer;
        let failed = |source| StoreError::Layer {
            layer,
            source: Box::new(source),
        };
        while let Some(change) = self.reader.next_change().map_err(failed)? {
            if let Change::Add(entry) = change
                && let Kind::File { size } = entry.kind
            {
                self.file(entry, size)?;
                if self.batch.is_full() {
                    self.hand_over()?;
                }
            }
        }
        self.hand_over()?;
        let (ahead, framing) = self.reader.into_parts();
        let input = ahead.finish().map_err(|source| unreadable(layer, source))?;
        // The framing's output fails only where the writer takes no more.
        let finished = framing.finish().and_then(zstd::Encoder::finish);
        finished.map_err(|_| Interrupted::Writer)?;
        Ok(input)
    }

    fn file(&mut self, entry: Entry, size: u64) -> Result<(), Interrupted> {
        if size > IN_MEMORY {
            return self.large_file(entry, size);
        }
        let len = usize::try_from(size).unwrap_or_default();
        let content = self.batch.room(len);
        let read = self.reader.read_exact(content);
        let hash = Sha256::digest(&*content).into();
        read.map_err(|source| self.broken_off(&entry, source))?;
        let file = self.found(entry, hash, size);
        self.batch.push(Part::Whole(file), len);
        Ok(())
    }

    fn large_file(&mut self, entry: Entry, size: u64) -> Result<(), Interrupted> {
        let mut hash = Sha256::new();
        loop {
            let room = self.batch.room(BATCH);
            match self.reader.read(room) {
                Ok(0) => break,
                Ok(read) => {
                    hash.update(&room[..read]);
                    self.batch.push(Part::Piece, read);
                }
                Err(source) => return Err(self.broken_off(&entry, source).into()),
            }
            if self.batch.is_full() {
                self.hand_over()?;
            }
        }
        let file = self.found(entry, hash.finalize().into(), size);
        self.batch.push(Part::End(file), 0);
        Ok(())
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

/// The error of an archive that cannot be read.
pub(crate) fn unreadable(layer: Option<Digest>, source: Error) -> StoreError {
    let position = 0;
    StoreError::Layer {
        layer,
        source: Box::new(ReadError::Input { position, source }),
    }
}
