//! Sizes of containers and directories on disk.

use crate::Home;
use crate::container::Entry;
use std::os::unix::fs::MetadataExt as _;

/// Size of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerSize {
    /// Bytes of the files that it changed or added; 0 where they are in memory.
    pub written: u64,
    /// Bytes of its image's files; 0 unless it is an image of the store.
    pub image: u64,
}

/// Counts a container's files. The process must be in the right namespace: [`tote_images::enter_ids`].
#[must_use]
pub fn of_container(home: &Home, entry: &Entry) -> ContainerSize {
    let container = &entry.container;
    let image = || {
        let store = crate::open_store(home).ok()?;
        let id = container.image_id.as_ref()?.parse().ok()?;
        Some(store.image(&id).ok()?.record.size)
    };
    // What the file system of a disk takes of the host is what its file has.
    let disk = std::fs::metadata(home.container(&container.id).join("disk"));
    let written = match disk {
        Ok(disk) => Some(disk.blocks() * 512),
        Err(_) => crate::changes::written(home, container.id.as_str()),
    };
    ContainerSize {
        written: written.unwrap_or(0),
        image: image().unwrap_or(0),
    }
}
