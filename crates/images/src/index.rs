//! Indexes: names of images for several platforms, and their form at registries and in archives.

use crate::ImagesError;
use crate::remark::Remark;
use std::collections::{BTreeMap, HashMap};
use tote_image::media_type::OCI_CONFIG;
use tote_image::{Descriptor, Digest, Index, Platform, REFERENCE_DIGEST, Reference};
use tote_store::{Image, ImageIndex, Ingest, Store, StoreError, sha256};

/// Annotation of an entry, in the store only, with the reference by which its image was requested.
pub(crate) const ASKED: &str = "tote.asked-for";

/// Image or index to which a name or an id refers.
#[derive(Clone, Debug)]
pub enum Found {
    /// Image, by its id.
    Image(Digest),
    /// Index of images for several platforms.
    Index(Box<ImageIndex>),
}

impl Found {
    /// Finds out which of the two an id refers to.
    pub fn of(store: &Store, id: &Digest) -> Result<Self, ImagesError> {
        Ok(match store.index(id)? {
            Some(index) => Self::Index(Box::new(index)),
            None => Self::Image(*id),
        })
    }

    /// Returns the id of the image or of the index.
    #[must_use]
    pub fn id(&self) -> Digest {
        match self {
            Self::Image(id) => *id,
            Self::Index(index) => index.id,
        }
    }

    /// Lists the images: one, or all of the index.
    pub fn images(&self) -> Vec<Digest> {
        match self {
            Self::Image(id) => vec![*id],
            Self::Index(index) => index.images().collect(),
        }
    }

    /// Restricts this to the given platforms: an index becomes its image for a single platform, or an index of the
    /// images for several. The inner error is the first platform that is lacking.
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

/// Returns the platform in an image's configuration.
pub fn platform_of(image: &Image) -> Platform {
    let config = image.config.value();
    Platform::of(&config.os, &config.architecture, &config.variant)
}

/// Makes the entry of an index of the store for an image of the store.
pub fn entry_of(image: &Image) -> Descriptor {
    let size = image.config.bytes().len() as u64;
    Descriptor {
        platform: Some(platform_of(image)),
        ..Descriptor::new(OCI_CONFIG, image.id, size)
    }
}

/// Lists all names with their images; the name of an index comes once for each of its images.
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

/// Lists the images that are removed with an index: those without a name of their own and in no other index.
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

/// Replaces an index: the new one gets all names, and the former one is removed. Images that only the former one had
/// stay, without a name.
///
/// # Errors
/// [`ImagesError::Store`]; each name then refers to the one or the other index.
pub fn replace(
    store: &Store,
    ingest: &Ingest<'_>,
    former: &ImageIndex,
    entries: Index,
) -> Result<ImageIndex, ImagesError> {
    let _decision = store.decide()?;
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
        // A name with a digest refers to the former index at a registry.
        if id == former.id && name.digest().is_none() {
            ingest.tag(&name, &index.id)?;
        }
    }
    match store.remove_image(&former.id) {
        // Another command has removed the former index meanwhile.
        Err(StoreError::NoImage(_)) => {}
        removed => drop(removed?),
    }
    Ok(index)
}

/// Adds an image to the image or index of an id: makes an index of all, in which the new image replaces one for the
/// same platform. Without images for other platforms, the result is the new image alone.
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
        // A lost image is left out.
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
    // Sorted by platform, the same images make the same index in whatever order they came.
    entries.sort_by(|one, other| one.platform.cmp(&other.platform));
    Ok(ingest.index(&Index::oci(entries), &[])?.id)
}

/// Returns an index without some of its images, and without the remarks on these.
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

/// Returns the digest of the image that a remark is about, from the annotation of its entry.
fn image_of(remark: &Descriptor) -> Option<Digest> {
    remark.annotations.get(REFERENCE_DIGEST)?.parse().ok()
}

/// Index in the form for registries and archives.
#[derive(Clone, Debug)]
pub struct WrittenIndex {
    /// Descriptor of the document.
    pub descriptor: Descriptor,
    /// Text of the document.
    pub json: Vec<u8>,
    /// Remarks of the index, which are its entries beside images.
    pub remarks: Vec<Remark>,
}

/// Converts an index of the store for registries and archives. `manifest` returns the descriptor of
/// each image's manifest.
///
/// # Errors
/// [`ImagesError::Store`], and errors of `manifest`.
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

/// Makes an index of images of the store, and of remarks on them, which refer to the images by their digests in
/// `manifests`.
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
