//! Verification that the stored content is still what was stored.

use crate::StoreError;
use crate::error::is_gone;
use crate::ingest::Ingest;
use crate::key::{Attributes, Key, Owners, has_hash, is_kept};
use crate::layer;
use crate::store::{Store, sha256_hex};
use crate::stored_image::Image;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::collections::hash_map::Entry as Slot;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tote_archive::Timestamp;
use tote_image::{Digest, Reference};

/// Depth of the verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Sizes only: losses by a power cut show there.
    Sizes,
    /// Contents and attributes: everything is read.
    Contents,
}

/// Result of the verification.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Number of objects that were checked.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Damaged objects, by name.
    pub damaged: BTreeMap<String, Damage>,
    /// Layers of images that are missing, or whose records are damaged.
    pub missing: BTreeSet<Digest>,
    /// Damaged records and trees.
    pub broken: Vec<Broken>,
}

/// A damaged record or tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The configuration of an image does not have its digest, so the image is lost. With its names.
    Image(Digest, Vec<Reference>),
    /// Something that an index names is missing. With the index's names.
    Index(Digest, Vec<Reference>),
    /// A further record of an image, with its file name.
    Note(Digest, &'static str),
    /// A name's file in the store, and the name if that can be told. The image has lost this name.
    Name(String, Option<Reference>),
    /// An image's tree, by the digest of its layers together, and the damaged part.
    Tree(String, String),
    /// A layer's records. The layer is among [`Verified::missing`], too.
    Layer(Digest, String),
    /// The document of a node is not what its name says, so the node is lost.
    Node(String),
}

impl Broken {
    /// True if it cannot be made again from the rest of the store.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        matches!(
            self,
            Self::Image(..) | Self::Index(..) | Self::Name(..) | Self::Node(_)
        )
    }
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Image(id, names) => {
                let names: Vec<String> = names.iter().map(Reference::familiar).collect();
                write!(
                    f,
                    "image {id} ({}): its configuration is damaged",
                    names.join(", ")
                )
            }
            Self::Index(id, names) => {
                let names: Vec<String> = names.iter().map(Reference::familiar).collect();
                write!(f, "index {id} ({}): an image of it is lost", names.join(", "))
            }
            Self::Note(id, name) => write!(f, "{name} of image {id}"),
            Self::Name(_, Some(name)) => write!(f, "name {}", name.familiar()),
            Self::Name(file, None) => write!(f, "names/{file}"),
            Self::Tree(chain, what) => write!(f, "tree {chain}: {what}"),
            Self::Layer(layer, why) => write!(f, "layer {layer}: {why}"),
            Self::Node(id) => write!(f, "node {id}: import it again, or remove it with 'tote graph gc'"),
        }
    }
}

/// A lost or damaged object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// Layers that have the object.
    pub layers: BTreeSet<Digest>,
    /// Images that have these layers.
    pub images: BTreeSet<Digest>,
}

impl Verified {
    /// True if nothing is damaged.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damaged.is_empty() && self.missing.is_empty() && self.broken.is_empty()
    }

    /// Returns the layers that must be fetched again.
    #[must_use]
    pub fn layers(&self) -> BTreeSet<Digest> {
        let damaged = self.damaged.values().flat_map(|damage| &damage.layers);
        damaged.chain(&self.missing).copied().collect()
    }
}

impl Store {
    /// Checks every object that an image needs, all records and the trees.
    ///
    /// The first pass does not block additions. If it finds damage, an image may just have been removed, so a
    /// second pass runs while no sweep can remove anything.
    ///
    /// # Errors
    /// [`StoreError`] if the store itself cannot be read; damaged objects are not an error.
    pub fn verify(&self, depth: Depth) -> Result<Verified, StoreError> {
        match self.look_at_all(depth) {
            Ok(verified) if verified.is_whole() => Ok(verified),
            _ => {
                let _unswept = self.ingest()?;
                self.look_at_all(depth)
            }
        }
    }

    fn look_at_all(&self, depth: Depth) -> Result<Verified, StoreError> {
        let images = self.images()?;
        let mut verified = Verified::default();
        let mut looked_at: HashMap<Key, bool> = HashMap::new();
        self.verify_images(&images, &mut verified)?;
        for diff_id in self.live_layers(&images)? {
            let Some(dir) = self.layer_dir(&diff_id)? else {
                verified.missing.insert(diff_id);
                continue;
            };
            let records = layer::check_framing(&dir).and_then(|()| layer::contents(&dir));
            let contents = match records {
                Ok(contents) => contents,
                Err(StoreError::Damaged { path, reason }) => {
                    let file = path.file_name().unwrap_or_default().to_string_lossy();
                    let why = format!("{file}: {reason}");
                    verified.broken.push(Broken::Layer(diff_id, why));
                    verified.missing.insert(diff_id);
                    continue;
                }
                Err(error) => return Err(error),
            };
            for stored in contents {
                let is_whole = match looked_at.entry(stored.key) {
                    Slot::Occupied(known) => *known.get(),
                    Slot::Vacant(unknown) => {
                        verified.objects += 1;
                        verified.bytes += stored.size;
                        *unknown.insert(self.is_as_stored(&stored.key, stored.size, depth)?)
                    }
                };
                if !is_whole {
                    let damage = verified.damaged.entry(stored.key.name(0)).or_default();
                    damage.layers.insert(diff_id);
                    let users = images.iter().filter(|image| image.layers().contains(&diff_id));
                    damage.images.extend(users.map(|image| image.id));
                }
            }
        }
        // Layers of images that were removed meanwhile are not missing.
        let images = self.images()?;
        let live = self.live_layers(&images)?;
        verified.missing.retain(|layer| live.contains(layer));
        self.verify_trees(&images, &mut verified)?;
        let nodes = self.damaged_nodes()?.into_iter();
        verified.broken.extend(nodes.map(Broken::Node));
        Ok(verified)
    }

