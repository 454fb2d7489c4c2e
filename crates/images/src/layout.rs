//! OCI layouts in a directory and in an archive.

use crate::ArchiveError;
use crate::ImagesError;
use crate::archive::Contents;
use crate::directory::LayoutDirectory;
use crate::index::{entry_of, make};
use crate::load::{Loaded, add, check_platform};
use crate::remark::{Remark, is_remark};
use std::collections::HashMap;
use std::path::Path;
use tote_image::layout::{INDEX, blob, name};
use tote_image::media_type::{DOCKER_LIST, OCI_INDEX};
use tote_image::{
    Descriptor, Digest, Document, ImageConfig, Index, MAX_CONFIG_BYTES, MAX_MANIFEST_BYTES, Manifest,
    Platform, Raw, Read as _, Reference,
};
use tote_store::{Ingest, Store};

/// Limit of nested indexes.
pub(super) const DEPTH: usize = 4;

/// Source of a layout's files.
pub(super) trait Files {
    /// Reads a document; the caller checks its digest.
    fn document(&self, name: &str, limit: usize) -> Result<Vec<u8>, ImagesError>;

    /// Loads a layer into the store. `expected` is its digest in the configuration.
    fn layer(
        &mut self,
        ingest: &Ingest<'_>,
        blob: &Descriptor,
        expected: &Digest,
    ) -> Result<Digest, ImagesError>;
}

pub(crate) fn from_archive(
    store: &Store,
    ingest: &Ingest<'_>,
    contents: &mut Contents,
    asked: Option<&Platform>,
) -> Result<Vec<Loaded>, ImagesError> {
    all(store, ingest, contents, asked)
}

/// True if a layout in an archive has an index: docker's own manifest beside the layout covers one platform only.
pub(super) fn has_index(contents: &Contents) -> bool {
    let Some(Ok(index)) = contents.document(INDEX).map(Index::read) else {
        return false;
    };
    (index.manifests.iter()).any(|entry| matches!(entry.media_type.as_str(), OCI_INDEX | DOCKER_LIST))
}

pub(crate) fn load(
    store: &Store,
    ingest: &Ingest<'_>,
    path: &Path,
    asked: Option<&Platform>,
) -> Result<Vec<Loaded>, ImagesError> {
    all(store, ingest, &mut LayoutDirectory::new(path), asked)
}

fn all(
    store: &Store,
    ingest: &Ingest<'_>,
    files: &mut impl Files,
    asked: Option<&Platform>,
) -> Result<Vec<Loaded>, ImagesError> {
    let index = files.document(INDEX, MAX_MANIFEST_BYTES)?;
    let index = Index::read(&index).map_err(ImagesError::ImageDocument)?;
    let mut loaded: Vec<Loaded> = Vec::new();
    for entry in &index.manifests {
        // Some programs write a bare tag only, which cannot name an image.
        let named = name(entry).filter(|name| name.contains(['/', ':']));
        let names: Vec<Reference> = named.map(Reference::parse).transpose()?.into_iter().collect();
        if asked.is_none()
            && let Some(index) = several(store, ingest, files, entry, &names)?
        {
            loaded.push(index);
            continue;
        }
        loaded.push(one(store, ingest, files, entry, (asked, names))?);
    }
    Ok(loaded)
}

