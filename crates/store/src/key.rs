//! Names of objects: hashes of a file's content and of everything else that its inode holds.

use rustix::fd::OwnedFd;
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use tote_archive::{Entry, Kind, Timestamp};
use tote_sys::best_effort;

/// Hash of a file's content: BLAKE3. Of files of 8 KiB and more a processor computes it in a third of the time of SHA-256 or less,
/// because it takes several parts of the file at once.
pub type ContentHash = [u8; 32];

/// A content that is being hashed.
#[derive(Clone, Debug, Default)]
pub(crate) struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(&self) -> ContentHash {
        self.0.finalize().into()
    }
}

/// Hashes the content of a file, whatever its offset.
///
/// # Errors
/// Those of read(2).
pub(crate) fn content_hash(file: &OwnedFd) -> std::io::Result<ContentHash> {
    let mut hash = ContentHasher::default();
    for_each_piece(file, |piece| hash.update(piece))?;
    Ok(hash.finish())
}

/// Computes the SHA-256 of a file, whatever its offset.
///
/// # Errors
/// Those of read(2).
pub(crate) fn file_sha256(file: &OwnedFd) -> std::io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    for_each_piece(file, |piece| hash.update(piece))?;
    Ok(hash.finalize().into())
}

/// Computes the hashes by which a store may name the content of a file: the present one, and that of older stores.
///
/// # Errors
/// Those of read(2).
pub fn content_hashes(file: &OwnedFd) -> std::io::Result<[ContentHash; 2]> {
    let (mut hash, mut older) = (ContentHasher::default(), Sha256::new());
    for_each_piece(file, |piece| {
        hash.update(piece);
        older.update(piece);
    })?;
    Ok([hash.finish(), older.finalize().into()])
}

/// True if a file's content has this hash. Until the end of November 2026 objects had the SHA-256 of their content in their names,
/// and a store still has those of its images of that time.
///
/// # Errors
/// Those of read(2).
pub(crate) fn has_hash(file: &OwnedFd, hash: &ContentHash) -> std::io::Result<bool> {
    Ok(content_hash(file)? == *hash || file_sha256(file)? == *hash)
}

fn for_each_piece(file: &OwnedFd, mut each: impl FnMut(&[u8])) -> std::io::Result<()> {
    let mut buffer = vec![0; 256 << 10];
    let mut offset = 0;
    loop {
        match rustix::io::pread(file, &mut buffer, offset) {
            Ok(0) => return Ok(()),
            Ok(read) => {
                each(&buffer[..read]);
                offset += read as u64;
            }
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Ownership of the files on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owners {
    /// The owners of the image: for root, and for a process in a user namespace with a range of ids.
    Image,
    /// The caller, with a single id. Owners, device nodes and privileged attributes stay recorded in the layers.
    Caller,
}

/// Half a hash of [`Attributes`].
pub(crate) type AttributesHash = [u8; 16];

/// Metadata in an inode, its content aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Permissions with setuid, setgid and sticky.
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: Timestamp,
    /// Extended attributes, sorted by name.
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Attributes {
    /// Converts an entry of a layer to the attributes that it has on disk.
    pub(crate) fn of(entry: &Entry, owners: Owners) -> Self {
        let (uid, gid, readable) = match owners {
            Owners::Image => (entry.uid, entry.gid, 0),
            // Without privilege the store itself must be able to read files and to walk through directories.
            Owners::Caller if matches!(entry.kind, Kind::Directory) => (0, 0, 0o700),
            Owners::Caller => (0, 0, 0o400),
        };
        let xattrs = entry
            .xattrs
            .iter()
            .filter(|(name, _)| is_kept(name, owners))
            .cloned()
            .collect();
        Self {
            mode: entry.mode & 0o7777 | readable,
            uid,
            gid,
            mtime: entry.mtime,
            xattrs,
        }
    }

    pub(crate) fn hash(&self) -> AttributesHash {
        let mut hash = Sha256::new();
        hash.update(self.mode.to_le_bytes());
        hash.update(self.uid.to_le_bytes());
        hash.update(self.gid.to_le_bytes());
        hash.update(self.mtime.secs.to_le_bytes());
        hash.update(self.mtime.nanos.to_le_bytes());
        for (name, value) in &self.xattrs {
            for part in [name, value] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        }
        let mut short = [0; 16];
        short.copy_from_slice(&hash.finalize()[..16]);
        short
    }
}

/// Hashes of attributes in an archive's order: most files have those of the file before.
#[derive(Debug, Default)]
pub(crate) struct AttributesHasher(Option<(Attributes, AttributesHash)>);

impl AttributesHasher {
    pub(crate) fn hash(&mut self, attributes: &Attributes) -> AttributesHash {
        let known = self.0.take().filter(|(known, _)| known == attributes);
        let known = known.unwrap_or_else(|| (attributes.clone(), attributes.hash()));
        self.0.insert(known).1
    }
}

/// True if an extended attribute is written to disk. Overlayfs's own must not be: an image could otherwise make the
/// kernel show files of other layers under its names.
pub(crate) fn is_kept(name: &[u8], owners: Owners) -> bool {
    if name.starts_with(b"user.") {
        return !name.starts_with(b"user.overlay.");
    }
    let privileged: [&[u8]; 3] = [
        b"security.capability",
        b"system.posix_acl_access",
        b"system.posix_acl_default",
    ];
    owners == Owners::Image && privileged.contains(&name)
}

/// Name of an object: the hash of its content, and half a hash of its [`Attributes`].
///
/// A hard link shares its inode's owner, mode and times, so two files may be one object only if all of these are
/// equal too. Half a hash suffices for them: an attacker who makes two collide only chooses between attributes that
/// the file could have had in the first place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) content: ContentHash,
    pub(crate) attributes: AttributesHash,
}

/// Hashes a part of both hashes: an attacker cannot choose files of which many have these parts in common.
impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.content[..8]);
        state.write(&self.attributes[..8]);
    }
}

