//! `pull`: an image from a registry into the store.

use super::fetch::Fetch;
use super::settings::{Access, Settings};
use crate::ArchiveError;
use crate::RemoteError;
use crate::{Home, ImagesError};
use crate::{is_remark, open_store, or_nothing, sweep_a_little};
use tote_image::media_type::{DOCKER_CONFIG, OCI_CONFIG};
use tote_image::{
    Compression, Descriptor, Digest, Document, ImageConfig, MAX_CONFIG_BYTES, Platform, Raw, Read as _,
    Reference,
};
use tote_registry::{Client, Resolved};
use tote_store::{Image, Ingest, Store};

/// Request to pull an image.
#[derive(Clone, Debug, Default)]
pub struct PullRequest {
    /// Image, as written.
    pub image: String,
    /// Platform; this machine's by default.
    pub platform: Option<Platform>,
    /// True if the name keeps its images for other platforms: it gets an index of all.
    pub beside: bool,
    /// Options for the access to the registry.
    pub access: Access,
}

/// Progress of a pull; several threads report it.
#[derive(Clone, Copy, Debug)]
pub enum PullEvent<'a> {
    /// Image that was found, and is now fetched.
    From(&'a Reference),
    /// Progress of a layer.
    Layer {
        /// Compressed layer that is fetched.
        blob: &'a Descriptor,
        /// Step of the transfer.
        step: LayerStep,
    },
    /// Warning for the user.
    Warning(&'a str),
}

/// Step of a layer's transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerStep {
    /// Start of the work on a layer; another process may be fetching it.
    Waiting,
    /// Layer that is present.
    Exists,
    /// Number of bytes that have come.
    Fetching(u64),
    /// Layer that is completely in the store.
    Done,
}

/// Image that was pulled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Name of the image.
    pub name: Reference,
    /// Id of the image.
    pub id: Digest,
    /// Digest of the index or the manifest to which the name refers at the registry.
    pub digest: Digest,
    /// True if the name referred to another image before, or to none.
    pub is_new: bool,
    /// Number of device nodes in the image that could not be made.
    pub left_out: u64,
}

