use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// Reason why a string cannot name a cgroup.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PathError {
    /// A container id has a character other than letters, digits and `_ . + -`, or begins with a mark.
    #[error(
        "name a cgroup after {0:?}: a container id is letters, digits and _.+-, and begins with a letter or digit"
    )]
    Id(String),
    /// The path is empty.
    #[error("name a cgroup: the path {0:?} is empty")]
    Empty(String),
    /// The path has a byte that the kernel refuses in a cgroup's name.
    #[error("name a cgroup: the path {0:?} has a line break or a NUL byte")]
    Byte(String),
    /// The path, or a name in it, is too long.
    #[error("name a cgroup: the path has {bytes} bytes, or a name of more than {NAME_MAX}")]
    TooLong {
        /// Length of the whole path.
        bytes: usize,
    },
    /// The text is not the `slice:prefix:name` of systemd's form.
    #[error("name a cgroup: {0:?} is not a valid slice")]
    Slice(String),
}

/// The kernel's limit for a name, in bytes.
const NAME_MAX: usize = 255;
/// Limit of a path in bytes; leaves room for a mount point and a control file's name below PATH_MAX.
const PATH_MAX: usize = 3072;
/// Prefix of tote's groups that have no other name; keeps them from being taken for a control file.
const PREFIX: &str = "tote-";

/// Group between a cgroup of systemd and a container's, on v2. systemd takes back controllers that it has not handed
/// out itself (at `daemon-reload`, and whenever a neighbouring unit comes or goes) unless a group below hands them
/// out in turn, and a group with processes cannot do that.
const HOLDER: &str = "tote";

/// Place of a container's cgroup, in every hierarchy; never leads out of its starting point.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CgroupPath {
    pub(crate) path: PathBuf,
    pub(crate) start: Start,
}

/// Starting point of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// Caller's own cgroup; on v2 the nearest ancestor that can have the controllers enabled.
    Near,
    /// Starting point of `cgroupsPath` without a leading slash: the caller's own cgroup, on v2 its parent.
    Own,
    /// Root of the hierarchy.
    Root,
}

impl CgroupPath {
    /// Returns `tote-<id>`, one level below the caller's own cgroup; on v2 two, below the group `tote`, if
    /// controllers have to be held.
    ///
    /// Elsewhere it is one level and not two: each costs a mkdir and an rmdir for each controller.
    ///
    /// # Errors
    /// The id is invalid: see [`PathError::Id`].
    pub fn from_id(id: &str) -> Result<Self, PathError> {
        if !id.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(PathError::Id(id.chars().take(NAME_MAX).collect()));
        }
        Self::from_name(&format!("{PREFIX}{id}"))
    }

    /// Returns the path below the group `tote`; a path that was not made by [`CgroupPath::from_id`] stays unchanged.
    #[must_use]
    pub fn held(&self) -> Self {
        let ours = self.start == Start::Near
            && self
                .path
                .as_os_str()
                .as_encoded_bytes()
                .starts_with(PREFIX.as_bytes());
        Self {
            path: if ours {
                Path::new(HOLDER).join(&self.path)
            } else {
                self.path.clone()
            },
            start: self.start,
        }
    }

    /// Returns a group of exactly that name in the place that [`CgroupPath::from_id`] would choose: OCI runtimes name
    /// their groups after the id alone, and callers look for them. The group may exist already.
    ///
    /// # Errors
    /// The name is empty, or has a character other than letters, digits and `_ . + -`.
    pub fn from_name(name: &str) -> Result<Self, PathError> {
        let fits = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'+' | b'-');
        if !name.bytes().all(fits) || matches!(name, "" | "." | "..") {
            return Err(PathError::Id(name.chars().take(NAME_MAX).collect()));
        }
        if name.len() > NAME_MAX {
            return Err(PathError::TooLong { bytes: name.len() });
        }
        Ok(Self {
            path: PathBuf::from(name),
            start: Start::Near,
        })
    }

    /// Parses the specification's `linux.cgroupsPath` as runc's cgroupfs driver does: an absolute path starts at the
    /// root of the hierarchy, any other at the caller's own cgroup. `slice:prefix:name`, which is meant for systemd,
    /// becomes the plain path where systemd would have put the scope. `..` is resolved and stops at the start.
    ///
    /// # Errors
    /// The path is empty or too long, or has a byte that is invalid in a cgroup's name.
    pub fn from_oci(text: &str) -> Result<Self, PathError> {
        if text.bytes().any(|b| b == b'\n' || b == 0) {
            return Err(PathError::Byte(text.chars().take(NAME_MAX).collect()));
        }
        if !text.contains('/') && text.bytes().filter(|&b| b == b':').count() == 2 {
            return Self::from_systemd(text);
        }
        let start = if text.starts_with('/') {
            Start::Root
        } else {
            Start::Own
        };
        Ok(Self {
            path: clean(text)?,
            start,
        })
    }

    fn from_systemd(text: &str) -> Result<Self, PathError> {
        let mut parts = text.splitn(3, ':');
        let (slice, prefix, name) = (parts.next(), parts.next(), parts.next());
        let slice = slice.filter(|s| !s.is_empty()).unwrap_or("system.slice");
        let (prefix, name) = (prefix.unwrap_or_default(), name.unwrap_or_default());
        let unit = match (prefix, name) {
            (_, "") => return Err(PathError::Empty(text.into())),
            (_, name) if name.ends_with(".slice") => name.to_owned(),
            ("", name) => format!("{name}.scope"),
            (prefix, name) => format!("{prefix}-{name}.scope"),
        };
        let path = format!("{}{unit}", expand_slice(slice)?);
        Ok(Self {
            path: clean(&path)?,
            start: Start::Root,
        })
    }

    /// Returns the path without its starting point.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.path
    }

    /// True if the user named the path, so that failing to create it is worth an error of its own.
    #[must_use]
    pub fn is_explicit(&self) -> bool {
        self.start != Start::Near
    }
}

