//! `push`: an image from the store to a registry.

use super::compress::Compressed;
use super::crew;
use super::settings::{Access, Settings};
use crate::RemoteError;
use crate::{Found, for_platforms, names_of_images, open_store, written};
use crate::{Home, ImagesError};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tote_image::media_type::OCI_CONFIG;
use tote_image::{Descriptor, Digest, Manifest, Platform, Reference};
use tote_registry::{Client, Pushed};
use tote_store::{Image, ImageIndex, Store, sha256};

/// Request to push an image.
#[derive(Clone, Debug, Default)]
pub struct PushRequest {
    /// Name of the image in the store; also the destination by default.
    pub image: String,
    /// Destination.
    pub destination: Option<String>,
    /// Platforms that the image must cover.
    pub platforms: Vec<Platform>,
    /// Options for the access to the registry.
    pub access: Access,
}

/// Listener to the progress of a push; several threads call it.
pub type PushReport = Arc<dyn Fn(PushEvent<'_>) + Send + Sync>;

/// Progress of a push.
#[derive(Clone, Copy, Debug)]
pub enum PushEvent<'a> {
    /// Destination.
    To(&'a Reference),
    /// Progress of a layer.
    Layer {
        /// Layer, by the digest of its uncompressed archive.
        diff_id: &'a Digest,
        /// Step of the transfer.
        step: PushStep,
    },
}

/// Step of a layer's transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushStep {
    /// Start of the compression.
    Compressing,
    /// Progress of the compression.
    Compressed {
        /// Number of bytes of the archive that are compressed.
        done: u64,
        /// Size of the uncompressed archive in bytes.
        size: u64,
    },
    /// Progress of the upload.
    Sending {
        /// Number of bytes that are sent.
        sent: u64,
        /// Size of the compressed layer in bytes.
        size: u64,
    },
    /// Layer that the registry has already.
    Exists,
    /// Layer that the registry took from another repository.
    Mounted,
    /// End of the upload.
    Done,
}

/// Image that was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedImage {
    /// Name at the registry.
    pub name: Reference,
    /// Digest of the manifest.
    pub digest: Digest,
    /// Size of the manifest in bytes.
    pub size: u64,
}

/// Parses podman's form of a destination: with the transport in front, or without.
fn registry_name(destination: &str) -> Result<&str, ImagesError> {
    for other in [
        "dir:",
        "oci:",
        "oci-archive:",
        "docker-archive:",
        "docker-daemon:",
    ] {
        if destination.starts_with(other) {
            return Err(RemoteError::NoRegistry(destination.to_owned()).into());
        }
    }
    Ok(destination.strip_prefix("docker://").unwrap_or(destination))
}

/// Pushes an image. A layer that the registry has in a known form is not sent again; the others are compressed.
///
/// # Errors
/// [`ImagesError`]. Layers that were sent before a failure stay at the registry, without a name.
pub fn push(home: &Home, request: &PushRequest, report: &PushReport) -> Result<PushedImage, ImagesError> {
    let settings = Settings::read()?;
    let name = match &request.destination {
        Some(destination) => settings.reference(registry_name(destination)?)?,
        None => settings.reference(&request.image)?,
    };
    let client = settings.client_for(&name, &request.access)?;
    report(PushEvent::To(&name));
    let store = open_store(home)?;
    let id = match request.destination {
        Some(_) => store.find(&request.image)?,
        None => store
            .named(&name)?
            .ok_or_else(|| RemoteError::NothingToPush(name.name()))?,
    };
    let found = for_platforms(&store, &id, &name.familiar(), &request.platforms)?;
    let push = Push {
        home,
        client: &client,
        store: &store,
        name: &name,
        others: others(&store, &name, &found.images())?,
        report,
    };
    let (digest, size) = match &found {
        Found::Image(id) => push.image(id, &name)?,
        Found::Index(index) => push.index(index)?,
    };
    // The pushed digest also names the image in the store, as after a pull.
    store.ingest()?.tag(&name.with_digest(digest), &found.id())?;
    let pushed = PushedImage { digest, size, name };
    crate::events::pushed(home, &pushed.name);
    Ok(pushed)
}

