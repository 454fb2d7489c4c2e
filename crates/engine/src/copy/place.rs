//! Parser of the two arguments of `cp`.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// Source or destination of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// Path in a container: `CONTAINER:PATH`.
    Container {
        /// Name of the container, as given.
        name: String,
        /// Path in the container, as given.
        path: Vec<u8>,
    },
    /// Path of this machine, as given.
    Local(Vec<u8>),
    /// Archive on a standard stream: `-`.
    Stream,
}

impl Place {
    /// Parses an argument by docker's rule: a word that begins with a slash or a dot is a path,
    /// even with colons in it.
    pub(super) fn parse(word: &OsStr) -> Self {
        let word = word.as_bytes();
        let local = || Self::Local(word.to_vec());
        match word {
            b"-" => Self::Stream,
            [b'/' | b'.' | b':', ..] => local(),
            _ => match word.iter().position(|byte| *byte == b':') {
                Some(colon) => Self::Container {
                    name: String::from_utf8_lossy(&word[..colon]).into_owned(),
                    path: word[colon + 1..].to_vec(),
                },
                None => local(),
            },
        }
    }
}

/// Requested path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Absolute path without `.`, `..` and doubled or trailing slashes.
    pub(super) path: Vec<u8>,
    /// True if the path must be a directory: it ends with a slash, or as below.
    pub(super) directory: bool,
    /// True for the entries of the directory instead of the directory itself: the path ends with `/.`.
    pub(super) contents: bool,
}

impl Wanted {
    /// Resolves a path from that directory, or an absolute one. As with docker, `..` is resolved in the text, without
    /// a look at links.
    pub(super) fn new(base: &[u8], path: &[u8]) -> Self {
        let mut parts: Vec<&[u8]> = Vec::new();
        let base = if path.starts_with(b"/") { &b""[..] } else { base };
        for part in base
            .split(|byte| *byte == b'/')
            .chain(path.split(|byte| *byte == b'/'))
        {
            match part {
                b"" | b"." => {}
                b".." => drop(parts.pop()),
                part => parts.push(part),
            }
        }
        let contents = path == b"." || path.ends_with(b"/.");
        Self {
            path: [b"/", parts.join(&b'/').as_slice()].concat(),
            directory: contents || path.ends_with(b"/"),
            contents,
        }
    }

    /// Returns the last name of the path; `None` for the root.
    pub(super) fn name(&self) -> Option<&[u8]> {
        let name = self.path.rsplit(|byte| *byte == b'/').next();
        name.filter(|name| !name.is_empty())
    }
}

/// Entry at the destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum There {
    Directory,
    /// File, or another entry that is not a directory.
    File,
    Nothing,
}

/// Way in which the source is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// Copy into the directory, under the source's own name.
    Inside,
    /// Copy of the source's entries into the directory.
    Contents,
    /// Copy under the requested name.
    As,
}

/// Reason why the source cannot be placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Misplaced {
    /// Directory in the place of a file.
    DirectoryOnFile,
    /// File to a missing directory.
    NoDirectory,
    /// File to a directory that is a file.
    NotDirectory,
}

