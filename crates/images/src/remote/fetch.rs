//! Concurrent transfers of layers into the store.

use super::crew;
use super::pull::{LayerStep, PullEvent};
use crate::ArchiveError;
use crate::ImagesError;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use tote_archive::{Decoder, Expansion};
use tote_image::{Descriptor, Digest, Reference};
use tote_registry::{Blob, Client};
use tote_store::{Ingest, Limits, Slot, Store, StoreError};
use tote_sys::best_effort;

/// Shared state of the threads that fetch the layers of one image.
pub struct Fetch<'a> {
    /// Connection to the registry.
    pub client: &'a Client,
    /// Store of the layers.
    pub store: &'a Store,
    /// Writer of the layers to the store.
    pub ingest: &'a Ingest<'a>,
    /// Name of the image at the registry.
    pub reference: &'a Reference,
    /// Listener to each layer's progress.
    pub report: &'a (dyn Fn(PullEvent<'_>) + Sync),
}

impl std::fmt::Debug for Fetch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetch")
            .field("reference", self.reference)
            .finish_non_exhaustive()
    }
}

impl Fetch<'_> {
    /// Fetches the missing layers. Returns true if the digest of every blob is verified, including those of layers
    /// that were present.
    pub fn layers(&self, layers: &[(Digest, Descriptor)]) -> Result<bool, ImagesError> {
        let verified = crew::for_each(layers, |(diff_id, blob), stop| self.layer(diff_id, blob, stop))?;
        Ok(verified.into_iter().all(|verified| verified))
    }

    fn layer(&self, diff_id: &Digest, blob: &Descriptor, stop: &AtomicBool) -> Result<bool, ImagesError> {
        let tell = |step| (self.report)(PullEvent::Layer { blob, step });
        tell(LayerStep::Waiting);
        let vacancy = match self.ingest.layer(diff_id)? {
            Slot::Present(_) => {
                tell(LayerStep::Exists);
                let blobs = self.store.blobs(diff_id)?;
                return Ok(blobs.iter().any(|known| known.digest == blob.digest));
            }
            Slot::Vacant(vacancy) => vacancy,
        };
        let mut stream = Stream {
            blob: self.client.blob(self.reference, blob)?,
            received: 0,
            failed: None,
            stop,
            tell: &tell,
        };
        let filled = Decoder::new(&mut stream, Expansion::default())
            .map_err(|error| ImagesError::from(ArchiveError::ImageInput(error)))
            .and_then(|mut decoder| {
                self.ingest.fill(vacancy, &mut decoder, Limits::default())?;
                Ok(decoder.drain().map_err(ArchiveError::ImageInput)?)
            });
        // The archive is read before all of the blob has arrived: what its reader finds wrong may be damage done on the way,
        // which the digest tells.
        let is_unreadable = matches!(
            filled,
            Err(
                ImagesError::Store(StoreError::Layer { .. } | StoreError::Content { .. })
                    | ImagesError::Archive(ArchiveError::ImageInput(_))
            )
        );
        if is_unreadable && stream.failed.is_none() {
            best_effort(io::copy(&mut stream, &mut io::sink()));
        }
        // The registry's error is the cause of any error that the reader of the stream reports.
        match (stream.failed, filled) {
            (Some(error), _) => Err(error.into()),
            (None, filled) => filled,
        }?;
        self.ingest.note_blob(diff_id, blob)?;
        tell(LayerStep::Done);
        Ok(true)
    }
}

/// Blob that reports its progress, and ends after a failure of another transfer.
struct Stream<'a> {
    blob: Blob<'a>,
    received: u64,
    failed: Option<tote_registry::Error>,
    stop: &'a AtomicBool,
    tell: &'a (dyn Fn(LayerStep) + Sync),
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("another layer failed"));
        }
        match self.blob.next(buffer) {
            Ok(length) => {
                self.received += length as u64;
                (self.tell)(LayerStep::Fetching(self.received));
                Ok(length)
            }
            Err(error) => {
                let text = error.to_string();
                self.failed = Some(error);
                Err(io::Error::other(text))
            }
        }
    }
}
