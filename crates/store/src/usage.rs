use crate::StoreError;
use crate::key::Key;
use crate::layer;
use crate::store::Store;
use std::collections::{HashMap, HashSet};
use tote_image::Digest;

/// What the store holds, in bytes of files' contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Each image, in the order of ids.
    pub images: Vec<ImageUsage>,
    /// What copies of all images would have.
    pub copied: u64,
    /// What their layers have, each layer counted once: what an engine stores that keeps layers apart.
    pub layered: u64,
    /// What is stored: every file once.
    pub stored: u64,
    /// How much of it is the host's own.
    pub host: u64,
}

/// One image's part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ImageUsage {
    /// Which.
    pub id: Digest,
    /// All its layers.
    pub size: u64,
    /// Of files that other images have, too.
    pub shared: u64,
    /// Of files that go with it.
    pub unique: u64,
}

impl Store {
    /// Counts what each image has and shares.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn usage(&self) -> Result<Usage, StoreError> {
        let images = self.images()?;
        let mut layers: HashMap<Digest, HashMap<Key, u64>> = HashMap::new();
        let mut usage = Usage::default();
        for diff_id in self.live_layers(&images) {
            // One that is lost has nothing.
            let Some(dir) = self.layer_dir(&diff_id)? else {
                continue;
            };
            let sizes = layer::sizes(&dir)?;
            usage.layered += sizes.size;
            usage.host += sizes.host;
            let contents = layer::contents(&dir)?;
            layers.insert(
                diff_id,
                contents.iter().map(|stored| (stored.key, stored.size)).collect(),
            );
        }
        let mut users: HashMap<Key, (u64, u64)> = HashMap::new();
        let objects_of = |diff_ids: &[Digest]| -> HashMap<Key, u64> {
            let distinct: HashSet<&Digest> = diff_ids.iter().collect();
            distinct
                .iter()
                .filter_map(|id| layers.get(id))
                .flatten()
                .map(|(key, size)| (*key, *size))
                .collect()
        };
        for image in &images {
            usage.copied += image.record.size;
            for (key, size) in objects_of(image.layers()) {
                users.entry(key).or_insert((0, size)).0 += 1;
            }
        }
        usage.stored = users.values().map(|(_, size)| size).sum();
        for image in &images {
            let mut part = ImageUsage {
                id: image.id,
                size: image.record.size,
                shared: 0,
                unique: 0,
            };
            for (key, size) in objects_of(image.layers()) {
                match users.get(&key) {
                    Some((1, _)) => part.unique += size,
                    _ => part.shared += size,
                }
            }
            usage.images.push(part);
        }
        Ok(usage)
    }
}
