//! Layers of a root's parts.

use crate::changes::add_layer;
use crate::{EngineError, ImageFault};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use tote_archive::{Change, Entry, EntryPath, Kind, Timestamp, WalkError, Writer, entry_of};
use tote_builder::{open_straight, pack};
use tote_store::{Ingest, Layer};

/// Bits of a mode that only the image of a distribution may have: set-id bits and the like.
const SPECIAL: u32 = 0o7000;

/// A root whose files become layers.
#[derive(Clone, Copy)]
pub(super) struct Root<'a> {
    /// Its files.
    pub files: BorrowedFd<'a>,
    /// Another directory, for paths that are not below `usr` and that are there: the host's /etc is not for containers.
    pub before: Option<BorrowedFd<'a>>,
    /// True for the host: its files belong to root, and only those that everyone may read are taken.
    pub(super) is_host: bool,
    /// True if times of files come from elsewhere than this machine, so that they are the same on every machine.
    pub(super) keeps_times: bool,
}

/// Result of a part.
pub(super) struct Made {
    pub layer: Layer,
    pub programs: Vec<String>,
}

impl Root<'_> {
    /// The directory that has a path.
    fn of(&self, path: &[u8]) -> Result<BorrowedFd<'_>, Errno> {
        Ok(match self.before {
            Some(before) if self.is_before(path)? => before,
            _ => self.files,
        })
    }

    /// True if the other directory has a path.
    pub(super) fn is_before(&self, path: &[u8]) -> Result<bool, Errno> {
        let Some(before) = self.before.filter(|_| !path.starts_with(b"usr/")) else {
            return Ok(false);
        };
        let opened = open_straight(before, path, OFlags::PATH | OFlags::NOFOLLOW);
        Ok(tote_sys::reachable(opened)?.is_some())
    }

    /// Adds a layer with these paths and the directories above them.
    pub(super) fn add(
        &self,
        ingest: &Ingest<'_>,
        paths: &[Box<[u8]>],
        owned: bool,
    ) -> Result<Made, EngineError> {
        let mut all: BTreeSet<EntryPath> = BTreeSet::from([EntryPath::root()]);
        for path in paths {
            let Ok(path) = EntryPath::parse(path) else {
                continue;
            };
            let mut above = path.parent();
            while let Some(dir) = above.filter(|dir| !all.contains(dir)) {
                above = dir.parent();
                all.insert(dir);
            }
            all.insert(path);
        }
        made(
            ingest,
            all.iter().filter_map(|path| self.entry(path, owned).transpose()),
        )
    }

    /// Reads an entry. `None` if it is gone, or not for containers.
    fn entry(&self, path: &EntryPath, owned: bool) -> Result<Option<(Entry, Option<File>)>, WalkError> {
        let at = path.as_bytes();
        let failed = |source| WalkError::Entry {
            what: "open",
            path: path.clone(),
            source,
        };
        let (root, at) = match at {
            b"" => (self.files, b".".as_slice()),
            at => (self.of(at).map_err(failed)?, at),
        };
        let opened = open_straight(root, at, OFlags::PATH | OFlags::NOFOLLOW);
        let Some(opened) = tote_sys::reachable(opened).map_err(failed)? else {
            return Ok(None);
        };
        let stat = rustix::fs::fstat(&opened).map_err(failed)?;
        let is_link = rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Symlink;
        if self.is_host && !is_link && stat.st_mode & 0o004 == 0 {
            return Ok(None);
        }
        let Some((mut entry, file)) = entry_of(opened.as_fd(), path.clone())? else {
            return Ok(None);
        };
        if self.is_host {
            (entry.uid, entry.gid) = (0, 0);
            entry.mode &= !SPECIAL;
            entry.xattrs.clear();
        }
        let is_file = matches!(entry.kind, Kind::File { .. });
        if path.is_root() {
            (entry.mode, entry.uid, entry.gid) = (0o755, 0, 0);
        }
        if !is_file || !self.keeps_times && !owned {
            entry.mtime = Timestamp::default();
        }
        Ok(Some((entry, file)))
    }
}

fn is_program(entry: &Entry) -> bool {
    let dir = entry.path.parent();
    let dir = dir.as_ref().and_then(EntryPath::file_name);
    let is_executable = entry.mode & 0o111 != 0 || matches!(entry.kind, Kind::Symlink { .. });
    matches!(dir, Some(b"bin" | b"sbin"))
        && matches!(entry.kind, Kind::File { .. } | Kind::Symlink { .. })
        && is_executable
}

/// Adds a layer of files given by their contents' places: of a Totefile.
pub(super) fn add_files(
    ingest: &Ingest<'_>,
    dir: BorrowedFd<'_>,
    files: &BTreeMap<String, String>,
    writable: &[String],
) -> Result<Made, EngineError> {
    let mut all: BTreeMap<EntryPath, Option<(Entry, File)>> = BTreeMap::from([(EntryPath::root(), None)]);
    let mut add = |path: &str, file: Option<(Entry, File)>| -> Result<(), EngineError> {
        let path = EntryPath::parse(path.trim_start_matches('/').as_bytes())
            .map_err(|error| ImageFault::LayerOutput(std::io::Error::other(error)))?;
        let mut above = path.parent();
        while let Some(dir) = above {
            above = dir.parent();
            all.entry(dir).or_insert(None);
        }
        all.insert(path, file);
        Ok(())
    };
    for (path, source) in files {
        let relative = source.strip_prefix("./").unwrap_or(source);
        let opened = open_straight(dir, relative.as_bytes(), OFlags::PATH | OFlags::NOFOLLOW);
        let opened = opened.map_err(EngineError::file("open", source))?;
        let name = EntryPath::parse(path.trim_start_matches('/').as_bytes())
            .map_err(|error| ImageFault::LayerOutput(std::io::Error::other(error)))?;
        let Some((entry, Some(file))) = entry_of(opened.as_fd(), name)? else {
            let why = std::io::Error::other("it is no regular file");
            return Err(EngineError::file("read", source)(why));
        };
        add(path, Some((entry, file)))?;
    }
    for path in writable {
        add(path, None)?;
    }
    let entries = all.into_iter().map(|(path, file)| {
        let (kind, mode, file) = match file {
            None => (Kind::Directory, 0o755, None),
            // The owner's bits alone: they are the same whatever umask the file was made under.
            Some((entry, file)) => {
                let mode = if entry.mode & 0o100 == 0 { 0o644 } else { 0o755 };
                (entry.kind, mode, Some(file))
            }
        };
        let entry = Entry {
            mode,
            ..Entry::new(path, kind)
        };
        Ok((entry, file))
    });
    made(ingest, entries)
}

/// Adds a layer with these entries, and notes which of them are programs.
fn made(
    ingest: &Ingest<'_>,
    entries: impl Iterator<Item = Result<(Entry, Option<File>), WalkError>> + Send,
) -> Result<Made, EngineError> {
    let mut programs = Vec::new();
    let layer = add_layer(ingest, |out| {
        let changes = entries.map(|entry| {
            let (entry, file) = entry?;
            if is_program(&entry) {
                programs.push(entry.path.to_string());
            }
            Ok((Change::Add(entry), file))
        });
        pack(Writer::new(out), changes)
    })?;
    Ok(Made { layer, programs })
}