    fn verify_images(&self, images: &[Image], verified: &mut Verified) -> Result<(), StoreError> {
        let all = self.names()?;
        let names_of = |id: &Digest| -> Vec<Reference> {
            let named = all.iter().filter(|(_, of)| of == id);
            named.map(|(name, _)| name.clone()).collect()
        };
        for id in self.damaged_images()? {
            verified.broken.push(Broken::Image(id, names_of(&id)));
        }
        for index in self.indexes()? {
            if !self.is_whole_index(&index)? {
                let names = names_of(&index.id);
                verified.broken.push(Broken::Index(index.id, names));
            }
        }
        for image in images {
            let notes = match self.damaged_notes(&image.id) {
                // The image was removed meanwhile.
                Err(StoreError::NoImage(_)) => continue,
                notes => notes?,
            };
            let notes = notes.into_iter().map(|name| Broken::Note(image.id, name));
            verified.broken.extend(notes);
        }
        let names = crate::names::damaged(&self.names)?.into_iter();
        verified
            .broken
            .extend(names.map(|(file, name)| Broken::Name(file, name)));
        Ok(())
    }

    fn verify_trees(&self, images: &[Image], verified: &mut Verified) -> Result<(), StoreError> {
        let mut seen = HashSet::new();
        for image in images {
            let chain = self.tree_name(image)?;
            let is_complete = image.layers().iter().all(|id| !verified.missing.contains(id));
            if !is_complete || !seen.insert(chain.clone()) || !self.trees.is_there(&chain)? {
                continue;
            }
            let damage = match self.damage_of_tree(image) {
                Err(StoreError::Damaged { reason, .. }) => Some(reason.to_owned()),
                damage => damage?,
            };
            // Ignore the damage if the tree was removed meanwhile.
            if let Some(damage) = damage
                && self.trees.is_there(&chain)?
            {
                verified.broken.push(Broken::Tree(chain, damage));
            }
        }
        Ok(())
    }

    /// True if an object is undamaged. A missing or different object is damaged; any other failure is an error,
    /// because the object may be whole. The exception is a disk that cannot read the data any more.
    fn is_as_stored(&self, key: &Key, size: u64, depth: Depth) -> Result<bool, StoreError> {
        let name = key.name(0);
        let dir = &self.objects.dir;
        let stat = match dir.stat(&name) {
            Ok(stat) => stat,
            Err(errno) if is_gone(errno) => return Ok(false),
            Err(errno) => return Err(dir.failed("look at", name)(errno)),
        };
        let fits = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && u64::try_from(stat.st_size) == Ok(size);
        if !fits || depth == Depth::Sizes {
            return Ok(fits);
        }
        let file = dir.open_file(&name).map_err(dir.failed("open", &name))?;
        let attributes = attributes(&file, &stat, self.owners);
        match has_hash(&file, &key.content) {
            Ok(is_right) => Ok(is_right && attributes.hash() == key.attributes),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => Ok(false),
            Err(source) => Err(StoreError::Io {
                attempt: "read",
                path: dir.path().join(name),
                source,
            }),
        }
    }

    /// Adds damaged layers anew. `fetch` is called for each of them with the right to add, and must add it by
    /// [`Ingest::layer`] and [`Ingest::fill`]. Trees are made again at their next use.
    ///
    /// # Errors
    /// [`StoreError`], and those of `fetch`.
    pub fn repair<E: From<StoreError>>(
        &self,
        verified: &Verified,
        mut fetch: impl FnMut(&Ingest<'_>, &Digest) -> Result<(), E>,
    ) -> Result<(), E> {
        let ingest = self.ingest()?;
        for name in verified.damaged.keys() {
            let dir = &self.objects.dir;
            // Further copies may have been made of an object that was damaged already.
            let copies = (1u32..).map(|copy| format!("{name}.{copy}"));
            for name in std::iter::once(name.clone()).chain(copies.take_while(|name| dir.has(name))) {
                dir.unlink(&name).map_err(dir.failed("remove", name))?;
            }
        }
        for broken in &verified.broken {
            match broken {
                Broken::Image(id, _) => drop(self.remove_image(id)?),
                Broken::Name(file, _) => {
                    self.names
                        .unlink(file)
                        .map_err(self.names.failed("remove", file))?;
                }
                Broken::Tree(chain, _) => self.discard(&self.trees, chain)?,
                Broken::Node(_) => drop(self.remove_damaged_nodes()?),
                // The next build or load adds the missing parts.
                Broken::Index(..) | Broken::Note(..) | Broken::Layer(..) => {}
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
        for broken in &verified.broken {
            if let Broken::Note(id, name) = broken {
                self.mend_note(id, name)?;
            }
        }
        Ok(())
    }
}

/// Reads an object's attributes from disk.
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
