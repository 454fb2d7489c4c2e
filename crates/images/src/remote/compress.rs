//! Layers in the compressed form for registries.

use crate::{Home, ImagesError};
use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use tote_archive::{Compression, Encoder};
use tote_image::media_type::OCI_LAYER_GZIP;
use tote_image::{Algorithm, Descriptor, Digest};
use tote_registry::Hasher;
use tote_state::StateError;
use tote_store::Store;

/// Compressed layer in a nameless file, which disappears with this value.
#[derive(Debug)]
pub struct Compressed {
    /// Digest and size of the compressed bytes.
    pub descriptor: Descriptor,
    file: File,
}

impl Compressed {
    /// Compresses a layer of the store with gzip, which all registries and engines accept. Setting `stop` cancels.
    /// `told` receives the number of processed bytes and the total.
    pub fn new(
        home: &Home,
        store: &Store,
        diff_id: &Digest,
        (stop, told): (&AtomicBool, &mut dyn FnMut(u64, u64)),
    ) -> Result<Self, ImagesError> {
        let failed = |source| StateError::file("compress a layer in", home.store())(source);
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        let file = rustix::fs::open(home.store(), flags, Mode::RUSR | Mode::WUSR)
            .map_err(|errno| failed(errno.into()))?;
        let mut archive = Counted {
            size: store.layer(diff_id)?.map_or(0, |layer| layer.sizes.archive),
            archive: store.layer_archive(diff_id)?,
            done: 0,
            told,
        };
        let hashed = Hashed {
            file: BufWriter::new(File::from(file)),
            hasher: Hasher::new(Algorithm::Sha256),
            size: 0,
            stop,
        };
        let compress = || -> io::Result<Hashed<'_>> {
            let mut encoder = Encoder::new(hashed, Compression::Gzip, None)?;
            io::copy(&mut archive, &mut encoder)?;
            encoder.finish()
        };
        let Hashed {
            file, hasher, size, ..
        } = compress().map_err(failed)?;
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        Ok(Self {
            descriptor: Descriptor::new(OCI_LAYER_GZIP, hasher.finish(), size),
            file,
        })
    }

    /// Opens the bytes from their start.
    pub fn open(&self) -> io::Result<Box<dyn Read>> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Box::new(file))
    }
}

/// Archive that reports how much of it was read.
struct Counted<'a, R> {
    archive: R,
    done: u64,
    size: u64,
    told: &'a mut dyn FnMut(u64, u64),
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.archive.read(buffer)?;
        self.done += length as u64;
        (self.told)(self.done, self.size);
        Ok(length)
    }
}

struct Hashed<'a> {
    file: BufWriter<File>,
    hasher: Hasher,
    size: u64,
    stop: &'a AtomicBool,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("another layer failed"));
        }
        let length = self.file.write(bytes)?;
        self.hasher.update(&bytes[..length]);
        self.size += length as u64;
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
