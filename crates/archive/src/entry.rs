//! What an archive or a tree consists of.

use crate::path::{EntryPath, PathError, shown};

/// What a name begins with that removes instead of adding (image-spec, `layer.md`, "Whiteouts").
const WHITEOUT: &[u8] = b".wh.";
/// The name that hides everything a directory had in lower layers.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// What names begin with that AUFS kept for itself; they are neither files nor whiteouts.
const AUFS: &[u8] = b".wh..wh.";

/// Something in a tree, with all of its metadata but not its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Where it is.
    pub path: EntryPath,
    /// What it is.
    pub kind: Kind,
    /// Permission bits with setuid, setgid and sticky: at most `0o7777`.
    pub mode: u32,
    /// The owner's number, in the tree's own terms.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// When the content changed last.
    pub mtime: Timestamp,
    /// Extended attributes, name and value, sorted by name; each name once.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// What an [`Entry`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File {
        /// Bytes, holes included.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link; the target is text that nobody checked.
    Symlink {
        /// What the link says. Never empty, without NUL.
        target: Vec<u8>,
    },
    /// Another name of something that came earlier.
    Hardlink {
        /// The earlier name, not resolved: it may be or lead through a symbolic link.
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

/// What a layer does to the layers below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Adds or replaces an entry.
    Add(Entry),
    /// Removes what lower layers have there, with all that is below.
    Whiteout(EntryPath),
    /// Hides everything that lower layers have in the directory. What this layer puts there stays, whichever came first.
    Opaque(EntryPath),
}

impl Entry {
    /// An entry of that kind owned by root, with the mode most have: 0755 for directories, 0777 for links, else 0644.
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
    /// The path that is changed.
    #[must_use]
    pub fn path(&self) -> &EntryPath {
        match self {
            Self::Add(entry) => &entry.path,
            Self::Whiteout(path) | Self::Opaque(path) => path,
        }
    }

    /// The name under which a tar layer says this: the path itself, or that of a `.wh.` file.
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

/// What a name in a layer means.
pub(crate) enum Meaning {
    /// An ordinary entry.
    Add,
    /// A whiteout of that path.
    Whiteout(EntryPath),
    /// That directory is opaque.
    Opaque(EntryPath),
    /// Bookkeeping of AUFS, to be ignored as docker does.
    Aufs,
}

impl Meaning {
    /// # Errors
    /// A whiteout of nothing, of `.` or of `..`: docker would remove the directory itself, or its parent.
    pub(crate) fn of(path: &EntryPath) -> Result<Self, PathError> {
        let Some((parent, name)) = path.split_last() else {
            return Ok(Self::Add);
        };
        // Below AUFS's own directories everything is its own.
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
