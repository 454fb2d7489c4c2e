//! How content comes into the store.

use crate::StoreError;
use crate::dir::{ADDING, Dir};
use crate::error::WrongLayer;
use crate::gap::Presence;
use crate::image::Image;
use crate::key::{Attributes, Key};
use crate::known::KNOWN;
use crate::layer::{BLOBS, CONTENTS, FRAMING, LayerRecord, LayerSizes, Output, SIZES, Stored};
use crate::lock::Lock;
use crate::objects::Origin;
use crate::store::{Store, sha256_hex};
use rustix::fd::OwnedFd;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::io::{BufWriter, Read, Write as _};
use tote_archive::{Change, Entry, FramingWriter, Kind, Limits, ReadAhead, ReadError, Reader};
use tote_image::{Descriptor, Digest, Reference};
use tote_sys::best_effort;

/// Contents up to this size, in bytes, are read before anything is written, so that one that is there costs no write.
const IN_MEMORY: u64 = 1 << 20;

/// The right to add to the store. As long as one lives, in whichever process, nothing is swept away.
#[derive(Debug)]
pub struct Ingest<'a> {
    store: &'a Store,
    /// The file that says that what is added is nothing yet.
    mark: Option<String>,
    _presence: Presence,
}

impl Drop for Ingest<'_> {
    fn drop(&mut self) {
        self.store.doubt_trees_of_replaced();
        // The lock is held still: no sweep takes the mark for one that was left.
        if let Some(mark) = &self.mark {
            best_effort(self.store.root.unlink(mark));
        }
    }
}

/// A layer that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layer {
    /// The digest of its uncompressed archive.
    pub diff_id: Digest,
    /// How large it is.
    pub sizes: LayerSizes,
}

/// What a layer's place is like.
#[derive(Debug)]
pub enum Slot {
    /// The layer is there.
    Present(Layer),
    /// It is not, and whoever else wants it waits for the holder of this.
    Vacant(Vacancy),
}

/// The lock on a layer that is to come.
#[derive(Debug)]
pub struct Vacancy {
    diff_id: Digest,
    lock: Lock,
}

impl<'a> Ingest<'a> {
    pub(crate) fn new(store: &'a Store) -> Result<Self, StoreError> {
        Ok(Self {
            store,
            _presence: Presence::enter(&store.root)?,
            mark: None,
        })
    }

    pub(crate) fn marked(store: &'a Store) -> Result<Self, StoreError> {
        let mut ingest = Self::new(store)?;
        let (_, mark) = store.root.create_numbered(ADDING)?;
        ingest.mark = Some(mark);
        // Before something is written: then it has little to write.
        store.sync(true)?;
        Ok(ingest)
    }

