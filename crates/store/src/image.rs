//! `images/`: what each image says of itself, as received.

use crate::StoreError;
use crate::dir::Dir;
use crate::ingest::Ingest;
use crate::known::or_damaged;
use crate::store::{Store, sha256, sha256_hex};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use tote_image::{
    Descriptor, Digest, ImageConfig, MAX_CONFIG_BYTES, MAX_MANIFEST_BYTES, Manifest, Raw, Reference,
    media_type,
};

pub(crate) const CONFIG: &str = "config.json";
const MANIFEST: &str = "manifest.json";
const RECORD: &str = "image.json";

/// An image in the store.
#[derive(Clone, Debug)]
pub struct Image {
    /// The digest of its configuration.
    pub id: Digest,
    /// The configuration, as parsed and as received.
    pub config: Raw<ImageConfig>,
    /// When it came, and how large it is.
    pub record: ImageRecord,
}

/// What the store knows of an image beside what that says itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ImageRecord {
    /// Bytes of the files of all its layers.
    pub size: u64,
    /// When it came, in seconds since 1970.
    pub added: u64,
}

impl Image {
    /// The digests of its layers, lowest first.
    #[must_use]
    pub fn layers(&self) -> &[Digest] {
        &self.config.value().rootfs.diff_ids
    }
}

impl Store {
    /// The manifest with which an image came, if it came with one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn manifest(&self, id: &Digest) -> Result<Option<Raw<Manifest>>, StoreError> {
        let dir = dir(self, id)?;
        let bytes = dir.read(MANIFEST, MAX_MANIFEST_BYTES as u64 + 1)?;
        // What a power cut has left of one is none: the image is whole without.
        Ok(bytes.and_then(|bytes| Raw::read(bytes).ok()))
    }
}

/// Adds to what an image's manifest says; one that came without has a manifest of its uncompressed layers then.
pub(crate) fn annotate(
    store: &Store,
    image: &Image,
    annotations: &BTreeMap<String, String>,
) -> Result<(), StoreError> {
    let mut manifest = match store.manifest(&image.id)? {
        Some(manifest) => manifest.into_parts().1,
        None => {
            let mut layers = Vec::new();
            for diff_id in image.layers() {
                let size = store.layer_archive(diff_id)?.size;
                layers.push(Descriptor::new(media_type::OCI_LAYER, *diff_id, size));
            }
            let size = image.config.bytes().len() as u64;
            let config = Descriptor::new(media_type::OCI_CONFIG, image.id, size);
            Manifest::oci(config, layers)
        }
    };
    manifest.annotations.extend(annotations.clone());
    dir(store, &image.id)?.write(MANIFEST, &manifest.to_json())
}

pub(crate) fn dir(store: &Store, id: &Digest) -> Result<Dir, StoreError> {
    match store.images.enter(&sha256_hex(id)?) {
        Err(error) if error.errno() == Some(Errno::NOENT) => Err(StoreError::NoImage(id.to_string())),
        Err(error) if error.is_no_directory() => Err(StoreError::damaged(
            store.images.path().join(id.hex()),
            "it is no directory",
        )),
        entered => entered,
    }
}

pub(crate) fn read(store: &Store, id: &Digest) -> Result<Image, StoreError> {
    let dir = dir(store, id)?;
    let bytes = dir.read(CONFIG, MAX_CONFIG_BYTES as u64 + 1)?.unwrap_or_default();
    if sha256(&bytes) != *id {
        return Err(StoreError::damaged(
            dir.path().join(CONFIG),
            "it is not what its digest says",
        ));
    }
    let config = Raw::read(bytes).map_err(StoreError::Config)?;
    let record = dir.read(RECORD, 4096)?.unwrap_or_default();
    // It holds what can be found out again.
    let record = serde_json::from_slice(&record).unwrap_or_default();
    Ok(Image {
        id: *id,
        config,
        record,
    })
}

impl Store {
    /// Ids of images that are there and of no use: their configuration is not what their digest says.
    ///
    /// # Errors
    /// [`StoreError::Io`] where one cannot be read: nothing is known about that one.
    pub fn damaged_images(&self) -> Result<Vec<Digest>, StoreError> {
        let mut damaged = Vec::new();
        for id in ids(self)? {
            if matches!(or_damaged(self.index(&id)), Ok(Some(Some(_)))) {
                continue;
            }
            match or_damaged(read(self, &id)) {
                Ok(Some(_)) | Err(StoreError::NoImage(_)) => {}
                Ok(None) => damaged.push(id),
                Err(error) => return Err(error),
            }
        }
        Ok(damaged)
    }

    /// Which of an image's further records are damaged: their names.
    pub(crate) fn damaged_notes(&self, id: &Digest) -> Result<Vec<&'static str>, StoreError> {
        let dir = dir(self, id)?;
        let mut damaged = Vec::new();
        let manifest = dir.read(MANIFEST, MAX_MANIFEST_BYTES as u64 + 1)?;
        if manifest.is_some_and(|bytes| Raw::<Manifest>::read(bytes).is_err()) {
            damaged.push(MANIFEST);
        }
        let record = dir.read(RECORD, 4096)?.unwrap_or_default();
        if serde_json::from_slice::<ImageRecord>(&record).is_err() {
            damaged.push(RECORD);
        }
        Ok(damaged)
    }

    /// Mends what [`Store::damaged_notes`] has found: a manifest goes, for the image is whole without, and what the store
    /// itself noted is noted again.
    pub(crate) fn mend_note(&self, id: &Digest, name: &str) -> Result<(), StoreError> {
        let dir = dir(self, id)?;
        if name == MANIFEST {
            return dir.unlink(name).map_err(dir.failed("remove", name));
        }
        let mut size = 0u64;
        for diff_id in self.image(id)?.layers() {
            size = size.saturating_add(self.layer(diff_id)?.map_or(0, |layer| layer.sizes.size));
        }
        write_record(&dir, &ImageRecord { size, added: now() })
    }
}

