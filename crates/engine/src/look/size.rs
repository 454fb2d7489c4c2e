//! Sizes of containers and directories on disk.

use crate::Home;
use crate::container::Entry;
use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Size of a container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContainerSize {
    /// Bytes of the files that it changed or added; 0 where they are in memory.
    pub written: u64,
    /// Bytes of its image's files; 0 unless it is an image of the store.
    pub image: u64,
}

/// Counts a container's files. The process must be in the right namespace: [`crate::enter_ids`].
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

/// Bytes of all files below a directory, each once however many names it has; `None` where it cannot be read.
#[must_use]
pub(crate) fn tree_size(dir: &Path) -> Option<u64> {
    let mut bytes = 0;
    let mut linked = HashSet::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).ok()?.flatten() {
            // Of the entry itself: links lead nowhere here.
            let Ok(meta) = entry.metadata() else { continue };
            if meta.is_dir() {
                dirs.push(entry.path());
            } else if meta.is_file() && (meta.nlink() == 1 || linked.insert((meta.dev(), meta.ino()))) {
                bytes += meta.len();
            }
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::tree_size;

    #[test]
    fn every_file_once() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("sub")).unwrap();
        std::fs::write(dir.path().join("sub/a"), "12345").unwrap();
        std::fs::hard_link(dir.path().join("sub/a"), dir.path().join("b")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink(".", dir.path().join("round")).unwrap();
        assert_eq!(tree_size(dir.path()), Some(5));
        assert_eq!(tree_size(&dir.path().join("missing")), None);
    }
}