/// Loads the index of an entry, with each of its images whose documents are present: the program that saved it may
/// have left out some. `None` if at most one image and no remark on it is present.
fn several(
    store: &Store,
    ingest: &Ingest<'_>,
    files: &mut impl Files,
    entry: &Descriptor,
    names: &[Reference],
) -> Result<Option<Loaded>, ImagesError> {
    if !matches!(entry.media_type.as_str(), OCI_INDEX | DOCKER_LIST) {
        return Ok(None);
    }
    let bytes = verified(files, entry, MAX_MANIFEST_BYTES)?;
    let Document::Index(index) =
        Document::read(&bytes, Some(&entry.media_type)).map_err(ImagesError::ImageDocument)?
    else {
        return Ok(None);
    };
    let is_here = |entry: &&Descriptor| files.document(&blob(&entry.digest), MAX_MANIFEST_BYTES).is_ok();
    let here = index.manifests.iter().filter(is_here).cloned();
    let (mut remarks, images): (Vec<Descriptor>, Vec<Descriptor>) = here.partition(is_remark);
    // A remark whose documents were left out is skipped.
    let read = |entry: &Descriptor| -> Result<Remark, ImagesError> {
        let manifest = verified(files, entry, MAX_MANIFEST_BYTES)?;
        Remark::read(entry, manifest, |blob| verified(files, blob, MAX_CONFIG_BYTES))
    };
    let remarks: Vec<Remark> = remarks.drain(..).filter_map(|entry| read(&entry).ok()).collect();
    let has_index = |entry: &Descriptor| matches!(entry.media_type.as_str(), OCI_INDEX | DOCKER_LIST);
    if images.is_empty() || images.len() + remarks.len() < 2 || images.iter().any(has_index) {
        return Ok(None);
    }
    let (mut entries, mut manifests) = (Vec::new(), HashMap::new());
    let mut left_out = 0;
    for image in images {
        let loaded = one(store, ingest, files, &image, (None, Vec::new()))?;
        left_out += loaded.left_out;
        manifests.insert(image.digest, loaded.id);
        entries.push(Descriptor {
            annotations: image.annotations,
            ..entry_of(&store.image(&loaded.id)?)
        });
    }
    let added = make(ingest, (entries, index.annotations), remarks, &manifests)?;
    let mut renamed = Vec::new();
    for name in names {
        renamed.extend(ingest.tag(name, &added.id)?.map(|before| (name.clone(), before)));
    }
    Ok(Some(Loaded {
        id: added.id,
        names: names.to_vec(),
        renamed,
        left_out,
    }))
}

/// Loads the image of an entry for that platform, by default this machine's, and gives it these names.
pub(super) fn one(
    store: &Store,
    ingest: &Ingest<'_>,
    files: &mut impl Files,
    entry: &Descriptor,
    (asked, names): (Option<&Platform>, Vec<Reference>),
) -> Result<Loaded, ImagesError> {
    let platform = asked.cloned().unwrap_or_else(Platform::host);
    let manifest = manifest(files, entry, &platform, DEPTH)?;
    let config = verified(files, &manifest.config, MAX_CONFIG_BYTES)?;
    let parsed = Raw::<ImageConfig>::read(config).map_err(ImagesError::ImageDocument)?;
    check_platform(asked, parsed.value())?;
    let expected = &parsed.value().rootfs.diff_ids;
    if expected.len() != manifest.layers.len() {
        return Err(ArchiveError::LayerCount {
            config: expected.len(),
            archive: manifest.layers.len(),
        }
        .into());
    }
    let mut layers = Vec::with_capacity(expected.len());
    for (blob, expected) in manifest.layers.iter().zip(expected) {
        layers.push(files.layer(ingest, blob, expected)?);
    }
    let image = add(store, ingest, parsed.bytes(), &layers, names)?;
    if !manifest.annotations.is_empty() {
        ingest.annotate(&store.image(&image.id)?, &manifest.annotations)?;
    }
    Ok(image)
}
/// Finds the manifest for that platform behind an entry of an index.
pub(super) fn manifest(
    files: &impl Files,
    entry: &Descriptor,
    platform: &Platform,
    depth: usize,
) -> Result<Manifest, ImagesError> {
    let bytes = verified(files, entry, MAX_MANIFEST_BYTES)?;
    match Document::read(&bytes, Some(&entry.media_type)).map_err(ImagesError::ImageDocument)? {
        Document::Manifest(manifest) => Ok(manifest),
        Document::Index(index) => {
            let depth = depth.checked_sub(1).ok_or(ArchiveError::NoImageArchive)?;
            let selected = index.select(platform).map_err(ImagesError::NoPlatform)?;
            manifest(files, selected, platform, depth)
        }
    }
}

pub(super) fn verified(
    files: &impl Files,
    descriptor: &Descriptor,
    limit: usize,
) -> Result<Vec<u8>, ImagesError> {
    let name = blob(&descriptor.digest);
    let bytes = files.document(&name, limit)?;
    if tote_store::sha256(&bytes) == descriptor.digest {
        Ok(bytes)
    } else {
        Err(ArchiveError::WrongBlob(name).into())
    }
}

impl Files for Contents {
    fn document(&self, name: &str, _: usize) -> Result<Vec<u8>, ImagesError> {
        // The limit was applied when the archive was read.
        let bytes = Self::document(self, name).map(<[u8]>::to_vec);
        Ok(bytes.ok_or_else(|| ArchiveError::ArchiveLacks(name.to_owned()))?)
    }

    fn layer(&mut self, _: &Ingest<'_>, descriptor: &Descriptor, _: &Digest) -> Result<Digest, ImagesError> {
        Self::layer(self, &blob(&descriptor.digest))
    }
}