fn write_record(dir: &Dir, record: &ImageRecord) -> Result<(), StoreError> {
    let json = serde_json::to_vec(record);
    let json = json.map_err(|_| StoreError::damaged(dir.path().join(RECORD), "it cannot be written"))?;
    dir.write(RECORD, &json)
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

pub(crate) fn all(store: &Store) -> Result<Vec<Image>, StoreError> {
    let mut ids = ids(store)?;
    ids.sort();
    Ok(ids.iter().filter_map(|id| read(store, id).ok()).collect())
}

pub(crate) fn ids(store: &Store) -> Result<Vec<Digest>, StoreError> {
    let names = store.images.names()?;
    Ok(names
        .iter()
        .filter_map(|name| format!("sha256:{name}").parse().ok())
        .collect())
}

/// The id that a text means, and whether it is that of an index.
pub(crate) fn find(store: &Store, text: &str) -> Result<(Digest, bool), StoreError> {
    if let Ok(name) = Reference::parse(text)
        && let Some(named) = crate::names::get_kind(&store.names, &name)?
    {
        return Ok(named);
    }
    let missing = || StoreError::NoImage(text.to_owned());
    let prefix = text.strip_prefix("sha256:").unwrap_or(text);
    if prefix.is_empty() || prefix.len() > 64 || !prefix.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(missing());
    }
    let mut found = ids(store)?.into_iter().filter(|id| id.hex().starts_with(prefix));
    match (found.next(), found.next()) {
        (Some(id), None) => Ok((id, crate::index::is_one(&store.images, &id.hex()))),
        (None, _) => Err(missing()),
        (Some(_), Some(_)) => Err(StoreError::Ambiguous(text.to_owned())),
    }
}

/// The image that a text means: of an index the one that is best for this machine.
pub(crate) fn resolve(store: &Store, text: &str) -> Result<Digest, StoreError> {
    match find(store, text)? {
        (id, false) => Ok(id),
        (id, true) => {
            let image = store.image_of(&id, None)?;
            image.ok_or_else(|| StoreError::EmptyIndex(text.to_owned()))
        }
    }
}

pub(crate) fn add(
    ingest: &Ingest<'_>,
    store: &Store,
    config: &[u8],
    manifest: Option<&[u8]>,
) -> Result<Image, StoreError> {
    let id = sha256(config);
    let config = Raw::<ImageConfig>::read(config.to_vec()).map_err(StoreError::Config)?;
    let layers = &config.value().rootfs.diff_ids;
    let mut size = 0u64;
    for diff_id in layers {
        let layer = store.layer(diff_id)?.ok_or(StoreError::NoLayer(*diff_id))?;
        size = size.saturating_add(layer.sizes.size);
    }
    if let Some(manifest) = manifest {
        let manifest = Raw::<Manifest>::read(manifest.to_vec()).map_err(StoreError::Manifest)?;
        // One that does not fit says nothing about the layers.
        if manifest.value().layers.len() == layers.len() {
            for (diff_id, blob) in layers.iter().zip(&manifest.value().layers) {
                ingest.note_blob(diff_id, blob)?;
            }
        }
    }
    let image = Image {
        id,
        config,
        record: ImageRecord { size, added: now() },
    };
    write(store, &image, manifest)?;
    Ok(image)
}

fn write(store: &Store, image: &Image, manifest: Option<&[u8]>) -> Result<(), StoreError> {
    let name = sha256_hex(&image.id)?;
    if read(store, &image.id).is_ok() {
        // The same image again, this time perhaps with what a registry says of it.
        return match manifest {
            Some(manifest) => store.images.enter(&name)?.write(MANIFEST, manifest),
            None => Ok(()),
        };
    }
    let (dir, unfinished) = store.images.make_unfinished()?;
    dir.write(CONFIG, image.config.bytes())?;
    if let Some(manifest) = manifest {
        dir.write(MANIFEST, manifest)?;
    }
    write_record(&dir, &image.record)?;
    store.put_in_place(&store.images, &unfinished, &name)
}

impl Store {
    /// Gives an image or a layer its place. What is there already is damaged, or another process's that was a moment
    /// faster; either way ours is right, and who reads meanwhile finds the one or the other.
    pub(crate) fn put_in_place(&self, dir: &Dir, unfinished: &str, name: &str) -> Result<(), StoreError> {
        loop {
            match dir.rename(unfinished, dir, name) {
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                renamed => return renamed.map_err(dir.failed("make", name)),
            }
            match dir.exchange(unfinished, name) {
                Ok(()) => return dir.remove_tree(unfinished),
                // Removed in this moment.
                Err(Errno::NOENT) => {}
                // A file system that cannot exchange.
                Err(Errno::INVAL) => self.discard(dir, name)?,
                Err(errno) => return Err(dir.failed("make", name)(errno)),
            }
        }
    }
}