/// Sends layers that belong to no image, like [`push`].
///
/// # Errors
/// [`ImagesError`].
pub fn push_layers(
    home: &Home,
    client: &Client,
    store: &Store,
    name: &Reference,
    layers: &[Digest],
    report: &PushReport,
) -> Result<Vec<Descriptor>, ImagesError> {
    report(PushEvent::To(name));
    let push = Push {
        home,
        client,
        store,
        name,
        others: Vec::new(),
        report,
    };
    push.layers(layers)
}

/// Pushes every image that has a name in a repository, in the order of the tags; `done` receives each.
///
/// # Errors
/// Those of [`push`], of the first image that fails.
pub fn push_all_tags(
    home: &Home,
    request: &PushRequest,
    report: &PushReport,
    done: &mut dyn FnMut(PushedImage),
) -> Result<(), ImagesError> {
    // Only a name with a tag or a digest of its own cannot take another tag.
    let Ok(any) = Reference::parse(&format!("{}:any", request.image)) else {
        Reference::parse(&request.image)?;
        return Err(RemoteError::TagWithAll.into());
    };
    let repository = Settings::read()?.reference(&request.image)?.name();
    let names = open_store(home)?.names()?.into_iter().map(|(name, _)| name);
    let tagged: Vec<Reference> = names
        .filter(|name| name.name() == repository && name.digest().is_none())
        .collect();
    if tagged.is_empty() {
        return Err(RemoteError::NothingToPush(any.name()).into());
    }
    for name in tagged {
        let request = PushRequest {
            image: name.to_string(),
            ..request.clone()
        };
        done(push(home, &request, report)?);
    }
    Ok(())
}

/// Lists the image's other repositories at the same registry, from which the registry can take layers.
fn others(store: &Store, name: &Reference, ids: &[Digest]) -> Result<Vec<Reference>, ImagesError> {
    let mut others: Vec<Reference> = names_of_images(store)?
        .into_iter()
        .filter(|(other, of)| ids.contains(of) && other.registry() == name.registry())
        .map(|(other, _)| other)
        .filter(|other| other.repository() != name.repository())
        .collect();
    others.dedup_by(|a, b| a.repository() == b.repository());
    Ok(others)
}

struct Push<'a> {
    home: &'a Home,
    client: &'a Client,
    store: &'a Store,
    name: &'a Reference,
    others: Vec<Reference>,
    report: &'a PushReport,
}