    pub(crate) fn store(&self) -> &'a Store {
        self.store
    }

    /// Looks for a layer. When another process is just getting it, this waits; so two pulls of one layer share the work.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn layer(&self, diff_id: &Digest) -> Result<Slot, StoreError> {
        if let Some(layer) = self.store.layer(diff_id)? {
            return Ok(Slot::Present(layer));
        }
        let lock = Lock::exclusive(&self.store.layers, &lock_name(diff_id)?)?;
        match self.store.layer(diff_id)? {
            None => Ok(Slot::Vacant(Vacancy {
                diff_id: *diff_id,
                lock,
            })),
            Some(layer) => {
                // Those who still wait make the file again; a sweep removes the last one.
                best_effort(lock.remove(&self.store.layers, &lock_name(diff_id)?));
                Ok(Slot::Present(layer))
            }
        }
    }

    /// Takes in the layer that a slot waits for, from its uncompressed archive.
    ///
    /// # Errors
    /// [`StoreError::WrongLayer`] when the archive is not the one that was expected, and others; no layer is there then,
    /// and objects that came of it wait for a sweep.
    pub fn fill(
        &self,
        vacancy: Vacancy,
        input: impl Read + Send,
        limits: Limits,
    ) -> Result<Layer, StoreError> {
        let layer = self.take_in(Some(vacancy.diff_id), input, limits)?;
        best_effort(
            vacancy
                .lock
                .remove(&self.store.layers, &lock_name(&layer.diff_id)?),
        );
        Ok(layer)
    }

    /// Takes in a layer whose digest nobody knows yet.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn add_layer(&self, input: impl Read + Send, limits: Limits) -> Result<Layer, StoreError> {
        self.take_in(None, input, limits)
    }

    fn take_in(
        &self,
        expected: Option<Digest>,
        input: impl Read + Send,
        limits: Limits,
    ) -> Result<Layer, StoreError> {
        self.store.note_unsynced()?;
        let (dir, unfinished) = self.store.layers.make_unfinished()?;
        // The archive is read, decompressed and hashed by one thread, its files are hashed and written by this one.
        let taken = std::thread::scope(|scope| {
            let input = ReadAhead::new(scope, Hashing::new(input));
            let input = input.map_err(|source| unreadable(expected, source))?;
            Intake::new(self.store, &dir, expected, input, limits)?.run()
        });
        let moved = taken.and_then(
            |layer| match expected.filter(|expected| *expected != layer.diff_id) {
                Some(expected) => Err(StoreError::WrongLayer(Box::new(WrongLayer {
                    expected,
                    found: layer.diff_id,
                }))),
                None => self.settle(&unfinished, &layer).map(|()| layer),
            },
        );
        if moved.is_err() {
            best_effort(self.store.layers.remove_tree(&unfinished));
        }
        moved
    }

    fn settle(&self, unfinished: &str, layer: &Layer) -> Result<(), StoreError> {
        // Somebody without a vacancy was faster, and both are the same; but one that is damaged makes room.
        if self.store.layer(&layer.diff_id)?.is_some() {
            return self.store.layers.remove_tree(unfinished);
        }
        self.store
            .put_in_place(&self.store.layers, unfinished, &sha256_hex(&layer.diff_id)?)?;
        self.store.note_unsynced()
    }

    /// Notes a compressed form of a layer, as registries have it.
    ///
    /// # Errors
    /// [`StoreError`], of a layer that is not there for one.
    pub fn note_blob(&self, diff_id: &Digest, blob: &Descriptor) -> Result<(), StoreError> {
        let dir = self
            .store
            .layer_dir(diff_id)?
            .ok_or(StoreError::NoLayer(*diff_id))?;
        let mut blobs = crate::layer::blobs(&dir)?;
        if blobs.iter().any(|known| known.digest == blob.digest) {
            return Ok(());
        }
        blobs.push(Descriptor::new(&blob.media_type, blob.digest, blob.size));
        let json = serde_json::to_vec(&blobs);
        let json = json.map_err(|_| StoreError::damaged(dir.path().join(BLOBS), "it cannot be written"))?;
        dir.write(BLOBS, &json)
    }

    /// Adds an image, all of whose layers are there: its configuration and, where one is known, its manifest, both as
    /// received. The blobs of the manifest are noted with the layers.
    ///
    /// # Errors
    /// [`StoreError::NoLayer`] and others.
    pub fn image(&self, config: &[u8], manifest: Option<&[u8]>) -> Result<Image, StoreError> {
        crate::image::add(self, self.store, config, manifest)
    }

    /// Adds annotations to an image's manifest. Its id is that of its configuration, and stays what it is.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn annotate(&self, image: &Image, annotations: &BTreeMap<String, String>) -> Result<(), StoreError> {
        crate::image::annotate(self.store, image, annotations)
    }

    /// Gives an image or an index a name, which another may have had until now; that one's id is given back.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn tag(&self, name: &Reference, image: &Digest) -> Result<Option<Digest>, StoreError> {
        let is_index = crate::index::is_one(&self.store.images, &sha256_hex(image)?);
        crate::names::put(&self.store.names, name, (image, is_index))
    }
}

fn lock_name(diff_id: &Digest) -> Result<String, StoreError> {
    Ok(format!("{}{}", crate::store::LOCK, sha256_hex(diff_id)?))
}

/// One layer on its way in.
struct Intake<'a, 'scope, R> {
    store: &'a Store,
    dir: &'a Dir,
    /// For messages.
    name: Option<Digest>,
    reader: Reader<ReadAhead<'scope, Hashing<R>>, FramingWriter<zstd::Encoder<'static, Output>>>,
    contents: BufWriter<Output>,
    buffer: Vec<u8>,
    sizes: LayerSizes,
}

