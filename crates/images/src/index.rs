//! Indexes: what a name of several platforms' images means, and how such an index is written for others.

use crate::ImagesError;
use crate::remark::Remark;
use std::collections::{BTreeMap, HashMap};
use tote_image::media_type::OCI_CONFIG;
use tote_image::{Descriptor, Digest, Index, Platform, REFERENCE_DIGEST, Reference};
use tote_store::{Image, ImageIndex, Ingest, Store, StoreError, sha256};

/// The annotation of an entry, in the store only, that says by which reference its image was asked for.
pub(crate) const ASKED: &str = "tote.asked-for";

/// An image or an index, as a name or an id stands for it.
#[derive(Clone, Debug)]
pub enum Found {
    /// An image, by its id.
    Image(Digest),
    /// Images for several platforms.
    Index(Box<ImageIndex>),
}

impl Found {
    /// Looks which of the two an id stands for.
    pub fn of(store: &Store, id: &Digest) -> Result<Self, ImagesError> {
        Ok(match store.index(id)? {
            Some(index) => Self::Index(Box::new(index)),
            None => Self::Image(*id),
        })
    }

    /// The id of the image or of the index.
    #[must_use]
    pub fn id(&self) -> Digest {
        match self {
            Self::Image(id) => *id,
            Self::Index(index) => index.id,
        }
    }

    /// The images of it.
    pub fn images(&self) -> Vec<Digest> {
        match self {
            Self::Image(id) => vec![*id],
            Self::Index(index) => index.images().collect(),
        }
    }

    /// What is left of it where only these platforms are asked for: of an index the image for the one that is, or an index of
    /// those that are. `None` where it lacks one.
    pub fn for_platforms(
        self,
        store: &Store,
        platforms: &[Platform],
    ) -> Result<Result<Self, Platform>, ImagesError> {
        if platforms.is_empty() {
            return Ok(Ok(self));
        }
        let index = match self {
            Self::Index(index) => index,
            Self::Image(id) => {
                let own = platform_of(&store.image(&id)?);
                let other = platforms.iter().find(|platform| !platform.means(&own));
                return Ok(other.map_or(Ok(Self::Image(id)), |other| Err(other.clone())));
            }
        };
        let mut chosen = Vec::new();
        for platform in platforms {
            match index.select(platform) {
                Some(image) => chosen.push(image),
                None => return Ok(Err(platform.clone())),
            }
        }
        if let [image] = chosen[..] {
            return Ok(Ok(Self::Image(image)));
        }
        let mut part = *index;
        part.index
            .manifests
            .retain(|entry| entry.media_type == OCI_CONFIG && chosen.contains(&entry.digest));
        Ok(Ok(Self::Index(Box::new(part))))
    }
}

/// The platform that an image says it is for.
pub fn platform_of(image: &Image) -> Platform {
    let config = image.config.value();
    Platform::of(&config.os, &config.architecture, &config.variant)
}

/// The entry of an index of the store for an image of the store.
pub fn entry_of(image: &Image) -> Descriptor {
    let size = image.config.bytes().len() as u64;
    Descriptor {
        platform: Some(platform_of(image)),
        ..Descriptor::new(OCI_CONFIG, image.id, size)
    }
}

/// All names with the images that they stand for: those of an index once for each of its images.
///
/// # Errors
/// [`ImagesError::Store`].
pub fn names_of_images(store: &Store) -> Result<Vec<(Reference, Digest)>, ImagesError> {
    let indexes: HashMap<Digest, ImageIndex> = store
        .indexes()?
        .into_iter()
        .map(|index| (index.id, index))
        .collect();
    let mut names = Vec::new();
    for (name, id) in store.names()? {
        match indexes.get(&id) {
            Some(index) => names.extend(index.images().map(|image| (name.clone(), image))),
            None => names.push((name, id)),
        }
    }
    Ok(names)
}

/// The images that go with an index: those that have no name of their own, and that no other index has.
///
/// # Errors
/// [`ImagesError::Store`].
pub fn orphans(store: &Store, index: &ImageIndex) -> Result<Vec<Digest>, ImagesError> {
    let names = store.names()?;
    let others = store.indexes()?;
    let mut orphans: Vec<Digest> = Vec::new();
    for image in index.images() {
        let is_named = names.iter().any(|(_, id)| *id == image);
        let is_shared = others
            .iter()
            .any(|other| other.id != index.id && other.has(&image));
        if !is_named && !is_shared && !orphans.contains(&image) {
            orphans.push(image);
        }
    }
    Ok(orphans)
}

