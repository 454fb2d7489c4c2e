//! A single digest for a whole tree.

use super::walk::{WalkError, walk};
use crate::entry::{Entry, Kind};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{Error, ErrorKind, Read};
use std::os::fd::BorrowedFd;

/// Computes the SHA-256 of a tree: all entries as [`walk`] returns them, with all of their metadata and contents.
/// Two trees have the same digest if nothing that an archive holds tells them apart. It differs from the digest of
/// any archive, and must not be kept on disk, because the encoding may change.
///
/// # Errors
/// The tree cannot be read, or changes while it is read.
pub fn tree_digest(root: BorrowedFd<'_>) -> Result<[u8; 32], WalkError> {
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 128 << 10];
    for found in walk(root) {
        let (entry, content) = found?;
        add_entry(&mut digest, &entry);
        if let (Kind::File { size }, Some(file)) = (&entry.kind, content) {
            let added = add_content(&mut digest, file, *size, &mut buffer);
            added.map_err(|source| WalkError::Content {
                path: entry.path,
                source,
            })?;
        }
    }
    Ok(digest.finalize().into())
}

/// Adds an entry to the digest. Every field has a fixed length or its length before it, so that no two entries are
/// encoded alike.
fn add_entry(digest: &mut Sha256, entry: &Entry) {
    let (flag, numbers, text) = match &entry.kind {
        Kind::File { size } => (b'0', [*size, 0], &[][..]),
        Kind::Hardlink { target } => (b'1', [0, 0], target.as_bytes()),
        Kind::Symlink { target } => (b'2', [0, 0], &target[..]),
        Kind::Character { major, minor } => (b'3', [u64::from(*major), u64::from(*minor)], &[][..]),
        Kind::Block { major, minor } => (b'4', [u64::from(*major), u64::from(*minor)], &[][..]),
        Kind::Directory => (b'5', [0, 0], &[][..]),
        Kind::Fifo => (b'6', [0, 0], &[][..]),
    };
    digest.update([flag]);
    for number in numbers {
        digest.update(number.to_le_bytes());
    }
    for number in [entry.mode, entry.uid, entry.gid, entry.mtime.nanos] {
        digest.update(number.to_le_bytes());
    }
    digest.update(entry.mtime.secs.to_le_bytes());
    digest.update((entry.xattrs.len() as u64).to_le_bytes());
    let attributes = entry.xattrs.iter().flat_map(|(name, value)| [&name[..], value]);
    for bytes in [entry.path.as_bytes(), text].into_iter().chain(attributes) {
        digest.update((bytes.len() as u64).to_le_bytes());
        digest.update(bytes);
    }
}

fn add_content(digest: &mut Sha256, mut file: File, size: u64, buffer: &mut [u8]) -> Result<(), Error> {
    let mut left = size;
    loop {
        let count = file.read(buffer)?;
        match left.checked_sub(count as u64) {
            Some(0) if count == 0 => return Ok(()),
            Some(rest) if count > 0 => left = rest,
            _ => return Err(Error::new(ErrorKind::InvalidData, "its size changed meanwhile")),
        }
        digest.update(&buffer[..count]);
    }
}
