//! Elements of an archive or a tree.

use crate::path::{EntryPath, PathError, shown};

/// Prefix of a name that removes instead of adding (image-spec, `layer.md`, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
/// Name that hides all content of the directory in lower layers.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Prefix of names that AUFS reserved for itself; they are neither files nor whiteouts.
const AUFS: &[u8] = b".wh..wh.";

/// A file, directory or other object in a tree, with all of its metadata but not its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Path in the tree.
    pub path: EntryPath,
    /// Kind of the object, with what is specific to it.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky: at most `0o7777`.
    pub mode: u32,
    /// User id of the owner, in the tree's own terms.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Time of the last change of the content.
    pub mtime: Timestamp,
    /// Extended attributes, name and value, sorted by name; each name once.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The kind of an [`Entry`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// Bytes, holes included.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Text of the link, unchecked except that it is never empty and has no NUL.
        target: Vec<u8>,
    },
    /// Another name of an earlier entry.
    Hardlink {
        /// The earlier name, not resolved: it may be a symbolic link or lead through one.
        target: EntryPath,
    },
    /// A character device.
    Character {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A block device.
    Block {
        /// Major number.
        major: u32,
        /// Minor number.
        minor: u32,
    },
    /// A named pipe.
    Fifo,
}

/// A point in time, as in stat(2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    pub secs: i64,
    /// Nanoseconds after `secs`: less than 10⁹.
    pub nanos: u32,
}

/// A layer's change to the layers below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds or replaces an entry.
    Add(Entry),
    /// Removes the entry that lower layers have there, with everything below it.
    Whiteout(EntryPath),
    /// Hides all content of the directory in lower layers. Entries of this layer stay, whether they come before or
    /// after.
    Opaque(EntryPath),
}

impl Entry {
    /// Builds an entry owned by root, with the usual mode of its kind: 0755 for directories, 0777 for symbolic
    /// links, else 0644.
    #[must_use]
    pub fn new(path: EntryPath, kind: Kind) -> Self {
        let mode = match kind {
            Kind::Directory => 0o755,
            Kind::Symlink { .. } => 0o777,
            _ => 0o644,
        };
        Self {
            path,
            kind,
            mode,
            uid: 0,
            gid: 0,
            mtime: Timestamp::default(),
            xattrs: Vec::new(),
        }
    }
}

impl Change {
    /// Returns the path that the change applies to.
    #[must_use]
    pub fn path(&self) -> &EntryPath {
        match self {
            Self::Add(entry) => &entry.path,
            Self::Whiteout(path) | Self::Opaque(path) => path,
        }
    }

    /// Returns the name of this change in a tar layer: the path itself, or that of a `.wh.` file.
    #[must_use]
    pub fn name_in_layer(&self) -> Vec<u8> {
        match self {
            Self::Add(entry) => entry.path.as_bytes().to_vec(),
            Self::Whiteout(path) => {
                let (parent, name) = path.split_last().unwrap_or_default();
                beside(parent, &[WHITEOUT, name].concat())
            }
            Self::Opaque(path) => beside(path.as_bytes(), OPAQUE),
        }
    }
}

fn beside(directory: &[u8], name: &[u8]) -> Vec<u8> {
    if directory.is_empty() {
        name.to_vec()
    } else {
        [directory, b"/", name].concat()
    }
}

/// Meaning of a name in a layer.
pub(crate) enum Meaning {
    /// An ordinary entry.
    Add,
    /// A whiteout of this path.
    Whiteout(EntryPath),
    /// An opaque marker of this directory.
    Opaque(EntryPath),
    /// Bookkeeping of AUFS, ignored as docker does.
    Aufs,
}

impl Meaning {
    /// # Errors
    /// A whiteout without a name, or of `.` or `..`: docker would remove the directory itself, or its parent.
    pub(crate) fn of(path: &EntryPath) -> Result<Self, PathError> {
        let Some((parent, name)) = path.split_last() else {
            return Ok(Self::Add);
        };
        // Everything below AUFS's own directories belongs to AUFS.
        if name != OPAQUE && path.components().any(|part| part.starts_with(AUFS)) {
            return Ok(Self::Aufs);
        }
        let Some(hidden) = name.strip_prefix(WHITEOUT) else {
            return Ok(Self::Add);
        };
        let parent = EntryPath::parse(parent)?;
        if name == OPAQUE {
            return Ok(Self::Opaque(parent));
        }
        match parent.join(hidden) {
            Ok(path) => Ok(Self::Whiteout(path)),
            Err(_) => Err(PathError::Whiteout(shown(path.as_bytes()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meaning(path: &str) -> String {
        match Meaning::of(&EntryPath::parse(path.as_bytes()).unwrap()) {
            Ok(Meaning::Add) => "add".into(),
            Ok(Meaning::Whiteout(path)) => format!("whiteout {path}"),
            Ok(Meaning::Opaque(path)) => format!("opaque {path}"),
            Ok(Meaning::Aufs) => "aufs".into(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn names_in_layers() {
        for (name, means) in [
            ("a/b", "add"),
            (".", "add"),
            ("a.wh.b", "add"),
            (".wh", "add"),
            (".wh.a", "whiteout /a"),
            ("a/.wh.b", "whiteout /a/b"),
            ("a/.wh..b", "whiteout /a/.b"),
            ("a/.wh..wh..opq", "opaque /a"),
            (".wh..wh..opq", "opaque /"),
            (".wh..wh.plnk/1.2", "aufs"),
            (".wh..wh.aufs", "aufs"),
            ("a/.wh.", "whiteout \"a/.wh.\" names no file"),
            ("a/.wh..", "whiteout \"a/.wh..\" names no file"),
            ("a/.wh...", "whiteout \"a/.wh...\" names no file"),
        ] {
            assert_eq!(meaning(name), means, "{name}");
        }
    }

    #[test]
    fn written_as_read() {
        for name in ["a/.wh.b", ".wh.a", ".wh..wh..opq", "a/.wh..wh..opq"] {
            let change = match Meaning::of(&EntryPath::parse(name.as_bytes()).unwrap()) {
                Ok(Meaning::Whiteout(path)) => Change::Whiteout(path),
                Ok(Meaning::Opaque(path)) => Change::Opaque(path),
                _ => panic!("{name}"),
            };
            assert_eq!(change.name_in_layer(), name.as_bytes());
        }
    }
}