/// Puts another index in the place of one: it gets all names, and the former one is no more. Images that only that one had
/// stay, without a name.
///
/// # Errors
/// [`ImagesError::Store`]; each name stands for the one or the other index then.
pub fn replace(
    store: &Store,
    ingest: &Ingest<'_>,
    former: &ImageIndex,
    entries: Index,
) -> Result<ImageIndex, ImagesError> {
    let mut documents = Vec::new();
    for entry in entries
        .manifests
        .iter()
        .filter(|entry| entry.media_type != OCI_CONFIG)
    {
        documents.extend(Remark::of_store(store, &former.id, entry)?.documents());
    }
    let index = ingest.index(&entries, &documents)?;
    if index.id == former.id {
        return Ok(index);
    }
    for (name, id) in store.names()? {
        // A digest is that of the former one at a registry.
        if id == former.id && name.digest().is_none() {
            ingest.tag(&name, &index.id)?;
        }
    }
    match store.remove_image(&former.id) {
        // Another command was faster.
        Err(StoreError::NoImage(_)) => {}
        removed => drop(removed?),
    }
    Ok(index)
}

/// An image beside what an id stands for already: an index of both, in which it takes the place of an image for the same
/// platform. The image alone where there is nothing for another platform.
///
/// # Errors
/// [`ImagesError::Store`].
pub fn beside(
    store: &Store,
    ingest: &Ingest<'_>,
    former: &Digest,
    image: &Image,
) -> Result<Digest, ImagesError> {
    let added = entry_of(image);
    let mut entries = Vec::new();
    for id in Found::of(store, former)?.images() {
        // One that is lost is not kept.
        let Ok(other) = store.image(&id) else { continue };
        let entry = entry_of(&other);
        if entry.platform != added.platform {
            entries.push(entry);
        }
    }
    if entries.is_empty() {
        return Ok(image.id);
    }
    entries.push(added);
    // Whatever came first: in the order of their platforms it is one index.
    entries.sort_by(|one, other| one.platform.cmp(&other.platform));
    Ok(ingest.index(&Index::oci(entries), &[])?.id)
}

/// An index without some of its images, and without the remarks on these.
pub fn without(index: &ImageIndex, images: &[Digest]) -> Index {
    let mut left = index.index.clone();
    left.manifests.retain(|entry| {
        let image = if entry.media_type == OCI_CONFIG {
            Some(entry.digest)
        } else {
            image_of(entry)
        };
        image.is_none_or(|image| !images.contains(&image))
    });
    left
}

/// The digest of the image that an entry is a remark on, as the entry's annotation says.
fn image_of(remark: &Descriptor) -> Option<Digest> {
    remark.annotations.get(REFERENCE_DIGEST)?.parse().ok()
}

/// An index in the form that registries and archives have.
#[derive(Clone, Debug)]
pub struct WrittenIndex {
    /// The descriptor of the document.
    pub descriptor: Descriptor,
    /// The document.
    pub json: Vec<u8>,
    /// The index's entries beside images.
    pub remarks: Vec<Remark>,
}

/// Writes an index of the store for others. `manifest` is asked for the descriptor of each image's manifest.
///
/// # Errors
/// [`ImagesError::Store`], and what `manifest` says.
pub fn written(
    store: &Store,
    index: &ImageIndex,
    mut manifest: impl FnMut(&Image) -> Result<Descriptor, ImagesError>,
) -> Result<WrittenIndex, ImagesError> {
    let mut manifests: HashMap<Digest, Descriptor> = HashMap::new();
    let mut document = index.index.clone();
    for entry in document
        .manifests
        .iter_mut()
        .filter(|entry| entry.media_type == OCI_CONFIG)
    {
        let image = entry.digest;
        let made = manifest(&store.image(&image)?)?;
        (entry.media_type, entry.digest, entry.size) = (made.media_type.clone(), made.digest, made.size);
        manifests.insert(image, made);
        entry.annotations.remove(ASKED);
    }
    let names = manifests.iter().map(|(image, made)| (*image, made.digest));
    let names: HashMap<Digest, Digest> = names.collect();
    let mut remarks = Vec::new();
    for (entry, kept) in document.manifests.iter_mut().zip(&index.index.manifests) {
        if kept.media_type != OCI_CONFIG {
            let mut remark = Remark::of_store(store, &index.id, kept)?.renamed(&names);
            if let Some(made) = image_of(kept).and_then(|image| manifests.get(&image)) {
                remark = remark.about(made)?;
            }
            *entry = remark.entry.clone();
            remarks.push(remark);
        }
    }
    let json = document.to_json();
    let descriptor = Descriptor::new(document.media_type(), sha256(&json), json.len() as u64);
    Ok(WrittenIndex {
        descriptor,
        json,
        remarks,
    })
}

/// Makes an index of images of the store, and of remarks on them, which name them by the digests that `manifests` has.
///
/// # Errors
/// [`ImagesError::Store`].
pub(crate) fn make(
    ingest: &Ingest<'_>,
    (entries, annotations): (Vec<Descriptor>, BTreeMap<String, String>),
    remarks: Vec<Remark>,
    manifests: &HashMap<Digest, Digest>,
) -> Result<ImageIndex, ImagesError> {
    let mut index = Index::oci(entries);
    index.annotations = annotations;
    let mut documents = Vec::new();
    for remark in remarks {
        let remark = remark.renamed(manifests);
        documents.extend(remark.documents());
        index.manifests.push(remark.entry);
    }
    Ok(ingest.index(&index, &documents)?)
}
