//! `load`: images from an archive of docker or OCI, or from an OCI layout.

use crate::ArchiveError;
use crate::archive::Contents;
use crate::layout;
use crate::open::{open_store, or_nothing, sweep_a_little};
use crate::{Home, ImagesError};
use std::io::Read;
use std::path::Path;
use tote_image::docker_archive::{self, Images};
use tote_image::layout::INDEX;
use tote_image::{Digest, ImageConfig, NoPlatform, Platform, Raw, Read as _, Reference};
use tote_store::{Ingest, Store};

/// Image that was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Id of the image.
    pub id: Digest,
    /// Names that the image has now.
    pub names: Vec<Reference>,
    /// Images that had one of these names before.
    pub renamed: Vec<(Reference, Digest)>,
    /// Number of device nodes in the image that could not be made.
    pub left_out: u64,
}

/// Source of images.
#[derive(Debug)]
pub enum LoadSource<'a, R> {
    /// Archive of docker or OCI, compressed or not.
    Archive(R),
    /// Directory with an OCI layout.
    Layout(&'a Path),
}

/// Loads all images of an archive or a layout, each for `platform` or by default for this machine. The process must
/// be in the namespace of [`crate::enter_ids`].
///
/// # Errors
/// [`ImagesError`]. Images that were loaded before the failure stay.
pub fn load<R: Read + Send>(
    home: &Home,
    source: LoadSource<'_, R>,
    platform: Option<&Platform>,
) -> Result<Vec<Loaded>, ImagesError> {
    let store = open_store(home)?;
    let loaded = or_nothing(&store, take(&store, source, platform));
    if let Ok(loaded) = &loaded {
        let ids: Vec<Digest> = loaded.iter().map(|loaded| loaded.id).collect();
        crate::events::passed(home, &store, "load", &ids);
    }
    sweep_a_little(&store);
    loaded
}

fn take<R: Read + Send>(
    store: &Store,
    source: LoadSource<'_, R>,
    asked: Option<&Platform>,
) -> Result<Vec<Loaded>, ImagesError> {
    let ingest = store.ingest_at_once()?;
    match source {
        LoadSource::Layout(path) => layout::load(store, &ingest, path, asked),
        LoadSource::Archive(input) => {
            let mut contents = Contents::read(&ingest, input)?;
            if contents.document(docker_archive::MANIFEST).is_some() && !layout::has_index(&contents) {
                from_docker(store, &ingest, &mut contents, asked)
            } else if contents.document(INDEX).is_some() {
                layout::from_archive(store, &ingest, &mut contents, asked)
            } else {
                Err(ArchiveError::NoImageArchive.into())
            }
        }
    }
}

fn from_docker(
    store: &Store,
    ingest: &Ingest<'_>,
    contents: &mut Contents,
    asked: Option<&Platform>,
) -> Result<Vec<Loaded>, ImagesError> {
    let manifest = contents.document(docker_archive::MANIFEST).unwrap_or_default();
    let images = Images::read(manifest).map_err(ImagesError::ImageDocument)?;
    let mut loaded = Vec::new();
    for image in images.0 {
        let config = contents
            .document(&image.config)
            .ok_or_else(|| ArchiveError::ArchiveLacks(image.config.clone()))?;
        let config = config.to_vec();
        if asked.is_some() {
            let config = ImageConfig::read(&config).map_err(ImagesError::ImageDocument)?;
            check_platform(asked, &config)?;
        }
        let names = image
            .repo_tags
            .iter()
            .map(|tag| Reference::parse(tag))
            .collect::<Result<Vec<_>, _>>()?;
        let layers = image
            .layers
            .iter()
            .map(|layer| contents.layer(layer))
            .collect::<Result<Vec<_>, _>>()?;
        loaded.push(add(store, ingest, &config, &layers, names)?);
    }
    Ok(loaded)
}

/// Checks that an image is for the requested platform, if there is one.
pub(super) fn check_platform(asked: Option<&Platform>, config: &ImageConfig) -> Result<(), ImagesError> {
    let own = Platform::of(&config.os, &config.architecture, &config.variant);
    match asked {
        Some(asked) if asked.rank(&own).is_none() => Err(ImagesError::NoPlatform(NoPlatform {
            wanted: Box::new(asked.clone()),
            offered: vec![own],
        })),
        _ => Ok(()),
    }
}

/// Adds an image whose layers are in the store, and gives it its names.
pub(crate) fn add(
    store: &Store,
    ingest: &Ingest<'_>,
    config: &[u8],
    layers: &[Digest],
    names: Vec<Reference>,
) -> Result<Loaded, ImagesError> {
    let parsed = Raw::<ImageConfig>::read(config.to_vec()).map_err(ImagesError::ImageDocument)?;
    let expected = &parsed.value().rootfs.diff_ids;
    if let Some((expected, found)) = expected
        .iter()
        .zip(layers)
        .find(|(expected, found)| expected != found)
    {
        let wrong = tote_store::WrongLayer {
            expected: *expected,
            found: *found,
        };
        return Err(tote_store::StoreError::WrongLayer(Box::new(wrong)).into());
    }
    if expected.len() != layers.len() {
        return Err(ArchiveError::LayerCount {
            config: expected.len(),
            archive: layers.len(),
        }
        .into());
    }
    let image = ingest.image(config, None)?;
    let (_, made) = store.make_tree(&image)?;
    let mut renamed = Vec::new();
    for name in &names {
        renamed.extend(ingest.tag(name, &image.id)?.map(|before| (name.clone(), before)));
    }
    Ok(Loaded {
        id: image.id,
        names,
        renamed,
        left_out: made.unwrap_or_default().left_out,
    })
}
