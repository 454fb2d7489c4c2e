//! Format of a layer: its archive without files' contents, and the objects that hold these.
//!
//! ```text
//! layers/DIGEST/
//! ├── framing       the archive without contents, as tote-archive writes it, compressed with zstd
//! ├── contents      for each regular file its number among the changes, its object's key and its size; 64 bytes each
//! ├── layer.json    sizes, and the sizes and digests of the two files above
//! ├── known         the boot in which the content was last known to be right, or `synced`; see [`crate::known`]
//! └── blobs.json    compressed forms that registries were seen to have
//! ```
//! The archive can be rebuilt byte for byte, so `save` and `push` give the digest that it came with.
//!
//! The files are not synced when they are written. A power cut may therefore leave each of them empty, short or
//! with other bytes, and `layer.json` shows that to a reader: it is shorter than a sector and cannot be parsed
//! unless it is complete, and it has the digests of the other two files.

use crate::StoreError;
use crate::dir::{Dir, write_all};
use crate::error::is_gone;
use crate::key::Key;
use crate::objects::Objects;
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{BufReader, Read, Write};
use tote_archive::{Change, Content, FramingReader, Limits, Reader, Rebuild, Segment};
use tote_image::{Descriptor, Digest};

pub(crate) const FRAMING: &str = "framing";
pub(crate) const CONTENTS: &str = "contents";
pub(crate) const SIZES: &str = "layer.json";
pub(crate) const BLOBS: &str = "blobs.json";

/// Bytes of a record in `contents`.
const RECORD: usize = 64;
/// Maximum size of `contents` in bytes: as many records as an archive may have entries.
const CONTENTS_LIMIT: u64 = 10_000_000 * RECORD as u64;

/// A layer in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// Digest of its uncompressed archive.
    pub diff_id: Digest,
    /// Sizes of the layer.
    pub sizes: LayerSizes,
}

/// Sizes of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LayerSizes {
    /// Bytes of all files' contents, and of the texts of symbolic links, as docker counts them.
    pub size: u64,
    /// Bytes of the uncompressed archive.
    pub archive: u64,
    /// Number of regular files.
    pub files: u64,
    /// Bytes that were written when the layer was added; the rest was in the store already.
    pub written: u64,
    /// Bytes shared with files of the host.
    pub host: u64,
}

/// Size and digest by which a record is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Imprint {
    /// Size in bytes.
    size: u64,
    digest: Digest,
}

/// Content of `layer.json`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LayerRecord {
    #[serde(flatten)]
    pub(crate) sizes: LayerSizes,
    /// Imprint of `framing`; `None` in a store of an older tote.
    #[serde(default)]
    pub(crate) framing: Option<Imprint>,
    /// Imprint of `contents`; `None` in a store of an older tote.
    #[serde(default)]
    pub(crate) contents: Option<Imprint>,
}

/// A regular file of a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Number of its change.
    pub(crate) entry: u64,
    pub(crate) key: Key,
    pub(crate) size: u64,
}

impl Stored {
    pub(crate) fn to_bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..8].copy_from_slice(&self.entry.to_le_bytes());
        bytes[8..40].copy_from_slice(&self.key.content);
        bytes[40..56].copy_from_slice(&self.key.attributes);
        bytes[56..].copy_from_slice(&self.size.to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8; RECORD]) -> Self {
        let mut stored = Self {
            entry: 0,
            key: Key {
                content: [0; 32],
                attributes: [0; 16],
            },
            size: 0,
        };
        let mut number = [0; 8];
        number.copy_from_slice(&bytes[..8]);
        stored.entry = u64::from_le_bytes(number);
        stored.key.content.copy_from_slice(&bytes[8..40]);
        stored.key.attributes.copy_from_slice(&bytes[40..56]);
        number.copy_from_slice(&bytes[56..]);
        stored.size = u64::from_le_bytes(number);
        stored
    }
}