impl Push<'_> {
    /// Pushes an image under that name. Returns the digest and the size of its manifest.
    fn image(&self, id: &Digest, name: &Reference) -> Result<(Digest, u64), ImagesError> {
        let image = self.store.image(id)?;
        let (media_type, raw) = self.parts(&image)?;
        let digest = self.client.push_manifest(name, &media_type, &raw)?;
        Ok((digest, raw.len() as u64))
    }

    /// Pushes an index, its images first. Returns its digest and size.
    fn index(&self, index: &ImageIndex) -> Result<(Digest, u64), ImagesError> {
        let written = written(self.store, index, |image| {
            let (media_type, raw) = self.parts(image)?;
            let digest = sha256(&raw);
            let name = self.name.with_digest(digest);
            self.client.push_manifest(&name, &media_type, &raw)?;
            // From now on the store's index, too, refers to the image by this digest.
            self.store.ingest()?.image(image.config.bytes(), Some(&raw))?;
            Ok(Descriptor::new(&media_type, digest, raw.len() as u64))
        })?;
        for remark in &written.remarks {
            for blob in &remark.blobs {
                let mut source = || -> std::io::Result<Box<dyn Read>> {
                    Ok(Box::new(std::io::Cursor::new(blob.bytes.clone())))
                };
                self.client
                    .push_blob(self.name, &blob.descriptor, None, &mut source)?;
            }
            let name = self.name.with_digest(remark.entry.digest);
            self.client
                .push_manifest(&name, &remark.entry.media_type, &remark.manifest)?;
        }
        let media_type = &written.descriptor.media_type;
        let digest = self.client.push_manifest(self.name, media_type, &written.json)?;
        Ok((digest, written.descriptor.size))
    }

    /// Pushes the configuration and the layers of an image. Returns its manifest, with its media type.
    fn parts(&self, image: &Image) -> Result<(String, Vec<u8>), ImagesError> {
        let bytes = image.config.bytes();
        let config = Descriptor::new(OCI_CONFIG, image.id, bytes.len() as u64);
        let mut source =
            || -> std::io::Result<Box<dyn Read>> { Ok(Box::new(std::io::Cursor::new(bytes.to_vec()))) };
        // The small one comes first: where the registry is out of reach or refuses, no layer is compressed in vain.
        self.client.push_blob(self.name, &config, None, &mut source)?;
        let layers = self.layers(image.layers())?;
        self.manifest(image, config, layers)
    }

    /// Pushes layers. Returns the form of each.
    fn layers(&self, layers: &[Digest]) -> Result<Vec<Descriptor>, ImagesError> {
        // An image may have a layer twice.
        let mut distinct: Vec<Digest> = layers.to_vec();
        distinct.sort();
        distinct.dedup();
        let sent = crew::for_each(&distinct, |diff_id, stop| self.layer(diff_id, stop))?;
        let blob = |diff_id| {
            let place = distinct.iter().position(|known| known == diff_id);
            place.and_then(|place| sent.get(place)).cloned()
        };
        Ok(layers.iter().filter_map(blob).collect())
    }

    /// Pushes a layer in any form, and returns that form.
    fn layer(&self, diff_id: &Digest, stop: &AtomicBool) -> Result<Descriptor, ImagesError> {
        let tell = |step| (self.report)(PushEvent::Layer { diff_id, step });
        for blob in self.store.blobs(diff_id)? {
            if let Some(step) = self.known(&blob)? {
                tell(step);
                return Ok(blob);
            }
        }
        tell(PushStep::Compressing);
        let mut told = |done, size| tell(PushStep::Compressed { done, size });
        let compressed = Compressed::new(self.home, self.store, diff_id, (stop, &mut told))?;
        let blob = &compressed.descriptor;
        let pushed = self.client.push_blob(self.name, blob, None, &mut || {
            Ok(Box::new(Sent {
                reader: compressed.open()?,
                diff_id: *diff_id,
                sent: 0,
                size: blob.size,
                report: Arc::clone(self.report),
            }))
        })?;
        tell(if pushed == Pushed::Existed {
            PushStep::Exists
        } else {
            PushStep::Done
        });
        // The next push finds the layer in this form.
        self.store.ingest()?.note_blob(diff_id, blob)?;
        Ok(compressed.descriptor)
    }

    /// Asks whether the registry has a blob, in this repository or in one from which it can be taken.
    fn known(&self, blob: &Descriptor) -> Result<Option<PushStep>, ImagesError> {
        if self.client.has_blob(self.name, blob)? {
            return Ok(Some(PushStep::Exists));
        }
        for other in &self.others {
            if self.client.mount_blob(self.name, blob, other)? {
                return Ok(Some(PushStep::Mounted));
            }
        }
        Ok(None)
    }

    /// Returns the manifest that the image came with if it still fits, otherwise a new one with this configuration.
    fn manifest(
        &self,
        image: &Image,
        config: Descriptor,
        layers: Vec<Descriptor>,
    ) -> Result<(String, Vec<u8>), ImagesError> {
        let known = self.store.manifest(&image.id)?;
        let annotations = known
            .as_ref()
            .map(|manifest| manifest.value().annotations.clone());
        let received = known.filter(|manifest| {
            let blobs = manifest.value().layers.iter().map(|layer| layer.digest);
            blobs.eq(layers.iter().map(|layer| layer.digest))
        });
        Ok(match received {
            Some(manifest) => (manifest.value().media_type().to_owned(), manifest.into_parts().0),
            None => {
                let mut manifest = Manifest::oci(config, layers);
                manifest.annotations = annotations.unwrap_or_default();
                (manifest.media_type().to_owned(), manifest.to_json())
            }
        })
    }
}

/// Layer that reports how much of it was read.
struct Sent {
    reader: Box<dyn Read>,
    diff_id: Digest,
    sent: u64,
    size: u64,
    report: PushReport,
}

impl Read for Sent {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = self.reader.read(buffer)?;
        self.sent += length as u64;
        let step = PushStep::Sending {
            sent: self.sent,
            size: self.size,
        };
        let diff_id = &self.diff_id;
        (self.report)(PushEvent::Layer { diff_id, step });
        Ok(length)
    }
}