impl Key {
    /// A key that no content has, as far as anyone knows: for files by which the kernel is asked what it can do.
    pub(crate) const ZERO: Self = Self {
        content: [0; 32],
        attributes: [0; 16],
    };

    #[cfg(test)]
    pub(crate) fn new(content: ContentHash, attributes: &Attributes) -> Self {
        Self {
            content,
            attributes: attributes.hash(),
        }
    }

    /// Formats the name as `ab/<62 digits>-<32 digits>`; further copies have their number at the end.
    pub(crate) fn name(&self, copy: u32) -> String {
        let mut name = String::with_capacity(100);
        self.push_name(&mut name);
        if copy > 0 {
            // Writing to a String cannot fail.
            best_effort(write!(name, ".{copy}"));
        }
        name
    }

    /// Appends the name of the first copy.
    pub(crate) fn push_name(&self, text: &mut String) {
        let [shard, rest @ ..] = &self.content;
        push_hex(text, &[*shard]);
        text.push('/');
        push_hex(text, rest);
        text.push('-');
        push_hex(text, &self.attributes);
    }

    /// Parses a name that [`Self::name`] has made for the first copy.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let (shard, rest) = name.split_once('/')?;
        Self::parse(shard, rest).and_then(|(key, copy)| (copy == 0).then_some(key))
    }

    /// Parses a name in the directory `shard` into the key and the copy's number.
    pub(crate) fn parse(shard: &str, name: &str) -> Option<(Self, u32)> {
        let (digits, copy) = match name.split_once('.') {
            Some((digits, copy)) => (digits, copy.parse().ok()?),
            None => (name, 0),
        };
        let (content, attributes) = digits.split_once('-')?;
        let mut key = Self {
            content: [0; 32],
            attributes: [0; 16],
        };
        parse_hex(shard, &mut key.content[..1])?;
        parse_hex(content, &mut key.content[1..])?;
        parse_hex(attributes, &mut key.attributes)?;
        Some((key, copy))
    }
}

fn push_hex<const N: usize>(text: &mut String, bytes: &[u8; N]) {
    // By arithmetic the compiler makes many digits at once, which it cannot look up in a table.
    let digit = |half: u8| half + if half < 10 { b'0' } else { b'a' - 10 };
    let digits = bytes.map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    // Digits are ASCII.
    text.push_str(str::from_utf8(digits.as_flattened()).unwrap_or_default());
}

pub(crate) fn parse_hex(text: &str, bytes: &mut [u8]) -> Option<()> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if pairs.len() != bytes.len() || !rest.is_empty() {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(pairs) {
        let [high, low] = pair.map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let key = Key::new([0xab; 32], &Attributes::default());
        for copy in [0, 1, 65000] {
            let name = key.name(copy);
            let (shard, rest) = name.split_once('/').unwrap();
            assert_eq!(Key::parse(shard, rest), Some((key, copy)));
        }
        assert!(key.name(0).starts_with("ab/abab"));
        for bad in ["", "x", "-", "ab", ".new-1-2"] {
            assert_eq!(Key::parse("ab", bad), None, "{bad}");
        }
    }

    /// A store that names its objects otherwise is another one. The digest is the first of BLAKE3's own test vectors.
    #[test]
    fn the_hash_of_an_empty_content() {
        let hash = ContentHasher::default().finish();
        let name = Key {
            content: hash,
            ..Key::ZERO
        };
        let digits = "1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        let expected = format!("af/{digits}-{}", "0".repeat(32));
        assert_eq!(name.name(0), expected);
    }

    #[test]
    fn every_attribute_counts() {
        let plain = Attributes {
            mode: 0o644,
            ..Attributes::default()
        };
        let mut others = vec![plain.clone(); 6];
        others[0].mode = 0o755;
        others[1].uid = 1;
        others[2].gid = 1;
        others[3].mtime.secs = 1;
        others[4].mtime.nanos = 1;
        others[5].xattrs = vec![(b"user.a".to_vec(), b"b".to_vec())];
        for other in others {
            assert_ne!(Key::new([1; 32], &plain), Key::new([1; 32], &other), "{other:?}");
        }
    }

    #[test]
    fn attributes_of_files_in_their_order() {
        let plain = Attributes::default();
        let other = Attributes {
            mode: 0o644,
            ..plain.clone()
        };
        let mut hasher = AttributesHasher::default();
        for attributes in [&plain, &plain, &other, &other, &plain] {
            assert_eq!(hasher.hash(attributes), attributes.hash());
        }
    }

    #[test]
    fn attributes_that_reach_the_disk() {
        for (name, image, caller) in [
            ("user.comment", true, true),
            ("user.overlay.redirect", false, false),
            ("trusted.overlay.opaque", false, false),
            ("security.capability", true, false),
            ("security.selinux", false, false),
            ("system.posix_acl_access", true, false),
        ] {
            assert_eq!(is_kept(name.as_bytes(), Owners::Image), image, "{name}");
            assert_eq!(is_kept(name.as_bytes(), Owners::Caller), caller, "{name}");
        }
    }
}