/// Pulls an image. The process must be in the namespace of [`crate::enter_ids`].
///
/// # Errors
/// [`ImagesError`]; layers that came before a failure stay until a sweep.
pub fn pull(
    home: &Home,
    request: &PullRequest,
    report: &(dyn Fn(PullEvent<'_>) + Sync),
) -> Result<Pulled, ImagesError> {
    let settings = Settings::read()?;
    let name = settings.reference(&request.image)?;
    if name.familiar_name() == "scratch" {
        return Err(ImagesError::Scratch);
    }
    let client = settings.client_for(&name, &request.access)?;
    let store = open_store(home)?;
    let pulled = Pull::new(&client, &store, request, report).and_then(|pull| pull.image(&name));
    let pulled = or_nothing(&store, pulled)?;
    crate::events::pulled(home, &name);
    sweep_a_little(&store);
    Ok(pulled)
}

/// Pulls every image of a repository, in the order of the registry's tags; `done` receives each.
///
/// # Errors
/// [`ImagesError`] of the first image that fails.
pub fn pull_all_tags(
    home: &Home,
    request: &PullRequest,
    report: &(dyn Fn(PullEvent<'_>) + Sync),
    done: &mut dyn FnMut(Pulled),
) -> Result<(), ImagesError> {
    let settings = Settings::read()?;
    let name = settings.reference(&request.image)?;
    let client = settings.client_for(&name, &request.access)?;
    let store = open_store(home)?;
    for tag in client.tags(&name)? {
        let name = name.with_tag(&tag)?;
        let pulled = Pull::new(&client, &store, request, report).and_then(|pull| pull.image(&name));
        let pulled = or_nothing(&store, pulled)?;
        crate::events::pulled(home, &name);
        done(pulled);
    }
    sweep_a_little(&store);
    Ok(())
}

/// Fetches the members for an index, without names: the image of a name, or for an index at the registry its image
/// for the requested platform, or all its images with `all`.
///
/// # Errors
/// As [`pull`].
pub(crate) fn pull_members(
    store: &Store,
    request: &PullRequest,
    all: bool,
    report: &(dyn Fn(PullEvent<'_>) + Sync),
) -> Result<Vec<Image>, ImagesError> {
    let settings = Settings::read()?;
    let name = settings.reference(&request.image)?;
    let client = settings.client_for(&name, &request.access)?;
    let mut pull = Pull::new(&client, store, request, report)?;
    let found = client.manifest(&name)?;
    report(PullEvent::From(&name));
    let index = match found.document {
        Document::Index(index) if all => index,
        _ => {
            let resolved = client.resolve(&name, &pull.platform)?;
            pull.platform = platform_of(&client, &name, &resolved)?;
            return Ok(vec![pull.fetched(&name, &resolved)?.0]);
        }
    };
    let mut images = Vec::new();
    for entry in index.manifests.iter().filter(|entry| !is_remark(entry)) {
        let name = name.with_digest(entry.digest);
        let resolved = client.resolve(&name, &pull.platform)?;
        pull.platform = platform_of(&client, &name, &resolved)?;
        images.push(pull.fetched(&name, &resolved)?.0);
    }
    Ok(images)
}

/// Returns the platform in the configuration of an image at a registry.
fn platform_of(client: &Client, name: &Reference, resolved: &Resolved) -> Result<Platform, ImagesError> {
    let config = client.blob_bytes(name, &resolved.manifest.config, MAX_CONFIG_BYTES as u64)?;
    let config = ImageConfig::read(&config).map_err(ImagesError::ImageDocument)?;
    Ok(config.platform())
}

struct Pull<'a> {
    client: &'a Client,
    store: &'a Store,
    ingest: Ingest<'a>,
    platform: Platform,
    /// True if the user requested the platform, false if it is just this machine's.
    is_wish: bool,
    /// True if names keep their present images beside the new one.
    beside: bool,
    report: &'a (dyn Fn(PullEvent<'_>) + Sync),
}

impl<'a> Pull<'a> {
    fn new(
        client: &'a Client,
        store: &'a Store,
        request: &PullRequest,
        report: &'a (dyn Fn(PullEvent<'_>) + Sync),
    ) -> Result<Self, ImagesError> {
        Ok(Self {
            client,
            store,
            ingest: store.ingest_at_once()?,
            platform: request.platform.clone().unwrap_or_else(Platform::host),
            is_wish: request.platform.is_some(),
            beside: request.beside,
            report,
        })
    }

    fn image(&self, name: &Reference) -> Result<Pulled, ImagesError> {
        if let Some(pulled) = self.unchanged(name)? {
            return Ok(pulled);
        }
        let resolved = self.client.resolve(name, &self.platform)?;
        (self.report)(PullEvent::From(name));
        let (image, left_out) = self.fetched(name, &resolved)?;
        let known = self.store.named(name)?;
        let id = self.tag(name, &image)?;
        for digest in [resolved.name_digest, resolved.digest] {
            self.tag(&name.with_digest(digest), &image)?;
        }
        Ok(Pulled {
            name: name.clone(),
            id: image.id,
            digest: resolved.name_digest,
            is_new: known != Some(id),
            left_out,
        })
    }

    /// Gives an image a name, beside the name's present images or in their place. Returns the id to which the name
    /// refers then.
    fn tag(&self, name: &Reference, image: &Image) -> Result<Digest, ImagesError> {
        // The name may get another image between the look and the change.
        let _decision = self.store.decide()?;
        let former = if self.beside {
            self.store.named(name)?
        } else {
            None
        };
        let id = match former {
            Some(former) => crate::beside(self.store, &self.ingest, &former, image)?,
            None => image.id,
        };
        self.ingest.tag(name, &id)?;
        Ok(id)
    }

    /// Fetches an image into the store without a name. Also returns the number of its device nodes
    /// that could not be made.
    fn fetched(&self, name: &Reference, resolved: &Resolved) -> Result<(Image, u64), ImagesError> {
        let config = self.config(name, resolved)?;
        let layers = layers(name, resolved, &config)?;
        let fetch = Fetch {
            client: self.client,
            store: self.store,
            ingest: &self.ingest,
            reference: name,
            report: self.report,
        };
        let are_verified = fetch.layers(&layers)?;
        // A manifest with unverified blobs must not become a hint for pushes.
        let manifest = are_verified.then_some(&resolved.raw[..]);
        let image = self.ingest.image(config.bytes(), manifest)?;
        let (_, made) = self.store.make_tree(&image)?;
        Ok((image, made.unwrap_or_default().left_out))
    }

    /// Asks the registry only for the digest of a name, because registries count downloads but not that. `None` if
    /// only a download can tell.
    fn unchanged(&self, name: &Reference) -> Result<Option<Pulled>, ImagesError> {
        let Some(id) = self.store.named(name)? else {
            return Ok(None);
        };
        let digest = match name.digest() {
            Some(digest) => *digest,
            None => match self.client.digest(name)? {
                Some(digest) => digest,
                None => return Ok(None),
            },
        };
        let same = self.store.named(&name.with_digest(digest))? == Some(id);
        let Ok(image) = self.store.image(&id) else {
            return Ok(None);
        };
        let fits = self.platform.runs(&image.config.value().platform());
        // A lost layer makes a download necessary.
        let mut whole = true;
        for diff_id in image.layers() {
            whole &= self.store.layer(diff_id)?.is_some();
        }
        if !(same && fits && whole) {
            return Ok(None);
        }
        (self.report)(PullEvent::From(name));
        Ok(Some(Pulled {
            name: name.clone(),
            id,
            digest,
            is_new: false,
            left_out: 0,
        }))
    }

    fn config(&self, name: &Reference, resolved: &Resolved) -> Result<Raw<ImageConfig>, ImagesError> {
        let descriptor = &resolved.manifest.config;
        if !matches!(descriptor.media_type.as_str(), OCI_CONFIG | DOCKER_CONFIG) {
            return Err(RemoteError::NoContainerImage {
                name: name.familiar(),
                media_type: descriptor.media_type.clone(),
            }
            .into());
        }
        let bytes = self
            .client
            .blob_bytes(name, descriptor, MAX_CONFIG_BYTES as u64)?;
        let config = Raw::<ImageConfig>::read(bytes).map_err(ImagesError::ImageDocument)?;
        let platform = config.value().platform();
        if !self.platform.runs(&platform) {
            if self.is_wish {
                return Err(ImagesError::NoPlatform(tote_image::NoPlatform {
                    wanted: Box::new(self.platform.clone()),
                    offered: vec![platform],
                }));
            }
            (self.report)(PullEvent::Warning(&format!(
                "the image's platform ({platform}) does not match this machine's ({})",
                self.platform
            )));
        }
        Ok(config)
    }
}

/// Pairs each layer with the digest of its uncompressed archive.
fn layers(
    name: &Reference,
    resolved: &Resolved,
    config: &Raw<ImageConfig>,
) -> Result<Vec<(Digest, Descriptor)>, ImagesError> {
    let blobs = &resolved.manifest.layers;
    let diff_ids = &config.value().rootfs.diff_ids;
    if let Some(stranger) = blobs
        .iter()
        .find(|blob| Compression::of_layer(&blob.media_type).is_none())
    {
        return Err(RemoteError::NoContainerImage {
            name: name.familiar(),
            media_type: stranger.media_type.clone(),
        }
        .into());
    }
    if blobs.len() != diff_ids.len() {
        return Err(ArchiveError::LayerCount {
            config: diff_ids.len(),
            archive: blobs.len(),
        }
        .into());
    }
    Ok(diff_ids.iter().copied().zip(blobs.iter().cloned()).collect())
}
