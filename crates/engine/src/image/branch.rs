//! Images as `images --tree` shows them: with their platforms, and with what they take.

use super::list::{ImageSelection, images};
use super::open::open_store;
use crate::{EngineError, Home};
use std::collections::HashMap;
use tote_image::{Digest, Platform};

/// An image, with all names that were selected.
#[derive(Clone, Debug)]
pub struct ImageBranch {
    /// `REPOSITORY:TAG`, in the familiar form.
    pub names: Vec<String>,
    /// The image.
    pub id: Digest,
    /// What it is for: one, for every image here has one.
    pub platform: Platform,
    /// Bytes on disk, whole blocks; what others share as well.
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
        let image = store.image(&row.id)?;
        let config = image.config.value();
        branches.push(ImageBranch {
            names: name.into_iter().collect(),
            id: row.id,
            platform: Platform::of(&config.os, &config.architecture, &config.variant),
            disk: disk.get(&row.id).copied().unwrap_or_default(),
            content: row.size,
            is_used: crate::container::may_have_users(home, &row.id),
        });
    }
    Ok(branches)
}
