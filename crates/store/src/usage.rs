use crate::StoreError;
use crate::error::or_damaged;
use crate::key::Key;
use crate::layer::{self, Stored};
use crate::store::Store;
use crate::stored_image::Image;
use std::collections::{HashMap, HashSet};
use tote_image::Digest;

/// Block size in bytes of most file systems.
const BLOCK: u64 = 4096;

/// Disk usage of the store in bytes: blocks of files' contents. Runs of zeros that the store keeps as holes count
/// as 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Usage of each image, in the order of ids.
    pub images: Vec<ImageUsage>,
    /// Bytes that separate copies of all images would take.
    pub copied: u64,
    /// Bytes that the layers would take, each layer once and every file with its whole length, as in an engine that
    /// keeps layers apart.
    pub layered: u64,
    /// Bytes on disk: every file once, and once more for each further inode of it in an image and for each copy with other owners,
    /// if the file system cannot share its blocks.
    pub stored: u64,
    /// Bytes among them that belong to images in use.
    pub active: u64,
    /// Bytes shared with files of the host.
    pub host: u64,
}

/// Usage of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageUsage {
    /// Id of the image.
    pub id: Digest,
    /// Bytes of all its layers, by the lengths of their files.
    pub size: u64,
    /// Bytes of files that other images have, too.
    pub shared: u64,
    /// Bytes of files that only this image has.
    pub unique: u64,
}

impl Store {
    /// Measures what each image has and shares; `in_use` tells which images are in use.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn usage(&self, in_use: &dyn Fn(&Digest) -> bool) -> Result<Usage, StoreError> {
        let images = self.images()?;
        let mut layers: HashMap<Digest, Contents> = HashMap::new();
        let mut usage = Usage::default();
        for diff_id in self.live_layers(&images)? {
            // A lost layer counts as empty.
            let Some(dir) = self.layer_dir(&diff_id)? else {
                continue;
            };
            let records = layer::sizes(&dir).and_then(|sizes| Ok((sizes, layer::contents(&dir)?)));
            let Some((sizes, contents)) = or_damaged(records)? else {
                continue;
            };
            usage.host += sizes.host;
            let contents = Contents::of(&contents);
            usage.layered += contents.space;
            layers.insert(diff_id, contents);
        }
        let keys_of = |diff_ids: &[Digest]| -> HashSet<Key> {
            let contents = diff_ids.iter().filter_map(|id| layers.get(id));
            contents.flat_map(|layer| &layer.keys).copied().collect()
        };
        let mut users: HashMap<Key, u64> = HashMap::new();
        for image in &images {
            let own = image.layers().iter().filter_map(|id| layers.get(id));
            usage.copied += own.map(|layer| layer.space).sum::<u64>();
            for key in keys_of(image.layers()) {
                *users.entry(key).or_default() += 1;
            }
        }
        let space = self.space_of(&users)?;
        usage.stored = space.values().sum();
        let mut active = HashSet::new();
        for image in &images {
            let mut part = ImageUsage {
                id: image.id,
                size: image.record.size,
                shared: 0,
                unique: 0,
            };
            for key in keys_of(image.layers()) {
                let size = space.get(&key).copied().unwrap_or_default();
                match users.get(&key) {
                    Some(1) => part.unique += size,
                    _ => part.shared += size,
                }
            }
            if in_use(&image.id) {
                active.extend(keys_of(image.layers()));
            }
            usage.images.push(part);
        }
        usage.active = active.iter().filter_map(|key| space.get(key)).sum();
        self.add_copies(&images, in_use, &mut usage)?;
        Ok(usage)
    }

    /// Adds the copies of files that images have for other owners. Images of the same layers have them together.
    fn add_copies(
        &self,
        images: &[Image],
        in_use: &dyn Fn(&Digest) -> bool,
        usage: &mut Usage,
    ) -> Result<(), StoreError> {
        if self.copies_are_free() {
            return Ok(());
        }
        let mut trees: HashMap<&[Digest], Vec<&Image>> = HashMap::new();
        for image in images {
            trees.entry(image.layers()).or_default().push(image);
        }
        for sharers in trees.values() {
            let space = self.space_of_copies(sharers[0])?;
            usage.stored += space;
            if sharers.iter().any(|image| in_use(&image.id)) {
                usage.active += space;
            }
            for part in &mut usage.images {
                match sharers[..] {
                    [image] if image.id == part.id => part.unique += space,
                    [_] => {}
                    _ if sharers.iter().any(|image| image.id == part.id) => part.shared += space,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Returns the bytes of all copies of an image's files.
    fn space_of_copies(&self, image: &Image) -> Result<u64, StoreError> {
        let copies = self.copies_of(image)?;
        if copies == 0 {
            return Ok(0);
        }
        // A lost layer counts as empty, as above.
        let model = match self.model(image) {
            Err(StoreError::NoLayer(_)) => None,
            model => or_damaged(model)?,
        };
        let Some(model) = model else {
            return Ok(0);
        };
        let of_all = model.files().map(|key| self.objects.dir.space(&key.name(0)));
        Ok(of_all.sum::<u64>() * copies)
    }

    /// True on file systems where copies share their blocks.
    fn copies_are_free(&self) -> bool {
        rustix::fs::fstatfs(&self.objects.dir)
            .is_ok_and(|stat| matches!(u64::try_from(stat.f_type), Ok(BTRFS | XFS)))
    }

    /// Returns the bytes of each of these objects on disk, its further copies included.
    fn space_of(&self, needed: &HashMap<Key, u64>) -> Result<HashMap<Key, u64>, StoreError> {
        let copies_are_free = self.copies_are_free();
        let mut space: HashMap<Key, u64> = HashMap::new();
        for shard in self.objects.dir.names()? {
            if shard.starts_with('.') {
                continue;
            }
            let dir = match self.objects.dir.enter(&shard) {
                Err(error) if error.is_no_directory() => continue,
                entered => entered?,
            };
            for name in dir.names()? {
                let Some((key, copy)) = Key::parse(&shard, &name) else {
                    continue;
                };
                if !needed.contains_key(&key) || copy > 0 && copies_are_free {
                    continue;
                }
                *space.entry(key).or_default() += dir.space(&name);
            }
        }
        Ok(space)
    }
}

/// `BTRFS_SUPER_MAGIC` of linux/magic.h.
const BTRFS: u64 = 0x9123_683e;
/// `XFS_SUPER_MAGIC` of linux/magic.h.
const XFS: u64 = 0x5846_5342;

/// Contents of a layer.
struct Contents {
    keys: HashSet<Key>,
    /// Bytes of its files, if each were written on its own.
    space: u64,
}

impl Contents {
    fn of(stored: &[Stored]) -> Self {
        Self {
            keys: stored.iter().map(|stored| stored.key).collect(),
            space: stored
                .iter()
                .map(|stored| stored.size.div_ceil(BLOCK).saturating_mul(BLOCK))
                .fold(0, u64::saturating_add),
        }
    }
}
