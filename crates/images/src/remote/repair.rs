//! Repair of the store with layers from registries.

use super::fetch::Fetch;
use super::settings::{Access, Settings};
use crate::open_store;
use crate::{Home, ImagesError, PullEvent};
use std::collections::BTreeSet;
use tote_image::{Descriptor, Digest, Reference};
use tote_registry::Client;
use tote_store::{Broken, Depth, Image, Store, Verified};

/// Result of a verification and of its repairs.
#[derive(Clone, Debug, Default)]
pub struct Health {
    /// Number of objects that were checked.
    pub objects: u64,
    /// Size of the objects in bytes.
    pub bytes: u64,
    /// Damaged objects, with the images that need them.
    pub damaged: Vec<(String, BTreeSet<Digest>)>,
    /// Missing layers.
    pub missing: Vec<Digest>,
    /// Damaged records and trees.
    pub broken: Vec<Broken>,
    /// True if the damage was repaired, as far as possible.
    pub is_mended: bool,
    /// Layers that were fetched again, and their sources.
    pub fetched: Vec<(Digest, Reference)>,
    /// Layers that could not be restored.
    pub lost: Vec<Lost>,
}

/// Layer that could not be restored.
#[derive(Clone, Debug)]
pub struct Lost {
    /// Digest of the layer.
    pub layer: Digest,
    /// Images that need the layer, each by a name or its short id.
    pub images: Vec<String>,
    /// Reason why the layer could not be fetched, in one line; empty if no source is known.
    pub reason: String,
}

impl Health {
    /// True if the store is undamaged now.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let is_sound = self.damaged.is_empty() && self.missing.is_empty() && self.broken.is_empty();
        is_sound || self.is_mended && self.lost.is_empty() && !self.broken.iter().any(Broken::is_lost)
    }
}

/// Checks everything in the store: sizes only, or contents. With `repair` it checks contents, and replaces the layers
/// of damaged objects from the registries in the names of their images.
///
/// # Errors
/// [`ImagesError::Store`], and errors of the registries' configuration; layers that cannot be fetched are part of the
/// result instead.
pub fn verify_store(
    home: &Home,
    contents: bool,
    repair: bool,
    report: &(dyn Fn(PullEvent<'_>) + Sync),
) -> Result<Health, ImagesError> {
    let store = open_store(home)?;
    // A tree that is made again of a damaged object would look sound from then on.
    let depth = if contents || repair {
        Depth::Contents
    } else {
        Depth::Sizes
    };
    let verified = store.verify(depth)?;
    let mut health = Health {
        objects: verified.objects,
        bytes: verified.bytes,
        ..Health::default()
    };
    if repair && !verified.is_whole() {
        mend(&store, &verified, &mut health, report)?;
        health.is_mended = true;
    }
    let damaged = verified.damaged.into_iter();
    health.damaged = damaged.map(|(object, damage)| (object, damage.images)).collect();
    health.missing = verified.missing.into_iter().collect();
    health.broken = verified.broken;
    Ok(health)
}

fn mend(
    store: &Store,
    verified: &Verified,
    health: &mut Health,
    report: &(dyn Fn(PullEvent<'_>) + Sync),
) -> Result<(), ImagesError> {
    let client = Settings::read()?.client(&Access::default())?;
    let (images, names) = (store.images()?, crate::names_of_images(store)?);
    // The sources must be read before the repair forgets a layer, because the layer's record holds
    // its names at registries.
    let mut known = Vec::new();
    for layer in verified.layers() {
        known.push((layer, places(store, &layer, &images, &names)?));
    }
    store.repair(verified, |ingest, layer| {
        let places = known.iter().find(|(known, _)| known == layer);
        let fetched = fetch(
            &client,
            store,
            ingest,
            layer,
            places.map_or(&[], |(_, places)| places),
            report,
        );
        match fetched {
            Ok(from) => health.fetched.push((*layer, from)),
            Err(reason) => health.lost.push(Lost {
                layer: *layer,
                images: users(layer, &images, &names),
                reason,
            }),
        }
        Ok::<_, ImagesError>(())
    })
}

/// Lists the sources of a layer: the names of its images, each with the blobs that the layer is known as.
fn places(
    store: &Store,
    layer: &Digest,
    images: &[Image],
    names: &[(Reference, Digest)],
) -> Result<Vec<(Reference, Descriptor)>, ImagesError> {
    // A layer that is missing altogether has no record.
    let mut blobs = store.blobs(layer).unwrap_or_default();
    let mut from: Vec<&Reference> = Vec::new();
    for image in images.iter().filter(|image| image.layers().contains(layer)) {
        from.extend(
            names
                .iter()
                .filter(|(_, id)| *id == image.id)
                .map(|(name, _)| name),
        );
        let Ok(Some(manifest)) = store.manifest(&image.id) else {
            continue;
        };
        let layers = &manifest.value().layers;
        if layers.len() == image.layers().len() {
            let places = image.layers().iter().zip(layers);
            let same = places.filter(|(diff_id, _)| *diff_id == layer);
            blobs.extend(same.map(|(_, blob)| blob.clone()));
        }
    }
    from.dedup_by(|one, other| one.name() == other.name());
    let mut places: Vec<(Reference, Descriptor)> = Vec::new();
    for name in from {
        for blob in &blobs {
            if !places
                .iter()
                .any(|(other, known)| other.name() == name.name() && known.digest == blob.digest)
            {
                places.push((name.clone(), blob.clone()));
            }
        }
    }
    Ok(places)
}

/// Fetches a layer from the first source that has it. Fails with the reason in one line.
fn fetch(
    client: &Client,
    store: &Store,
    ingest: &tote_store::Ingest<'_>,
    layer: &Digest,
    places: &[(Reference, Descriptor)],
    report: &(dyn Fn(PullEvent<'_>) + Sync),
) -> Result<Reference, String> {
    let mut reason = String::new();
    for (name, blob) in places {
        report(PullEvent::From(name));
        let fetch = Fetch {
            client,
            store,
            ingest,
            reference: name,
            report,
        };
        match fetch.layers(&[(*layer, blob.clone())]) {
            Ok(_) => return Ok(name.clone()),
            Err(error) => reason = tote_sys::chain(&error),
        }
    }
    Err(reason)
}

fn users(layer: &Digest, images: &[Image], names: &[(Reference, Digest)]) -> Vec<String> {
    let with_it = images.iter().filter(|image| image.layers().contains(layer));
    with_it
        .map(|image| {
            let mut own = names
                .iter()
                .filter(|(name, id)| *id == image.id && name.digest().is_none());
            own.next()
                .map_or_else(|| image.id.short(), |(name, _)| name.familiar())
        })
        .collect()
}
