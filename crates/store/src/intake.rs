//! Adding a layer from its archive.
//!
//! A thread parses the archive, and hashes it and its small files. The caller's thread writes, and hashes the large files. A third
//! thread reads and decompresses. Where reading only copies bytes, the parser and the writer read by turns: they keep two processors
//! busy, and a third thread would displace one of them each time it is woken. Where the processor has no instructions for the archive's hash, the reading
//! thread computes it. The threads share what was read instead of copying it. Only the caller's thread changes the store.

use crate::StoreError;
use crate::crew;
use crate::dir::Dir;
use crate::hashed::{HashedInput, has_sha256};
use crate::idle::{Idle, ParserPlace};
use crate::key::{ContentHasher, Key};
use crate::known::KNOWN;
use crate::layer::{CONTENTS, FRAMING, FramingRecord, Layer, LayerRecord, LayerSizes, Output, SIZES, Stored};
use crate::objects::{Incoming, Origin};
use crate::parse::{Batch, FoundFile, Interrupted, Parsed, Parser, Part, unreadable};
use crate::recent::Changes;
use crate::store::Store;
use std::io::{BufWriter, ErrorKind, Read, Write as _};
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use tote_archive::{Change, Limits, ReadAhead};
use tote_image::Digest;

/// Maximum number of batches on the way. Their number is also limited by that of the chunks, of which most batches keep two or three.
const DEPTH: usize = 8;

/// Where an archive is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadBy {
    /// A thread of its own: reading is work.
    Thread,
    /// The other threads by turns.
    Others,
}

/// Reads a layer's archive, writes its files as objects and its records into `dir`. `expected` is for messages.
///
/// # Errors
/// [`StoreError`]; a sweep removes what was written before the error.
pub(crate) fn take_in_archive(
    store: &Store,
    dir: &Dir,
    expected: Option<Digest>,
    (input, limits, by): (impl Read + Send, Limits, ReadBy),
) -> Result<Layer, StoreError> {
    let hashes = has_sha256();
    // Hashing is work, and threads that look around before they sleep need processors of their own.
    let by = if hashes && crew::size() > 1 {
        by
    } else {
        ReadBy::Thread
    };
    take_in(store, dir, expected, (input, limits, by), hashes)
}

/// Does what [`take_in_archive`] does; the parser hashes the archive if `hashes` says so.
///
/// # Errors
/// Those of [`take_in_archive`].
pub(crate) fn take_in(
    store: &Store,
    dir: &Dir,
    expected: Option<Digest>,
    (input, limits, by): (impl Read + Send, Limits, ReadBy),
    hashes: bool,
) -> Result<Layer, StoreError> {
    let mut intake = Intake::new(store, dir)?;
    std::thread::scope(|scope| {
        let unreadable = |source| unreadable(expected, source);
        let input = HashedInput::new(input, !hashes);
        let (ahead, reading) = match by {
            ReadBy::Thread => {
                let (ahead, reading) = ReadAhead::by_thread(input);
                let thread = std::thread::Builder::new().name("read-ahead".to_owned());
                let begun = thread.spawn_scoped(scope, move || reading.all());
                begun.map_err(unreadable)?;
                (ahead, None)
            }
            ReadBy::Others => {
                let (ahead, reading) = ReadAhead::by_turns(input);
                (ahead, Some(reading))
            }
        };
        let (full, taken) = sync_channel(DEPTH);
        let (emptied, empty) = channel();
        let place = ParserPlace::default();
        let idle = Idle::new(reading, place.clone());
        let parser = Parser::new(
            ahead,
            (expected, limits),
            store.owners,
            (full, empty),
            (hashes, place),
        );
        let maker = rustix::thread::sched_getcpu();
        let parsing = std::thread::Builder::new()
            .name("parse".to_owned())
            .spawn_scoped(scope, move || {
                crew::leave(maker);
                parser.run()
            })
            .map_err(unreadable)?;
        // The parser ends when its receiver is gone.
        let written = intake.write(taken, &emptied, &idle);
        let parsed = parsing
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        written?;
        match parsed {
            Ok(whole) => {
                intake.sizes.size += whole.links;
                // One of the two has hashed it.
                let hashed = whole.archive.or_else(|| whole.input.finish());
                let (diff_id, size) = hashed.ok_or_else(|| unreadable(ErrorKind::Other.into()))?;
                intake.finish(size, diff_id)
            }
            Err(Interrupted::Failed(error)) => Err(error),
            Err(Interrupted::Writer) => Err(unreadable(ErrorKind::BrokenPipe.into())),
        }
    })
}

/// State of writing a layer's files to disk.
struct Intake<'a> {
    store: &'a Store,
    dir: &'a Dir,
    framing: FramingRecord,
    contents: BufWriter<Output>,
    changes: Changes,
    /// The large file whose pieces are being received.
    large: Option<Large<'a>>,
    sizes: LayerSizes,
}

/// A large file on its way.
struct Large<'a> {
    hash: ContentHasher,
    destination: Destination<'a>,
}

