//! Sizes of directories on disk.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Bytes of all files below a directory, each once however many names it has; `None` where it cannot be read.
#[must_use]
pub fn tree_size(dir: &Path) -> Option<u64> {
    let mut bytes = 0;
    let mut linked = HashSet::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        // absence: a figure for people
        for entry in std::fs::read_dir(&dir).ok()?.flatten() {
            // Of the entry itself: links lead nowhere here.
            // absence: a figure for people
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
