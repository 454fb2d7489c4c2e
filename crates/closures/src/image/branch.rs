//! Images as `images --tree` shows them: with their platforms, and with what they take.

use super::list::{ImageSelection, images};
use crate::{EngineError, Home};
use std::collections::HashMap;
use tote_image::{Digest, Platform};
use tote_images::{Found, open_store, platform_of};

/// An image, with all names that were selected.
#[derive(Clone, Debug)]
pub struct ImageBranch {
    /// `REPOSITORY:TAG`, in the familiar form.
    pub names: Vec<String>,
    /// The image.
    pub id: Digest,
    /// A row for each platform of the image: a single one unless it is an index.
    pub platforms: Vec<PlatformBranch>,
    /// Bytes on disk, whole blocks; what others share as well.
    pub disk: u64,
    /// Bytes of the files of all its layers.
    pub content: u64,
    /// Whether a container has it.
    pub is_used: bool,
}

/// An image for one platform.
#[derive(Clone, Debug)]
pub struct PlatformBranch {
    /// Its platform.
    pub platform: Platform,
    /// The image.
    pub id: Digest,
    /// Bytes on disk, as those of the whole are counted.
    pub disk: u64,
    /// Bytes of the files of all its layers.
    pub content: u64,
    /// Whether a container has it.
    pub is_used: bool,
}

/// The images, newest first, each once.
///
/// # Errors
/// [`EngineError`].
pub fn image_branches(home: &Home, selection: &ImageSelection) -> Result<Vec<ImageBranch>, EngineError> {
    let store = open_store(home)?;
    let usage = store.usage(&|_| false)?;
    let parts = usage.images.iter();
    let disk: HashMap<Digest, u64> = parts.map(|part| (part.id, part.shared + part.unique)).collect();
    let mut branches: Vec<ImageBranch> = Vec::new();
    for row in images(home, selection)? {
        let name = row.repository.zip(row.tag);
        let name = name.map(|(repository, tag)| format!("{repository}:{tag}"));
        // Its rows follow each other.
        if let Some(last) = branches.last_mut().filter(|last| last.id == row.id) {
            last.names.extend(name);
            continue;
        }
        let mut platforms = Vec::new();
        for id in Found::of(&store, &row.id)?.images() {
            let image = store.image(&id)?;
            platforms.push(PlatformBranch {
                platform: platform_of(&image),
                id,
                disk: disk.get(&id).copied().unwrap_or_default(),
                content: image.record.size,
                is_used: crate::container::may_have_users(home, &id),
            });
        }
        branches.push(ImageBranch {
            names: name.into_iter().collect(),
            id: row.id,
            disk: platforms.iter().map(|platform| platform.disk).sum(),
            content: row.size,
            is_used: platforms.iter().any(|platform| platform.is_used),
            platforms,
        });
    }
    Ok(branches)
}
