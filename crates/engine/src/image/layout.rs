//! OCI layouts, as a directory and in an archive.

use super::archive::Contents;
use super::directory::LayoutDirectory;
use super::load::{Loaded, add, check_platform};
use crate::EngineError;
use std::path::Path;
use tote_image::layout::{INDEX, blob, name};
use tote_image::{
    Descriptor, Digest, Document, ImageConfig, Index, MAX_CONFIG_BYTES, MAX_MANIFEST_BYTES, Manifest,
    Platform, Raw, Read as _, Reference,
};
use tote_store::{Ingest, Store};

/// How deep an index may name further indexes.
pub(super) const DEPTH: usize = 4;

/// Where a layout's files are.
pub(super) trait Files {
    /// A document, which is what its name says.
    fn document(&self, name: &str, limit: usize) -> Result<Vec<u8>, EngineError>;

    /// Brings a layer into the store. `expected` is what the configuration says about it.
    fn layer(
        &mut self,
        ingest: &Ingest<'_>,
        blob: &Descriptor,
        expected: &Digest,
    ) -> Result<Digest, EngineError>;
}

pub(crate) fn from_archive(
    store: &Store,
    ingest: &Ingest<'_>,
    contents: &mut Contents,
    asked: Option<&Platform>,
) -> Result<Vec<Loaded>, EngineError> {
    all(store, ingest, contents, asked)
}

pub(crate) fn load(
    store: &Store,
    ingest: &Ingest<'_>,
    path: &Path,
    asked: Option<&Platform>,
) -> Result<Vec<Loaded>, EngineError> {
    all(store, ingest, &mut LayoutDirectory::new(path), asked)
}

fn all(
    store: &Store,
    ingest: &Ingest<'_>,
    files: &mut impl Files,
    asked: Option<&Platform>,
) -> Result<Vec<Loaded>, EngineError> {
    let index = files.document(INDEX, MAX_MANIFEST_BYTES)?;
    let index = Index::read(&index).map_err(EngineError::ImageDocument)?;
    let mut loaded: Vec<Loaded> = Vec::new();
    for entry in &index.manifests {
        // A bare tag, which is all that some programs write, names no image.
        let named = name(entry).filter(|name| name.contains(['/', ':']));
        let names = named.map(Reference::parse).transpose()?.into_iter().collect();
        loaded.push(one(store, ingest, files, entry, (asked, names))?);
    }
    Ok(loaded)
}

/// The image of an entry of the index, for that platform or else for this machine. It gets these names.
pub(super) fn one(
    store: &Store,
    ingest: &Ingest<'_>,
    files: &mut impl Files,
    entry: &Descriptor,
    (asked, names): (Option<&Platform>, Vec<Reference>),
) -> Result<Loaded, EngineError> {
    let platform = asked.cloned().unwrap_or_else(Platform::host);
    let manifest = manifest(files, entry, &platform, DEPTH)?;
    let config = verified(files, &manifest.config, MAX_CONFIG_BYTES)?;
    let parsed = Raw::<ImageConfig>::read(config).map_err(EngineError::ImageDocument)?;
    check_platform(asked, parsed.value())?;
    let expected = &parsed.value().rootfs.diff_ids;
    if expected.len() != manifest.layers.len() {
        return Err(EngineError::LayerCount {
            config: expected.len(),
            archive: manifest.layers.len(),
        });
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
/// The manifest that an entry of an index leads to, on that platform.
pub(super) fn manifest(
    files: &impl Files,
    entry: &Descriptor,
    platform: &Platform,
    depth: usize,
) -> Result<Manifest, EngineError> {
    let bytes = verified(files, entry, MAX_MANIFEST_BYTES)?;
    match Document::read(&bytes, Some(&entry.media_type)).map_err(EngineError::ImageDocument)? {
        Document::Manifest(manifest) => Ok(manifest),
        Document::Index(index) => {
            let depth = depth.checked_sub(1).ok_or(EngineError::NoImageArchive)?;
            let selected = index.select(platform).map_err(EngineError::NoPlatform)?;
            manifest(files, selected, platform, depth)
        }
    }
}

pub(super) fn verified(
    files: &impl Files,
    descriptor: &Descriptor,
    limit: usize,
) -> Result<Vec<u8>, EngineError> {
    let name = blob(&descriptor.digest);
    let bytes = files.document(&name, limit)?;
    if tote_store::sha256(&bytes) == descriptor.digest {
        Ok(bytes)
    } else {
        Err(EngineError::WrongBlob(name))
    }
}

impl Files for Contents {
    fn document(&self, name: &str, _: usize) -> Result<Vec<u8>, EngineError> {
        // As large as was allowed when it came.
        let bytes = Self::document(self, name).map(<[u8]>::to_vec);
        bytes.ok_or_else(|| EngineError::ArchiveLacks(name.to_owned()))
    }

    fn layer(&mut self, _: &Ingest<'_>, descriptor: &Descriptor, _: &Digest) -> Result<Digest, EngineError> {
        Self::layer(self, &blob(&descriptor.digest))
    }
}
