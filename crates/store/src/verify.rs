//! Whether what is stored is what was stored.

use crate::StoreError;
use crate::image::Image;
use crate::ingest::Ingest;
use crate::key::{Attributes, ContentHash, Key, Owners, is_kept};
use crate::layer;
use crate::store::{Store, sha256_hex};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io::Read as _;
use tote_archive::Timestamp;
use tote_image::Digest;

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// At sizes: what a power cut takes shows there.
    Sizes,
    /// At contents and attributes: everything is read.
    Contents,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// How many objects were looked at.
    pub objects: u64,
    /// And their bytes.
    pub bytes: u64,
    /// Those that are not as they were, by name.
    pub damaged: BTreeMap<String, Damage>,
    /// Layers of images that are not there at all.
    pub missing: BTreeSet<Digest>,
}

/// An object that is lost or not what it was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// The layers that have it.
    pub layers: BTreeSet<Digest>,
    /// The images that have those.
    pub images: BTreeSet<Digest>,
}

impl Verified {
    /// Whether everything is as it was.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damaged.is_empty() && self.missing.is_empty()
    }

    /// The layers to be had anew.
    #[must_use]
    pub fn layers(&self) -> BTreeSet<Digest> {
        let damaged = self.damaged.values().flat_map(|damage| &damage.layers);
        damaged.chain(&self.missing).copied().collect()
    }
}

impl Store {
    /// Looks at every object that an image needs.
    ///
    /// # Errors
    /// [`StoreError`] where the store itself cannot be read; damaged objects are no error.
    pub fn verify(&self, depth: Depth) -> Result<Verified, StoreError> {
        let images = self.images()?;
        let mut verified = Verified::default();
        let mut looked_at: HashMap<Key, bool> = HashMap::new();
        for diff_id in self.live_layers(&images) {
            let Some(dir) = self.layer_dir(&diff_id)? else {
                verified.missing.insert(diff_id);
                continue;
            };
            for stored in layer::contents(&dir)? {
                let is_whole = *looked_at.entry(stored.key).or_insert_with(|| {
                    verified.objects += 1;
                    verified.bytes += stored.size;
                    self.is_as_stored(&stored.key, stored.size, depth)
                });
                if !is_whole {
                    let damage = verified.damaged.entry(stored.key.name(0)).or_default();
                    damage.layers.insert(diff_id);
                    let users = images.iter().filter(|image| image.layers().contains(&diff_id));
                    damage.images.extend(users.map(|image| image.id));
                }
            }
        }
        Ok(verified)
    }

    fn is_as_stored(&self, key: &Key, size: u64, depth: Depth) -> bool {
        let name = key.name(0);
        let Ok(stat) = self.objects.dir.stat(&name) else {
            return false;
        };
        let fits = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && u64::try_from(stat.st_size) == Ok(size);
        match depth {
            Depth::Sizes => fits,
            Depth::Contents => {
                fits && self.objects.dir.open_file(&name).is_ok_and(|file| {
                    let attributes = attributes(&file, &stat, self.owners);
                    content(file).is_ok_and(|content| Key::new(content, &attributes) == *key)
                })
            }
        }
    }

    /// Makes damaged layers anew. `fetch` is called for each of them with the right to add, and is to bring it by
    /// [`Ingest::layer`] and [`Ingest::fill`]. Trees are made again when they are next used.
    ///
    /// # Errors
    /// [`StoreError`], and what `fetch` says.
    pub fn repair<E: From<StoreError>>(
        &self,
        verified: &Verified,
        mut fetch: impl FnMut(&Ingest<'_>, &Digest) -> Result<(), E>,
    ) -> Result<(), E> {
        let ingest = self.ingest()?;
        for name in verified.damaged.keys() {
            let dir = &self.objects.dir;
            // Further copies were made of it, perhaps when it was damaged already.
            let copies = (1u32..).map(|copy| format!("{name}.{copy}"));
            for name in std::iter::once(name.clone()).chain(copies.take_while(|name| dir.has(name))) {
                dir.unlink(&name).map_err(dir.failed("remove", name))?;
            }
        }
        let layers = verified.layers();
        let images = self.images()?;
        let is_affected = |image: &&Image| image.layers().iter().any(|layer| layers.contains(layer));
        for image in images.iter().filter(is_affected) {
            self.discard(&self.trees, &self.tree_name(image)?)?;
        }
        let distinct: HashSet<&Digest> = layers.iter().collect();
        for diff_id in distinct {
            self.discard(&self.layers, &sha256_hex(diff_id)?)?;
            fetch(&ingest, diff_id)?;
        }
        Ok(())
    }
}

fn content(file: OwnedFd) -> std::io::Result<ContentHash> {
    let mut file = std::fs::File::from(file);
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.finalize().into()),
            read => hash.update(&buffer[..read]),
        }
    }
}

/// An object's attributes as they are on disk.
fn attributes(file: &OwnedFd, stat: &Stat, owners: Owners) -> Attributes {
    let (uid, gid) = match owners {
        Owners::Image => (stat.st_uid, stat.st_gid),
        Owners::Caller => (0, 0),
    };
    let mut names = vec![0; 64 << 10];
    let length = rustix::fs::flistxattr(file, &mut names).unwrap_or_default();
    let kept = names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| is_kept(name, owners));
    let mut xattrs: Vec<_> = kept
        .filter_map(|name| Some((name.to_vec(), xattr(file, name)?)))
        .collect();
    xattrs.sort();
    let nanos = u32::try_from(stat.st_mtime_nsec).unwrap_or_default();
    let mtime = Timestamp {
        secs: stat.st_mtime,
        nanos,
    };
    Attributes {
        mode: stat.st_mode & 0o7777,
        uid,
        gid,
        mtime,
        xattrs,
    }
}

fn xattr(file: &OwnedFd, name: &[u8]) -> Option<Vec<u8>> {
    let mut value = vec![0; 64 << 10];
    let length = rustix::fs::fgetxattr(file, name, &mut value).ok()?;
    value.truncate(length);
    Some(value)
}
