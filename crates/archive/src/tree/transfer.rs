//! Copying a tree into another, without an archive in between.

use super::content::Original;
use super::error::ExtractError;
use super::extract::{Extracted, Extraction};
use super::options::ExtractOptions;
use super::walk::WalkError;
use crate::entry::Entry;
use std::fs::File;
use std::os::fd::BorrowedFd;

/// Why a tree cannot be transferred. Entries made before the error stay.
#[derive(Debug, thiserror::Error)]
pub enum TransferError {
    /// The tree cannot be read.
    #[error(transparent)]
    Walk(#[from] WalkError),
    /// An entry cannot be created in the new place.
    #[error(transparent)]
    Make(#[from] ExtractError),
}

/// Creates entries in the directory `root`, with the contents of the files that come with them, by the rules of
/// [`extract`](crate::extract). `told` is called with the number of bytes copied since its last call.
///
/// # Errors
/// See [`TransferError`].
pub fn transfer(
    entries: impl Iterator<Item = Result<(Entry, Option<File>), WalkError>>,
    root: BorrowedFd<'_>,
    options: &ExtractOptions,
    told: &mut dyn FnMut(u64),
) -> Result<Extracted, TransferError> {
    let root = super::dirs::open_in_root(root, b"").map_err(ExtractError::Root)?;
    let mut extraction = Extraction::new(&root, options);
    let (mut by_kernel, mut buffer) = (true, Vec::new());
    for found in entries {
        let (entry, file) = found?;
        extraction.count();
        let mut original = Original {
            file,
            told,
            by_kernel: &mut by_kernel,
            buffer: &mut buffer,
        };
        extraction.add(&entry, &mut original)?;
    }
    Ok(extraction.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Owner, tree_digest, walk};
    use std::fs;
    use std::os::fd::AsFd as _;
    use std::os::unix::fs::{FileExt as _, MetadataExt as _, symlink};

    #[test]
    fn the_same_tree_with_its_holes_and_links() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("sub/deep")).unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(from.join("file"), "content").unwrap();
        fs::write(from.join("empty"), "").unwrap();
        fs::hard_link(from.join("file"), from.join("sub/again")).unwrap();
        symlink("/etc/passwd", from.join("link")).unwrap();
        let sparse = File::create_new(from.join("sub/deep/sparse")).unwrap();
        sparse.set_len(64 << 20).unwrap();
        sparse.write_all_at(b"in the middle", 32 << 20).unwrap();
        let (from, to) = (File::open(&from).unwrap(), File::open(&to).unwrap());
        let options = ExtractOptions {
            owner: Owner::Process,
            ..ExtractOptions::default()
        };
        let mut told = 0;
        let done = transfer(walk(from.as_fd()), to.as_fd(), &options, &mut |bytes| {
            told += bytes
        })
        .unwrap();
        assert_eq!(
            tree_digest(from.as_fd()).unwrap(),
            tree_digest(to.as_fd()).unwrap()
        );
        assert_eq!(done.bytes, told);
        let copy = dir.path().join("to");
        let sparse = fs::metadata(copy.join("sub/deep/sparse")).unwrap();
        assert!(sparse.blocks() < 2048, "{} blocks", sparse.blocks());
        let inode = |name: &str| fs::metadata(copy.join(name)).unwrap().ino();
        assert_eq!(inode("file"), inode("sub/again"));
    }

    #[test]
    fn a_directory_is_not_copied_into_itself() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("sub/deep")).unwrap();
        let (from, to) = (
            File::open(dir.path()).unwrap(),
            File::open(dir.path().join("sub/deep")).unwrap(),
        );
        let entries = walk(from.as_fd()).outside_of(to.as_fd()).unwrap();
        let options = ExtractOptions::default();
        let error = transfer(entries, to.as_fd(), &options, &mut |_| {}).unwrap_err();
        assert_eq!(error.to_string(), "cannot copy /sub/deep into itself");
    }
}
