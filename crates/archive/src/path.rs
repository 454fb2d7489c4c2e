//! Paths of entries: relative, normalised, and safe to join to a directory.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

/// Path of an entry, below the root of its tree.
///
/// The path is always relative and normalised: components are joined by one `/`, each is a name other than `.` and
/// `..`, and none contains a NUL. The root itself has no components. Components may turn out to be symbolic links:
/// a caller that opens the path must not follow them out of the tree.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct EntryPath(Box<[u8]>);

/// Why bytes are not a valid path of an entry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// A component `..`: it may leave the tree, and archivers do not write it by accident.
    #[error("path {0:?} contains `..`")]
    Parent(String),
    /// A NUL byte, which no file system has in a name.
    #[error("path {0:?} contains a NUL byte")]
    Nul(String),
    /// A whiteout without a valid name after its prefix.
    #[error("whiteout {0:?} names no file")]
    Whiteout(String),
}

impl EntryPath {
    /// Returns the root of the tree.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// Normalises a path as docker does: absolute paths are taken as below the root, `./` and doubled or trailing
    /// slashes are dropped.
    ///
    /// # Errors
    /// `..` and NUL bytes are refused rather than resolved.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        if bytes.contains(&0) {
            return Err(PathError::Nul(shown(bytes)));
        }
        let mut normal = Vec::with_capacity(bytes.len());
        for component in bytes.split(|byte| *byte == b'/') {
            match component {
                b"" | b"." => {}
                b".." => return Err(PathError::Parent(shown(bytes))),
                name => {
                    if !normal.is_empty() {
                        normal.push(b'/');
                    }
                    normal.extend_from_slice(name);
                }
            }
        }
        Ok(Self(normal.into()))
    }

    /// Appends a component.
    ///
    /// # Errors
    /// The name is empty, `.` or `..`, or contains a slash or NUL: a directory cannot have such a name.
    pub fn join(&self, name: &[u8]) -> Result<Self, PathError> {
        let mut bytes = Vec::with_capacity(self.0.len() + 1 + name.len());
        bytes.extend_from_slice(&self.0);
        if !bytes.is_empty() {
            bytes.push(b'/');
        }
        bytes.extend_from_slice(name);
        match name {
            b"" | b"." | b".." => Err(PathError::Parent(shown(&bytes))),
            _ if name.contains(&b'/') => Err(PathError::Parent(shown(&bytes))),
            _ if name.contains(&0) => Err(PathError::Nul(shown(&bytes))),
            _ => Ok(Self(bytes.into())),
        }
    }

    /// Returns the components joined by `/`; empty for the root.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the path as the operating system's string.
    #[must_use]
    pub fn as_os_str(&self) -> &OsStr {
        OsStr::from_bytes(&self.0)
    }

    /// True for the root of the tree.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the components, outermost first.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        let parts = self.0.split(|byte| *byte == b'/');
        parts.filter(|part| !part.is_empty())
    }

    /// Splits the path into the directory that holds the entry and its name there; `None` for the root. Both are
    /// parts of [`Self::as_bytes`].
    #[must_use]
    pub fn split_last(&self) -> Option<(&[u8], &[u8])> {
        if self.is_root() {
            return None;
        }
        Some(match self.0.iter().rposition(|byte| *byte == b'/') {
            Some(slash) => (&self.0[..slash], &self.0[slash + 1..]),
            None => (&[], &self.0),
        })
    }

    /// Returns the last component; `None` for the root.
    #[must_use]
    pub fn file_name(&self) -> Option<&[u8]> {
        self.split_last().map(|(_, name)| name)
    }

    /// Returns the path of the directory that holds the entry; `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.split_last().map(|(parent, _)| Self(parent.into()))
    }

    /// True if the entry is `directory` itself or lies below it.
    #[must_use]
    pub fn starts_with(&self, directory: &Self) -> bool {
        match self.0.strip_prefix(&*directory.0) {
            Some(rest) => directory.is_root() || rest.is_empty() || rest[0] == b'/',
            None => false,
        }
    }
}

/// Sorts paths in the order of a walk: by components, so that the content of a directory follows it at once.
impl Ord for EntryPath {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.components().cmp(other.components())
    }
}

impl PartialOrd for EntryPath {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl AsRef<std::path::Path> for EntryPath {
    fn as_ref(&self) -> &std::path::Path {
        self.as_os_str().as_ref()
    }
}

/// Shows the path to people, with a leading slash; bytes that are not UTF-8 are replaced and control characters
/// escaped.
impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_below_root(&self.0))
    }
}

/// Converts the bytes of a path to what [`EntryPath`] shows to people.
pub(crate) fn shown_below_root(path: &[u8]) -> String {
    format!("/{}", String::from_utf8_lossy(path).escape_debug())
}

impl fmt::Debug for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", shown(&self.0))
    }
}

/// Converts bytes to a text for an error, and cuts it at a readable length.
pub(crate) fn shown(bytes: &[u8]) -> String {
    const ENOUGH: usize = 256;
    String::from_utf8_lossy(&bytes[..bytes.len().min(ENOUGH)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalised() {
        for (given, normal) in [
            ("", ""),
            (".", ""),
            ("./", ""),
            ("/", ""),
            ("a", "a"),
            ("./a/b", "a/b"),
            ("/a//b/", "a/b"),
            ("a/./b/.", "a/b"),
            ("..a/b..", "..a/b.."),
            ("...", "..."),
        ] {
            assert_eq!(
                EntryPath::parse(given.as_bytes()).unwrap().as_bytes(),
                normal.as_bytes()
            );
        }
        let bytes = EntryPath::parse(b"\xff/\x01").unwrap();
        assert_eq!(bytes.as_bytes(), b"\xff/\x01");
    }

    #[test]
    fn refused() {
        for bad in ["..", "../a", "a/..", "a/../b", "/..", "./.."] {
            assert_eq!(
                EntryPath::parse(bad.as_bytes()),
                Err(PathError::Parent(bad.into())),
                "{bad}"
            );
        }
        assert!(matches!(EntryPath::parse(b"a\0b"), Err(PathError::Nul(_))));
        for bad in ["", ".", "..", "a/b", "a\0"] {
            assert!(EntryPath::root().join(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn taken_apart() {
        let path = EntryPath::parse(b"a/bc/d").unwrap();
        assert_eq!(path.split_last(), Some((&b"a/bc"[..], &b"d"[..])));
        assert_eq!(path.components().collect::<Vec<_>>(), [&b"a"[..], b"bc", b"d"]);
        assert_eq!(
            path.parent().unwrap().parent().unwrap().parent(),
            Some(EntryPath::root())
        );
        assert_eq!(EntryPath::root().parent(), None);
        assert!(path.starts_with(&EntryPath::parse(b"a/bc").unwrap()));
        assert!(path.starts_with(&path) && path.starts_with(&EntryPath::root()));
        assert!(!path.starts_with(&EntryPath::parse(b"a/b").unwrap()));
    }

    #[test]
    fn sorted_as_a_walk() {
        let mut paths =
            ["a.b", "a/b", "a", "", "a/b/c", "a-"].map(|path| EntryPath::parse(path.as_bytes()).unwrap());
        paths.sort();
        let sorted: Vec<_> = paths.iter().map(EntryPath::as_bytes).collect();
        assert_eq!(sorted, [&b""[..], b"a", b"a/b", b"a/b/c", b"a-", b"a.b"]);
    }
}