/// Reads the files of a layer, sorted by the number of their change.
pub(crate) fn contents(dir: &Dir) -> Result<Vec<Stored>, StoreError> {
    let damaged = |reason| StoreError::damaged(dir.path().join(CONTENTS), reason);
    let record = record(dir)?;
    let bytes = dir
        .read(CONTENTS, CONTENTS_LIMIT)?
        .ok_or_else(|| damaged("it is gone"))?;
    let (records, rest) = bytes.as_chunks::<RECORD>();
    let is_whole = match record.contents {
        Some(written) => Digest::sha256(Sha256::digest(&bytes).into()) == written.digest,
        None => rest.is_empty() && records.len() as u64 == record.sizes.files,
    };
    if !is_whole {
        return Err(damaged(CHANGED));
    }
    Ok(records.iter().map(Stored::from_bytes).collect())
}

/// Reads the record that was written when the layer was added.
pub(crate) fn record(dir: &Dir) -> Result<LayerRecord, StoreError> {
    let bytes = dir.read(SIZES, 1 << 16)?.unwrap_or_default();
    serde_json::from_slice(&bytes)
        .map_err(|_| StoreError::damaged(dir.path().join(SIZES), "it does not parse"))
}

/// Reads the sizes that were recorded when the layer was added.
pub(crate) fn sizes(dir: &Dir) -> Result<LayerSizes, StoreError> {
    record(dir).map(|record| record.sizes)
}

/// Checks that the records exist and have their sizes, without reading them.
pub(crate) fn check_sizes(dir: &Dir) -> Result<LayerSizes, StoreError> {
    let record = record(dir)?;
    for (name, written) in [(FRAMING, record.framing), (CONTENTS, record.contents)] {
        let size = match dir.stat(name) {
            Ok(stat) => u64::try_from(stat.st_size).unwrap_or_default(),
            Err(errno) if is_gone(errno) => {
                return Err(StoreError::damaged(dir.path().join(name), "it is gone"));
            }
            Err(errno) => return Err(dir.failed("look at", name)(errno)),
        };
        if written.is_some_and(|written| written.size != size) {
            return Err(StoreError::damaged(dir.path().join(name), CHANGED));
        }
    }
    Ok(record.sizes)
}

/// Reason for a record that exists but is damaged.
const CHANGED: &str = "it is not what was written";

/// Reads the known compressed forms of a layer.
pub(crate) fn blobs(dir: &Dir) -> Result<Vec<Descriptor>, StoreError> {
    let bytes = dir.read(BLOBS, 1 << 20)?;
    // If the record cannot be parsed, only a hint is lost.
    Ok(bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default())
}

/// A writer of a record that computes its imprint.
pub(crate) struct Output {
    file: OwnedFd,
    hash: Sha256,
    size: u64,
}

impl Output {
    pub(crate) fn new(file: OwnedFd) -> Self {
        Self {
            file,
            hash: Sha256::new(),
            size: 0,
        }
    }