/// Where the content of a large file goes.
enum Destination<'a> {
    /// A new object.
    New(Incoming<'a>),
    /// None, because the object of this key is expected to have the content.
    Expected(Key),
}

impl<'a> Intake<'a> {
    fn new(store: &'a Store, dir: &'a Dir) -> Result<Self, StoreError> {
        let create = |name| dir.create(name, 0o600).map_err(dir.failed("make", name));
        let framing = FramingRecord::new(create(FRAMING)?).map_err(failed(dir, FRAMING))?;
        let contents = BufWriter::with_capacity(64 << 10, Output::new(create(CONTENTS)?));
        Ok(Self {
            store,
            dir,
            framing,
            contents,
            changes: Changes::default(),
            large: None,
            sizes: LayerSizes::default(),
        })
    }

    /// Writes everything that is parsed, and gives the buffers back.
    fn write(
        &mut self,
        parsed: Receiver<Parsed>,
        emptied: &Sender<Batch>,
        idle: &Idle<impl Read>,
    ) -> Result<(), StoreError> {
        while let Some(parsed) = idle.next(&parsed) {
            match parsed {
                Parsed::Framing(bytes) => {
                    self.framing.write(&bytes).map_err(failed(self.dir, FRAMING))?;
                }
                Parsed::Changes(mut batch) => {
                    batch.for_each(|part, bytes| self.part(part, bytes))?;
                    // A parser that has ended needs no buffers, so a failure to send is ignored.
                    drop(emptied.send(batch.emptied()));
                }
            }
        }
        Ok(())
    }

    fn part(&mut self, part: Part, bytes: &[&[u8]]) -> Result<(), StoreError> {
        let objects = &self.store.objects;
        match part {
            Part::Whole(file, content) => {
                let key = file.key(content);
                let origin = objects.put(&key, bytes, &file.attributes, &file.entry.path)?;
                self.note(file, key, origin)
            }
            Part::Begin(path, size) => {
                let destination = match objects.expected(&path, size) {
                    Some(key) => Destination::Expected(key),
                    None => Destination::New(objects.incoming()?),
                };
                let hash = ContentHasher::default();
                self.large = Some(Large { hash, destination });
                Ok(())
            }
            Part::Piece => {
                // Pieces come only after a beginning.
                let Some(large) = &mut self.large else {
                    return Ok(());
                };
                for bytes in bytes {
                    if let Destination::New(incoming) = &mut large.destination {
                        incoming.write(bytes)?;
                    }
                    // The write has brought the bytes into this processor's cache one after another; the hash reads many places at once.
                    large.hash.update(bytes);
                }
                Ok(())
            }
            Part::End(file) => {
                let Some(large) = self.large.take() else {
                    return Ok(());
                };
                let key = file.key(large.hash.finish());
                let origin = match large.destination {
                    Destination::New(incoming) => {
                        incoming.finish(&key, &file.attributes, &file.entry.path)?
                    }
                    Destination::Expected(expected) => objects.take_expected(&expected, &key, &file)?,
                };
                self.note(file, key, origin)
            }
            Part::Other(change) => {
                self.changes.push(change, None);
                Ok(())
            }
        }
    }

    /// Records a file that is in the store now.
    fn note(&mut self, file: FoundFile, key: Key, origin: Origin) -> Result<(), StoreError> {
        self.store.objects.note_seen(&key);
        self.sizes.files += 1;
        self.sizes.size += file.size;
        match origin {
            Origin::Found => {}
            Origin::Written => self.sizes.written += file.size,
            Origin::Host => self.sizes.host += file.size,
        }
        let stored = Stored {
            entry: file.number,
            key,
            size: file.size,
        };
        self.changes.push(Change::Add(file.entry), Some(stored));
        let noted = self.contents.write_all(&stored.to_bytes());
        noted.map_err(failed(self.dir, CONTENTS))
    }

    /// Writes the last records of a layer, whose archive has `archive` bytes and the digest `diff_id`.
    fn finish(mut self, archive: u64, diff_id: Digest) -> Result<Layer, StoreError> {
        let contents = self.contents.into_inner();
        let contents = contents.map_err(|error| failed(self.dir, CONTENTS)(error.into_error()))?;
        self.sizes.archive = archive;
        let record = LayerRecord {
            sizes: self.sizes,
            framing: Some(self.framing.imprint()),
            contents: Some(contents.imprint()),
        };
        let json = serde_json::to_vec(&record).map_err(|error| failed(self.dir, SIZES)(error.into()))?;
        self.dir.write(SIZES, &json)?;
        self.dir.write(KNOWN, self.store.boot.as_bytes())?;
        self.store.recent.keep(diff_id, self.changes);
        Ok(Layer {
            diff_id,
            sizes: self.sizes,
        })
    }
}

/// Builds the error of a record that cannot be written.
fn failed(dir: &Dir, name: &'static str) -> impl FnOnce(std::io::Error) -> StoreError {
    move |source| StoreError::Io {
        attempt: "write",
        path: dir.path().join(name),
        source,
    }
}