/// Returns `a.slice/a-b.slice/` for `a-b.slice`, which lies in `a.slice`; `-.slice` is the root.
fn expand_slice(slice: &str) -> Result<String, PathError> {
    let bad = || PathError::Slice(slice.to_owned());
    if slice == "-.slice" {
        return Ok(String::new());
    }
    let stem = slice.strip_suffix(".slice").ok_or_else(bad)?;
    if stem.is_empty() || stem.len() > NAME_MAX || stem.split('-').any(str::is_empty) {
        return Err(bad());
    }
    let mut path = String::new();
    for (end, _) in stem.match_indices('-').chain([(stem.len(), "")]) {
        path.push_str(&stem[..end]);
        path.push_str(".slice/");
    }
    Ok(path)
}

/// Resolves `.` and `..` without looking at the file system; the result is relative and has plain names only.
fn clean(text: &str) -> Result<PathBuf, PathError> {
    let mut path = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::Normal(name) if name.len() > NAME_MAX => {
                return Err(PathError::TooLong { bytes: text.len() });
            }
            Component::Normal(name) => path.push(name),
            Component::ParentDir => _ = path.pop(),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    if path.as_os_str().is_empty() {
        return Err(PathError::Empty(text.chars().take(NAME_MAX).collect()));
    }
    if path.as_os_str().len() > PATH_MAX {
        return Err(PathError::TooLong { bytes: text.len() });
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cgroups_path_as_runc_reads_it() {
        let cases = [
            ("/a/b", "a/b", Start::Root),
            ("a/b", "a/b", Start::Own),
            ("/a/../../b", "b", Start::Root),
            ("../../a/./b//", "a/b", Start::Own),
            (
                "user-1000-x.slice:tote:web",
                "user.slice/user-1000.slice/user-1000-x.slice/tote-web.scope",
                Start::Root,
            ),
            (":tote:web", "system.slice/tote-web.scope", Start::Root),
            ("-.slice::web", "web.scope", Start::Root),
            ("/a:b:c", "a:b:c", Start::Root),
        ];
        for (text, path, start) in cases {
            let found = CgroupPath::from_oci(text).unwrap();
            assert_eq!((found.as_path(), found.start), (Path::new(path), start), "{text}");
        }
        for text in [
            "",
            "/",
            "..",
            "a/../..",
            "a\nb",
            "x:y:",
            "a--b.slice:p:n",
            "nope:p:n",
        ] {
            assert!(CgroupPath::from_oci(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn ids_that_are_none() {
        for id in ["", ".", "..", "a/b", "-a", "a b", "a\n", &"x".repeat(251), "é"] {
            assert!(CgroupPath::from_id(id).is_err(), "{id:?}");
        }
        assert_eq!(
            CgroupPath::from_id("web_1.x").unwrap().as_path(),
            Path::new("tote-web_1.x")
        );
        for name in ["", ".", "..", "a/b", "a b", "a\n", &"x".repeat(256)] {
            assert!(CgroupPath::from_name(name).is_err(), "{name:?}");
        }
        for name in ["web", "-x", "...", &"x".repeat(255)] {
            let path = CgroupPath::from_name(name).unwrap();
            assert_eq!((path.as_path(), path.start), (Path::new(name), Start::Near));
        }
    }

    fn plain(path: &Path) -> bool {
        path.components()
            .all(|c| matches!(c, Component::Normal(n) if n.len() <= NAME_MAX))
            && !path.as_os_str().is_empty()
            && path.as_os_str().len() <= PATH_MAX
    }

    proptest! {
        #[test]
        fn a_path_never_leads_out(text in ".{0,300}|([./a:-]{0,40})|([a.]{1,3}/){0,50}") {
            if let Ok(found) = CgroupPath::from_oci(&text) {
                prop_assert!(plain(found.as_path()));
            }
            if let Ok(found) = CgroupPath::from_id(&text) {
                prop_assert!(plain(found.as_path()));
                prop_assert_eq!(found.as_path().components().count(), 1);
            }
            if let Ok(found) = CgroupPath::from_name(&text) {
                prop_assert!(plain(found.as_path()));
            }
        }
    }
}