    /// Returns the imprint by which the record can be checked later.
    pub(crate) fn imprint(self) -> Imprint {
        Imprint {
            size: self.size,
            digest: Digest::sha256(self.hash.finalize().into()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        write_all(&self.file, bytes)?;
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A writer of `framing`: each piece becomes a frame of its own, which needs no copy of the bytes before it.
pub(crate) struct FramingRecord {
    compressor: zstd::bulk::Compressor<'static>,
    /// The last frame, in memory that is used again for the next.
    frame: Vec<u8>,
    output: Output,
}

impl FramingRecord {
    pub(crate) fn new(file: OwnedFd) -> std::io::Result<Self> {
        Ok(Self {
            // Headers are mostly zeros: even a fast level makes them many times smaller.
            compressor: zstd::bulk::Compressor::new(1)?,
            frame: Vec::new(),
            output: Output::new(file),
        })
    }

    /// Appends a piece, which should be large.
    pub(crate) fn write(&mut self, piece: &[u8]) -> std::io::Result<()> {
        self.frame.clear();
        self.frame.reserve(zstd::zstd_safe::compress_bound(piece.len()));
        self.compressor.compress_to_buffer(piece, &mut self.frame)?;
        self.output.write_all(&self.frame)
    }

    /// Returns the imprint by which the record can be checked later.
    pub(crate) fn imprint(self) -> Imprint {
        self.output.imprint()
    }
}

type Framing = FramingReader<BufReader<zstd::Decoder<'static, BufReader<File>>>>;

fn framing(dir: &Dir) -> Result<Framing, StoreError> {
    let failed = |source| StoreError::Io {
        attempt: "read",
        path: dir.path().join(FRAMING),
        source,
    };
    check_framing(dir)?;
    let file = dir.open_file(FRAMING).map_err(dir.failed("open", FRAMING))?;
    let decoder = zstd::Decoder::new(File::from(file)).map_err(failed)?;
    Ok(FramingReader::new(BufReader::new(decoder)))
}

/// Reads `framing` once to check its digest: the decoder would notice damage in the middle only after it has
/// returned the part before.
pub(crate) fn check_framing(dir: &Dir) -> Result<(), StoreError> {
    let damaged = |reason| StoreError::damaged(dir.path().join(FRAMING), reason);
    let file = match dir.open_file(FRAMING) {
        Ok(file) => file,
        Err(errno) if is_gone(errno) => return Err(damaged("it is gone")),
        Err(errno) => return Err(dir.failed("open", FRAMING)(errno)),
    };
    let Some(written) = record(dir)?.framing else {
        return Ok(());
    };
    let content = crate::key::file_sha256(&file).map_err(|source| match source.kind() {
        std::io::ErrorKind::IsADirectory => damaged("it is no file"),
        _ => StoreError::Io {
            attempt: "read",
            path: dir.path().join(FRAMING),
            source,
        },
    })?;
    if Digest::sha256(content) != written.digest {
        return Err(damaged(CHANGED));
    }
    Ok(())
}

/// Iterates over the changes of a layer without reading contents: the content of a regular file is given by its
/// key.
pub(crate) fn changes(
    dir: &Dir,
    layer: &Digest,
    mut each: impl FnMut(&Change, Option<&Stored>) -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let contents = contents(dir)?;
    let mut stored = contents.iter().peekable();
    let inline = framing(dir)?.filter(|segment| !matches!(segment, Ok(Segment::Content(_))));
    let archive = Rebuild::new(inline, |_: Content| Ok(std::io::empty()));
    let mut reader = Reader::new(archive, Limits::default()).without_contents();
    let failed = |source| StoreError::Layer {
        layer: Some(*layer),
        source: Box::new(source),
    };
    while let Some(change) = reader.next_change().map_err(failed)? {
        let stored = stored.next_if(|stored| stored.entry == reader.entry());
        each(&change, stored)?;
    }
    Ok(())
}

/// The uncompressed archive of a layer, byte for byte as it came.
pub struct LayerArchive<'a> {
    archive: Box<dyn Read + Send + 'a>,
    /// Size in bytes.
    pub size: u64,
}

impl std::fmt::Debug for LayerArchive<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerArchive")
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Read for LayerArchive<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        self.archive.read(out)
    }
}

pub(crate) fn archive<'a>(dir: &Dir, objects: &'a Objects) -> Result<LayerArchive<'a>, StoreError> {
    let contents = contents(dir)?;
    let open = move |content: Content| {
        let found = contents.binary_search_by_key(&content.entry, |stored| stored.entry);
        let stored = found.ok().and_then(|at| contents.get(at));
        let stored = stored.ok_or_else(|| std::io::Error::other("the layer's record lacks a file"))?;
        let name = stored.key.name(0);
        let file = objects.dir.open_file(&name).map_err(|errno| {
            std::io::Error::other(StoreError::io("open", objects.dir.path().join(name), errno))
        })?;
        rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(content.offset))?;
        Ok(File::from(file))
    };
    let archive = Rebuild::new(framing(dir)?, open);
    Ok(LayerArchive {
        archive: Box::new(archive),
        size: sizes(dir)?.archive,
    })
}
