//! `images/`: the configuration and manifest of each image, as received.

use crate::StoreError;
use crate::dir::Dir;
use crate::error::or_damaged;
use crate::ingest::Ingest;
use crate::store::{Store, sha256, sha256_hex};
use crate::stored_image::{Image, ImageRecord};
use rustix::io::Errno;

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};
use tote_image::{
    Descriptor, Digest, ImageConfig, MAX_CONFIG_BYTES, MAX_MANIFEST_BYTES, Manifest, Raw, Reference,
    media_type,
};

pub(crate) const CONFIG: &str = "config.json";
const MANIFEST: &str = "manifest.json";
const RECORD: &str = "image.json";

impl Store {
    /// Finds the image for a text: a name, an id, or the beginning of an id. For an index, it is the image that is
    /// best for this machine, or else the first.
    ///
    /// # Errors
    /// [`StoreError::NoImage`], [`StoreError::Ambiguous`] and others.
    pub fn resolve(&self, text: &str) -> Result<Digest, StoreError> {
        resolve(self, text)
    }

    /// Finds an image as [`Store::resolve`] does, but returns the id of an index if the text stands for one.
    ///
    /// # Errors
    /// Those of [`Store::resolve`].
    pub fn find(&self, text: &str) -> Result<Digest, StoreError> {
        find(self, text).map(|(id, _)| id)
    }

    /// Reads an image by its id.
    ///
    /// # Errors
    /// [`StoreError::NoImage`] and others.
    pub fn image(&self, id: &Digest) -> Result<Image, StoreError> {
        read(self, id)
    }

    /// Lists all images, in the order of their ids.
    ///
    /// # Errors
    /// [`StoreError::Io`], also if a single image cannot be read: it may exist, and a list without it would say
    /// that it does not. Damaged images are left out; [`Store::damaged_images`] names them.
    pub fn images(&self) -> Result<Vec<Image>, StoreError> {
        all(self)
    }
}

impl Store {
    /// Returns the manifest that came with an image, if there was one.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn manifest(&self, id: &Digest) -> Result<Option<Raw<Manifest>>, StoreError> {
        let dir = dir(self, id)?;
        let bytes = dir.read(MANIFEST, MAX_MANIFEST_BYTES as u64 + 1)?;
        // A manifest that a power cut has damaged counts as missing: the image is complete without it.
        Ok(bytes.and_then(|bytes| Raw::read(bytes).ok()))
    }
}

/// Adds annotations to an image's manifest. An image without a manifest gets one of its uncompressed layers.
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
    // A damaged record counts as empty, because its content can be computed again.
    let record = serde_json::from_slice(&record).unwrap_or_default();
    Ok(Image {
        id: *id,
        config,
        record,
    })
}

impl Store {
    /// Lists the ids of damaged images, whose configuration does not have its digest.
    ///
    /// # Errors
    /// [`StoreError::Io`] if one cannot be read, because it may be undamaged.
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

    /// Lists the names of an image's further records that are damaged.
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

    /// Repairs a record that [`Store::damaged_notes`] found: removes a manifest, because the image is complete
    /// without it; writes the store's own record anew.
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

/// Returns seconds since 1970.
fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

pub(crate) fn all(store: &Store) -> Result<Vec<Image>, StoreError> {
    let mut ids = ids(store)?;
    ids.sort();
    let mut images = Vec::new();
    for id in ids {
        match or_damaged(read(store, &id)) {
            // Another command has just removed the image.
            Err(StoreError::NoImage(_)) => {}
            image => images.extend(image?),
        }
    }
    Ok(images)
}

pub(crate) fn ids(store: &Store) -> Result<Vec<Digest>, StoreError> {
    let names = store.images.names()?;
    Ok(names
        .iter()
        .filter_map(|name| format!("sha256:{name}").parse().ok())
        .collect())
}

/// Finds the id for a text, and whether it is that of an index.
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

/// Finds the image for a text; for an index, the image that is best for this machine.
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
        // A manifest with another number of layers is ignored here.
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
        // The image exists already; this time it may come with a registry's manifest.
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
    /// Moves a finished image or layer to its place. An existing entry is damaged, or was made by a faster process.
    /// In both cases it is replaced, and readers see either the old one or the new one.
    pub(crate) fn put_in_place(&self, dir: &Dir, unfinished: &str, name: &str) -> Result<(), StoreError> {
        loop {
            match dir.rename(unfinished, dir, name) {
                Err(Errno::EXIST | Errno::NOTEMPTY) => {}
                renamed => return renamed.map_err(dir.failed("make", name)),
            }
            match dir.exchange(unfinished, name) {
                Ok(()) => return dir.remove_tree(unfinished),
                // The entry was removed just now.
                Err(Errno::NOENT) => {}
                // The file system does not support the exchange.
                Err(Errno::INVAL) => self.discard(dir, name)?,
                Err(errno) => return Err(dir.failed("make", name)(errno)),
            }
        }
    }
}
