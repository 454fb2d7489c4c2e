//! `pull`: an image out of a registry into the store.

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

/// What somebody wants to have.
#[derive(Clone, Debug, Default)]
pub struct PullRequest {
    /// The image, as written.
    pub image: String,
    /// For which machines; this one's where it is not given.
    pub platform: Option<Platform>,
    /// Whether the name goes on standing for the images of other platforms that it has here: it gets an index of all.
    pub beside: bool,
    /// How the registry is spoken to.
    pub access: Access,
}

/// What happens meanwhile; reported from several threads.
#[derive(Clone, Copy, Debug)]
pub enum PullEvent<'a> {
    /// An image was found, and is now fetched.
    From(&'a Reference),
    /// Something about a layer.
    Layer {
        /// What is fetched.
        blob: &'a Descriptor,
        /// What happens to it.
        step: LayerStep,
    },
    /// Something that the user should know.
    Warning(&'a str),
}

/// What happens to a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerStep {
    /// Its turn has come; another process may be fetching it.
    Waiting,
    /// It is there.
    Exists,
    /// So many bytes have come.
    Fetching(u64),
    /// All of it is in the store.
    Done,
}

/// An image that is here now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Its name.
    pub name: Reference,
    /// Its id.
    pub id: Digest,
    /// What its name stands for at the registry: an index or a manifest.
    pub digest: Digest,
    /// Whether the name stood for another image before, or none.
    pub is_new: bool,
    /// Device nodes in it that could not be made.
    pub left_out: u64,
}

/// Fetches an image. The process must be in the right namespace: [`crate::enter_ids`].
///
/// # Errors
/// [`ImagesError`]; layers that came before something failed stay, until a sweep.
pub fn pull(
    home: &Home,
    request: &PullRequest,
    report: &(dyn Fn(PullEvent<'_>) + Sync),
) -> Result<Pulled, ImagesError> {
    let settings = Settings::read()?;
    let name = settings.reference(&request.image)?;
    let client = settings.client_for(&name, &request.access)?;
    let store = open_store(home)?;
    let pulled = Pull::new(&client, &store, request, report).and_then(|pull| pull.image(&name));
    let pulled = or_nothing(&store, pulled)?;
    crate::events::pulled(home, &name);
    sweep_a_little(&store);
    Ok(pulled)
}

/// Fetches every image of a repository, in the order of the registry's tags; `done` is told of each.
///
/// # Errors
/// [`ImagesError`] of the first that fails.
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

/// Fetches what is to be in an index: the image of a name without giving it that name, or, where that is an index at its
/// registry, the image for the platform that is asked for, or all with `all`.
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

/// The platform that an image at a registry says it is for.
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
    /// Whether the platform is the user's wish, and not just this machine's.
    is_wish: bool,
    /// Whether what names stand for here stays beside it.
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

    /// Gives an image a name, beside what that stands for already or in its place; what the name stands for then.
    fn tag(&self, name: &Reference, image: &Image) -> Result<Digest, ImagesError> {
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

    /// An image that was found, brought into the store without a name; and how many device nodes of it could not be made.
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
        // A manifest whose blobs nobody has hashed must not become a hint for pushes.
        let manifest = are_verified.then_some(&resolved.raw[..]);
        let image = self.ingest.image(config.bytes(), manifest)?;
        let (_, made) = self.store.make_tree(&image)?;
        Ok((image, made.unwrap_or_default().left_out))
    }

    /// Asks only what the name stands for: registries count what is fetched, but not that. `None` where it must be
    /// fetched to know.
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
        // A layer may have been lost; then the image is fetched again.
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

/// Each layer with what it is called uncompressed.
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