impl<'a, 'scope, R: Read + Send + 'scope> Intake<'a, 'scope, R> {
    fn new(
        store: &'a Store,
        dir: &'a Dir,
        expected: Option<Digest>,
        input: ReadAhead<'scope, Hashing<R>>,
        limits: Limits,
    ) -> Result<Self, StoreError> {
        let create = |name| dir.create(name, 0o600).map_err(dir.failed("make", name));
        let framing = compressed(dir, create(FRAMING)?)?;
        let contents = BufWriter::with_capacity(64 << 10, Output::new(create(CONTENTS)?));
        Ok(Self {
            store,
            dir,
            name: expected,
            reader: Reader::with_framing(input, limits, FramingWriter::new(framing)),
            contents,
            buffer: Vec::new(),
            sizes: LayerSizes::default(),
        })
    }

    fn run(mut self) -> Result<Layer, StoreError> {
        let layer = self.name;
        let failed = |source| StoreError::Layer {
            layer,
            source: Box::new(source),
        };
        while let Some(change) = self.reader.next_change().map_err(failed)? {
            if let Change::Add(entry) = &change
                && let Kind::File { size } = entry.kind
            {
                self.file(entry, size)?;
            }
        }
        let (ahead, framing) = self.reader.into_parts();
        let input = ahead.finish().map_err(|source| unreadable(layer, source))?;
        let failed = |name: &str| {
            let path = self.dir.path().join(name);
            move |source| StoreError::Io {
                attempt: "write",
                path,
                source,
            }
        };
        let framing = framing
            .finish()
            .and_then(zstd::Encoder::finish)
            .map_err(failed(FRAMING))?;
        let contents = self.contents.into_inner();
        let contents = contents.map_err(|error| failed(CONTENTS)(error.into_error()))?;
        self.sizes.archive = input.size;
        let record = LayerRecord {
            sizes: self.sizes,
            framing: Some(framing.imprint()),
            contents: Some(contents.imprint()),
        };
        let json = serde_json::to_vec(&record).map_err(|error| failed(SIZES)(error.into()))?;
        self.dir.write(SIZES, &json)?;
        self.dir.write(KNOWN, self.store.boot.as_bytes())?;
        let diff_id = Digest::sha256(input.hash.finalize().into());
        Ok(Layer {
            diff_id,
            sizes: self.sizes,
        })
    }

    fn file(&mut self, entry: &Entry, size: u64) -> Result<(), StoreError> {
        let attributes = Attributes::of(entry, self.store.owners);
        let (key, origin) = if size <= IN_MEMORY {
            self.small(entry, size, &attributes)?
        } else {
            self.large(entry, &attributes)?
        };
        self.sizes.files += 1;
        self.sizes.size += size;
        match origin {
            Origin::Found => {}
            Origin::Written => self.sizes.written += size,
            Origin::Host => self.sizes.host += size,
        }
        let stored = Stored {
            entry: self.reader.entry(),
            key,
            size,
        };
        self.contents
            .write_all(&stored.to_bytes())
            .map_err(|source| StoreError::Io {
                attempt: "write",
                path: self.dir.path().join(CONTENTS),
                source,
            })
    }

    fn small(
        &mut self,
        entry: &Entry,
        size: u64,
        attributes: &Attributes,
    ) -> Result<(Key, Origin), StoreError> {
        self.buffer.resize(usize::try_from(size).unwrap_or_default(), 0);
        let read = self.reader.read_exact(&mut self.buffer);
        read.map_err(|source| self.unreadable(entry, source))?;
        self.store.objects.put(&self.buffer, attributes, &entry.path)
    }

    fn large(&mut self, entry: &Entry, attributes: &Attributes) -> Result<(Key, Origin), StoreError> {
        let mut incoming = self.store.objects.incoming()?;
        self.buffer.resize(256 << 10, 0);
        loop {
            match self.reader.read(&mut self.buffer) {
                Ok(0) => return incoming.finish(attributes, &entry.path),
                Ok(read) => incoming.write(&self.buffer[..read])?,
                Err(source) => return Err(self.unreadable(entry, source)),
            }
        }
    }

    fn unreadable(&self, entry: &Entry, source: std::io::Error) -> StoreError {
        StoreError::Content {
            layer: self.name,
            path: entry.path.to_string(),
            source,
        }
    }
}

fn unreadable(layer: Option<Digest>, source: std::io::Error) -> StoreError {
    let position = 0;
    StoreError::Layer {
        layer,
        source: Box::new(ReadError::Input { position, source }),
    }
}

fn compressed(dir: &Dir, file: OwnedFd) -> Result<zstd::Encoder<'static, Output>, StoreError> {
    // Headers are mostly zeros: the fastest level makes a tenth of them.
    zstd::Encoder::new(Output::new(file), 1).map_err(|source| StoreError::Io {
        attempt: "write",
        path: dir.path().join(FRAMING),
        source,
    })
}

/// Hashes what is read.
struct Hashing<R> {
    input: R,
    hash: Sha256,
    size: u64,
}

impl<R> Hashing<R> {
    fn new(input: R) -> Self {
        Self {
            input,
            hash: Sha256::new(),
            size: 0,
        }
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(out)?;
        self.hash.update(&out[..read]);
        self.size += read as u64;
        Ok(read)
    }
}
