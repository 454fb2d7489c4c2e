//! Entries of a state root at one moment.

use anyhow::{Context, Result};
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Largest file whose content is read, in bytes.
const SMALL: u64 = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Directory,
    File,
    Link,
    Other,
}

/// File, directory or link in a state root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// Content of a small file or target of a link; empty for everything else.
    pub(crate) text: String,
    /// Hash of kind, mode, and the content of a small file or the size of a larger one.
    pub(crate) digest: u64,
}

/// Entries of a state root by relative path. The content of images and skeletons is left out: `tote store verify
/// --full` checks it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tree(BTreeMap<String, Entry>);

impl Tree {
    /// # Errors
    /// Fails if an entry cannot be read. An entry that disappears between listing and reading is skipped.
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.walk(root, "")?;
        Ok(tree)
    }

    #[cfg(test)]
    pub(crate) fn insert(&mut self, path: &str, entry: Entry) {
        self.0.insert(path.to_owned(), entry);
    }

    pub(crate) fn get(&self, path: &str) -> Option<&Entry> {
        self.0.get(path)
    }

    pub(crate) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// Returns the content of a small file or the target of a link; empty if the entry is missing or has neither.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.get(path).map_or("", |entry| &entry.text)
    }

    /// Lists all paths, each directory before its entries.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Lists the names in a directory; `""` is the state root.
    pub(crate) fn children<'a>(&'a self, dir: &str) -> impl Iterator<Item = &'a str> {
        let prefix = if dir.is_empty() {
            String::new()
        } else {
            format!("{dir}/")
        };
        let below = self.0.range(prefix.clone()..);
        let length = prefix.len();
        below
            .map(|(path, _)| path.as_str())
            .take_while(move |path| path.starts_with(&prefix))
            .filter_map(move |path| path.get(length..))
            .filter(|rest| !rest.is_empty() && !rest.contains('/'))
    }

    fn walk(&mut self, dir: &Path, relative: &str) -> Result<()> {
        let Some(entries) = present(fs::read_dir(dir)).with_context(|| format!("list {}", dir.display()))?
        else {
            return Ok(());
        };
        for entry in entries {
            let entry = entry.with_context(|| format!("list {}", dir.display()))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if relative.is_empty() {
                name
            } else {
                format!("{relative}/{name}")
            };
            let place = entry.path();
            let seen = present(look(&place)).with_context(|| format!("look at {}", place.display()))?;
            let Some(seen) = seen else { continue };
            let enters = seen.kind == Kind::Directory && !is_content(&path);
            self.0.insert(path.clone(), seen);
            if enters {
                self.walk(&place, &path)?;
            }
        }
        Ok(())
    }
}

/// True for directories whose content the model leaves out.
fn is_content(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    match parts[..] {
        ["store", "trees", _, part] => matches!(part, "root" | "inodes" | "contents") || has_owners(part),
        ["host", _, "root"] | ["containers", _, "work"] | ["build", "hashes"] | ["mounts", _] => true,
        _ => false,
    }
}

/// True for the part of a tree that has the owners for `keep-id`, whose ids are in its name.
fn has_owners(part: &str) -> bool {
    part.starts_with("inodes-") || part.starts_with("root-")
}

fn look(path: &Path) -> io::Result<Entry> {
    let metadata = fs::symlink_metadata(path)?;
    let kind = match metadata.file_type() {
        kind if kind.is_dir() => Kind::Directory,
        kind if kind.is_file() => Kind::File,
        kind if kind.is_symlink() => Kind::Link,
        _ => Kind::Other,
    };
    let mut hasher = DefaultHasher::new();
    (kind, metadata.mode()).hash(&mut hasher);
    let text = match kind {
        Kind::Link => fs::read_link(path)?.to_string_lossy().into_owned(),
        Kind::File if metadata.len() <= SMALL => {
            let bytes = fs::read(path)?;
            bytes.hash(&mut hasher);
            String::from_utf8_lossy(&bytes).into_owned()
        }
        Kind::File => {
            metadata.len().hash(&mut hasher);
            String::new()
        }
        _ => String::new(),
    };
    Ok(Entry {
        kind,
        text,
        digest: hasher.finish(),
    })
}

fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Lists the names in `live/` on which another process has a lock of fcntl(2).
///
/// # Errors
/// Fails if a file there cannot be opened or its lock cannot be queried.
pub(crate) fn locked(root: &Path) -> Result<BTreeSet<String>> {
    let live = root.join("live");
    let mut names = BTreeSet::new();
    let Some(entries) = present(fs::read_dir(&live)).with_context(|| format!("list {}", live.display()))?
    else {
        return Ok(names);
    };
    for entry in entries {
        let entry = entry.with_context(|| format!("list {}", live.display()))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !super::is_id(&name) {
            continue;
        }
        let opened = OpenOptions::new().read(true).write(true).open(entry.path());
        let Some(file) = present(opened).with_context(|| format!("open live/{name}"))? else {
            continue;
        };
        let mut asked = libc::flock {
            l_type: i16::try_from(libc::F_WRLCK).context("F_WRLCK")?,
            l_whence: i16::try_from(libc::SEEK_SET).context("SEEK_SET")?,
            l_start: 0,
            l_len: 0,
            l_pid: 0,
        };
        fcntl(&file, FcntlArg::F_OFD_GETLK(&mut asked))
            .with_context(|| format!("ask for the lock of live/{name}"))?;
        if i32::from(asked.l_type) != libc::F_UNLCK {
            names.insert(name);
        }
    }
    Ok(names)
}

/// Lists the entries that are new, changed or gone at the later moment, one line each.
pub(crate) fn difference(before: &Tree, after: &Tree) -> Vec<String> {
    let mut found = Vec::new();
    for (path, entry) in &after.0 {
        match before.get(path) {
            _ if comes_and_goes(path) => {}
            None => found.push(format!("{path}: is new")),
            Some(old) if old != entry => found.push(format!("{path}: has changed")),
            Some(_) => {}
        }
    }
    for path in before.0.keys() {
        if !after.has(path) && !comes_and_goes(path) {
            found.push(format!("{path}: is gone"));
        }
    }
    found
}

/// True for entries that may change although nothing is lost or left: notes, marks of use, and the directories that
/// hold the other entries.
fn comes_and_goes(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    match parts[..] {
        [_] | ["events" | "events.1" | "host", ..] => true,
        ["build", "hashes", ..] | ["build" | "graph" | "store", _] | ["store", "objects", _] => {
            path != "store/garbage"
        }
        ["store", "trees", _, "lease"] | ["store", "layers", _, "known"] => true,
        ["store", "trees", _, part] => has_owners(part),
        ["networks", ".lock" | ".members" | ".filter" | ".warned"] | ["networks", _, "names" | "called"] => {
            true
        }
        ["secrets", ".lock"] => true,
        ["pools", _, "lock" | "queue"] | ["containers", _, "copying"] => true,
        // The engine rewrites its own files in `/etc` at each start and at each visit.
        [
            "containers",
            _,
            "upper",
            "etc",
            "hosts" | "hostname" | "resolv.conf",
        ] => true,
        _ => false,
    }
}