/// Decides by docker's table. `directory` is true if a directory is copied, `contents` if only its entries are;
/// `wanted` is the destination, and with `overwrite` a directory may replace a file.
pub(super) fn rule(
    (directory, contents): (bool, bool),
    wanted: &Wanted,
    there: There,
    overwrite: bool,
) -> Result<Put, Misplaced> {
    match (there, directory) {
        (There::Directory, true) if contents => Ok(Put::Contents),
        (There::Directory, _) => Ok(Put::Inside),
        (There::File, _) if wanted.directory => Err(Misplaced::NotDirectory),
        (There::File, true) if !overwrite => Err(Misplaced::DirectoryOnFile),
        (There::Nothing, false) if wanted.directory => Err(Misplaced::NoDirectory),
        (There::File | There::Nothing, _) => Ok(Put::As),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words() {
        let container = |name: &str, path: &str| Place::Container {
            name: name.to_owned(),
            path: path.as_bytes().to_vec(),
        };
        let local = |path: &str| Place::Local(path.as_bytes().to_vec());
        for (word, place) in [
            ("-", Place::Stream),
            ("web:/etc", container("web", "/etc")),
            ("web:etc", container("web", "etc")),
            ("web:", container("web", "")),
            ("web:/a:b", container("web", "/a:b")),
            ("file", local("file")),
            ("./a:b", local("./a:b")),
            ("../a:b", local("../a:b")),
            (".a:b", local(".a:b")),
            ("/a:b", local("/a:b")),
            (":a", local(":a")),
            ("--", local("--")),
            ("", local("")),
        ] {
            assert_eq!(Place::parse(OsStr::new(word)), place, "{word}");
        }
    }

    #[test]
    fn paths() {
        for (base, path, clean, directory, contents) in [
            ("", "/etc/passwd", "/etc/passwd", false, false),
            ("", "etc/passwd", "/etc/passwd", false, false),
            ("", "/", "/", true, false),
            ("", "", "/", false, false),
            ("", ".", "/", true, true),
            ("", "/.", "/", true, true),
            ("", "/a//b/./c/../d/", "/a/b/d", true, false),
            ("", "/a/.", "/a", true, true),
            ("", "/../../a", "/a", false, false),
            ("/here", "a:b", "/here/a:b", false, false),
            ("/here", ".", "/here", true, true),
            ("/here", "..", "/", false, false),
            ("/here", "../x/", "/x", true, false),
            ("/here", "/x", "/x", false, false),
        ] {
            let wanted = Wanted::new(base.as_bytes(), path.as_bytes());
            let expected = Wanted {
                path: clean.as_bytes().to_vec(),
                directory,
                contents,
            };
            assert_eq!(wanted, expected, "{base:?} {path:?}");
        }
        assert_eq!(Wanted::new(b"", b"/a/b/").name(), Some(&b"b"[..]));
        assert_eq!(Wanted::new(b"", b"/").name(), None);
    }

    #[test]
    fn dockers_table() {
        use There::{Directory, File, Nothing};
        const FILE: (bool, bool) = (false, false);
        const DIR: (bool, bool) = (true, false);
        const CONTENTS: (bool, bool) = (true, true);
        for (what, to, there, put) in [
            // Rows for a file: to a missing path, to one that must be a directory, to a file, to a directory.
            (FILE, "/x", Nothing, Ok(Put::As)),
            (FILE, "/x/", Nothing, Err(Misplaced::NoDirectory)),
            (FILE, "/x/.", Nothing, Err(Misplaced::NoDirectory)),
            (FILE, "/x", File, Ok(Put::As)),
            (FILE, "/x/", File, Err(Misplaced::NotDirectory)),
            (FILE, "/x", Directory, Ok(Put::Inside)),
            (FILE, "/x/.", Directory, Ok(Put::Inside)),
            // Rows for a directory.
            (DIR, "/x", Nothing, Ok(Put::As)),
            (DIR, "/x/", Nothing, Ok(Put::As)),
            (DIR, "/x", File, Err(Misplaced::DirectoryOnFile)),
            (DIR, "/x", Directory, Ok(Put::Inside)),
            // Rows for the entries of a directory.
            (CONTENTS, "/x", Nothing, Ok(Put::As)),
            (CONTENTS, "/x", File, Err(Misplaced::DirectoryOnFile)),
            (CONTENTS, "/x", Directory, Ok(Put::Contents)),
        ] {
            let wanted = Wanted::new(b"", to.as_bytes());
            assert_eq!(rule(what, &wanted, there, false), put, "{what:?} {to} {there:?}");
        }
        let wanted = Wanted::new(b"", b"/x");
        assert_eq!(rule(DIR, &wanted, File, true), Ok(Put::As));
    }
}
