//! Sources of `COPY` and `ADD`: the selected files, and a digest of them all.

use super::hashes::{Hashes, Stamp};
use super::{BuildFault, ContextError, inside};
use crate::{EngineError, ImageFault};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::time::SystemTime;
use tote_build::{CopyStep, is_pattern, matches};
use tote_dockerfile::Ignore;

/// Limit of nested directories; each holds a descriptor during the walk.
const DEPTH_MAX: usize = 256;

/// Selected source.
#[derive(Debug)]
pub(crate) struct Chosen {
    /// Source directory, or the directory of the source file.
    pub base: OwnedFd,
    pub is_dir: bool,
    /// True if an archive is extracted.
    pub unpack: bool,
    /// Items in order; a directory comes before its entries.
    pub(crate) items: Vec<Item>,
}

/// File or directory to copy.
#[derive(Debug)]
pub(crate) struct Item {
    /// Path below the base, and below the destination. Empty for the directory itself.
    pub path: Vec<u8>,
    pub kind: FileType,
    /// True for a socket, which is copied as an empty file.
    is_socket: bool,
    pub mode: u32,
    pub owner: (u32, u32),
    pub mtime: (i64, u32),
    pub(crate) device: u64,
    /// State of the file at the selection.
    pub stamp: Stamp,
    /// Target of a symbolic link.
    pub target: Vec<u8>,
    /// Capabilities of the file.
    pub capability: Vec<u8>,
    /// True if the file has other names.
    has_links: bool,
    /// Name among the items under which the file came already.
    pub(crate) first: Option<Vec<u8>>,
}

/// Patterns of excluded files.
pub(crate) struct Filter<'a> {
    pub ignore: &'a Ignore,
    pub(crate) exclude: Ignore,
    /// True if sockets count as empty files, as in docker's contexts. An image contains no sockets.
    pub sockets: bool,
}

impl Filter<'_> {
    fn excludes(&self, path: &[u8], from_source: &[u8]) -> bool {
        self.ignore.excludes(&String::from_utf8_lossy(path))
            || !from_source.is_empty() && self.exclude.excludes(&String::from_utf8_lossy(from_source))
    }

    /// True if no entry of an excluded directory can be included again.
    fn is_final(&self) -> bool {
        !self.ignore.has_exceptions() && !self.exclude.has_exceptions()
    }
}

/// Finds the sources of a step in a root.
pub(crate) fn choose(
    root: &OwnedFd,
    step: &CopyStep,
    filter: &Filter<'_>,
) -> Result<Vec<Chosen>, EngineError> {
    let mut chosen = Vec::new();
    for source in &step.sources {
        let before = chosen.len();
        for path in expand(root, source, step.parents)? {
            if filter.ignore.excludes(&String::from_utf8_lossy(&path)) && filter.is_final() {
                continue;
            }
            let found = match step.parents {
                true => with_parents(root, &path, parts_before_pivot(source), filter)?,
                false => one(root, &path, filter)?,
            };
            chosen.extend(found.map(|found| Chosen {
                unpack: step.unpack,
                ..found
            }));
        }
        if chosen.len() == before && !is_pattern(source) {
            return Err(BuildFault::NoSource(source.clone()).into());
        }
    }
    Ok(chosen)
}

/// Expands a pattern to paths.
fn expand(root: &OwnedFd, pattern: &str, any_depth: bool) -> Result<Vec<Vec<u8>>, EngineError> {
    let mut paths = vec![Vec::new()];
    for part in pattern.split('/').filter(|part| !matches!(*part, "" | ".")) {
        let is_pattern = part.contains(['*', '?', '[', '\\']);
        let mut longer = Vec::new();
        for path in paths {
            if part == ".." {
                longer.push(inside::split(&path).0.to_vec());
            } else if part == "**" && any_depth {
                directories(root, path, 0, &mut longer)?;
            } else if is_pattern {
                for name in names_in(root, &path)? {
                    if matches(part, &String::from_utf8_lossy(&name)).map_err(ContextError::Glob)? {
                        longer.push(joined(&path, &name));
                    }
                }
            } else {
                longer.push(joined(&path, part.as_bytes()));
            }
        }
        paths = longer;
    }
    Ok(paths)
}

/// Collects a directory and all directories below it, without following links.
fn directories(
    root: &OwnedFd,
    path: Vec<u8>,
    depth: usize,
    all: &mut Vec<Vec<u8>>,
) -> Result<(), EngineError> {
    if depth > DEPTH_MAX {
        return Err(failed(&path, Errno::NAMETOOLONG));
    }
    let dir = inside::open_straight(root, &path, OFlags::RDONLY | OFlags::DIRECTORY);
    let Some(dir) = inside::found(dir).map_err(|errno| failed(&path, errno))? else {
        return Ok(());
    };
    let names = names(&dir).map_err(|errno| failed(&path, errno))?;
    let children: Vec<_> = names.iter().map(|name| joined(&path, name)).collect();
    all.push(path);
    for child in children {
        directories(root, child, depth + 1, all)?;
    }
    Ok(())
}

/// Lists the names in a directory; none for other entries.
fn names_in(root: &OwnedFd, path: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
    let dir = inside::found(inside::open(root, path, OFlags::RDONLY | OFlags::DIRECTORY));
    let names = dir.and_then(|dir| dir.map_or_else(|| Ok(Vec::new()), names));
    names.map_err(|errno| failed(path, errno))
}

fn joined(path: &[u8], name: &[u8]) -> Vec<u8> {
    match path {
        [] => name.to_vec(),
        path => [path, b"/", name].concat(),
    }
}

fn names(dir: impl AsFd) -> Result<Vec<Vec<u8>>, Errno> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        match entry?.file_name().to_bytes() {
            b"." | b".." => {}
            name => names.push(name.to_vec()),
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// Selects one source; a link that is named itself is resolved inside the root.
fn one(root: &OwnedFd, path: &[u8], filter: &Filter<'_>) -> Result<Option<Chosen>, EngineError> {
    let failed = |errno: Errno| failed(path, errno);
    let found = match inside::open(root, path, OFlags::PATH) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        found => found.map_err(failed)?,
    };
    let stat = rustix::fs::fstat(&found).map_err(failed)?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let base = inside::open(root, path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        let mut walk = Walk {
            filter,
            source: path,
            items: vec![item(&base, b"", b"").map_err(failed)?],
        };
        walk.below(&base, Vec::new(), 0)?;
        let items = walk.items;
        return Ok(Some(Chosen {
            base,
            is_dir: true,
            unpack: false,
            items,
        }));
    }
    if filter.excludes(path, inside::split(path).1) {
        return Ok(None);
    }
    let mut item = Item::of(&stat, inside::split(path).1);
    if item.kind == FileType::RegularFile && !item.is_socket {
        item.capability = capability(&reopen(&found).map_err(failed)?).map_err(failed)?;
    }
    Ok(Some(Chosen {
        base: found,
        is_dir: false,
        unpack: false,
        items: vec![item],
    }))
}

/// Counts the names of a source before its `/./`.
fn parts_before_pivot(source: &str) -> usize {
    let before = source
        .trim_start_matches("./")
        .split_once("/./")
        .map_or("", |(before, _)| before);
    before
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .count()
}

/// Selects a source with its parent directories after the pivot. None of them may be a link.
fn with_parents(
    root: &OwnedFd,
    path: &[u8],
    pivot: usize,
    filter: &Filter<'_>,
) -> Result<Option<Chosen>, EngineError> {
    let failed = |errno: Errno| failed(path, errno);
    let parts: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let (above, below) = parts.split_at(pivot.min(parts.len()));
    let (above, below) = (above.join(&b'/'), below.join(&b'/'));
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let base = match inside::open(root, &above, flags) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        base => base.map_err(failed)?,
    };
    let mut walk = Walk {
        filter,
        source: &above,
        items: Vec::new(),
    };
    let ends = below.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    for end in ends.map(|(at, _)| at).chain([below.len()]) {
        let (parent, name) = inside::split(&below[..end]);
        let found =
            inside::open_straight(&base, parent, flags).and_then(|dir| item(&dir, name, &below[..end]));
        match found {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            Err(Errno::LOOP) => {
                let link = String::from_utf8_lossy(parent).into_owned();
                return Err(BuildFault::LinkAbove(link).into());
            }
            found => walk.items.push(found.map_err(failed)?),
        }
    }
    let is_dir = walk
        .items
        .last()
        .is_some_and(|last| last.kind == FileType::Directory);
    if is_dir {
        let dir = inside::open_straight(&base, &below, flags).map_err(failed)?;
        walk.below(&dir, below, 0)?;
    } else if filter.excludes(path, &below) {
        return Ok(None);
    }
    let items = walk.items;
    Ok(Some(Chosen {
        base,
        is_dir: true,
        unpack: false,
        items,
    }))
}

/// Reopens a descriptor that only names the file for reading.
fn reopen(file: &OwnedFd) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(
        format!("/proc/self/fd/{}", file.as_raw_fd()),
        flags,
        Mode::empty(),
    )
}

fn failed(path: &[u8], errno: Errno) -> EngineError {
    BuildFault::Source {
        path: String::from_utf8_lossy(path).into_owned(),
        source: errno.into(),
    }
    .into()
}

struct Walk<'a> {
    filter: &'a Filter<'a>,
    source: &'a [u8],
    items: Vec<Item>,
}

impl Walk<'_> {
    fn below(&mut self, dir: &OwnedFd, path: Vec<u8>, depth: usize) -> Result<(), EngineError> {
        if depth > DEPTH_MAX {
            return Err(failed(&path, Errno::NAMETOOLONG));
        }
        for name in names(dir).map_err(|errno| failed(&path, errno))? {
            let below = joined(&path, &name);
            let excluded = self.filter.excludes(&joined(self.source, &below), &below);
            if excluded && self.filter.is_final() {
                continue;
            }
            let item = match item(dir, &name, &below) {
                Err(Errno::NOENT) => continue,
                item => item.map_err(|errno| failed(&below, errno))?,
            };
            let is_dir = item.kind == FileType::Directory;
            let before = self.items.len();
            if (!item.is_socket || self.filter.sockets) && (!excluded || is_dir) {
                self.items.push(item);
            }
            if is_dir {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let child = rustix::fs::openat(dir, &*name, flags, Mode::empty());
                let child = child.map_err(|errno| failed(&below, errno))?;
                self.below(&child, below, depth + 1)?;
                if excluded && self.items.len() == before + 1 {
                    self.items.pop();
                }
            }
        }
        Ok(())
    }
}

fn item(dir: &OwnedFd, name: &[u8], path: &[u8]) -> Result<Item, Errno> {
    let stat = if name.is_empty() {
        rustix::fs::fstat(dir)?
    } else {
        rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?
    };
    let mut item = Item::of(&stat, path);
    match item.kind {
        FileType::Symlink => item.target = rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes(),
        FileType::RegularFile if item.mode & 0o111 != 0 && !item.is_socket => {
            item.capability = capability(&inside::open_straight(dir, name, OFlags::RDONLY)?)?;
        }
        _ => {}
    }
    Ok(item)
}

fn capability(file: &OwnedFd) -> Result<Vec<u8>, Errno> {
    let mut value = [0; 64];
    match rustix::fs::fgetxattr(file, "security.capability", &mut value) {
        Ok(length) => Ok(value[..length].to_vec()),
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(Vec::new()),
        Err(errno) => Err(errno),
    }
}

impl Item {
    /// Makes the item of a download, with its time.
    pub(crate) fn downloaded(name: String, mtime: i64) -> Self {
        Self {
            path: name.into_bytes(),
            kind: FileType::RegularFile,
            is_socket: false,
            mode: 0o600,
            owner: (0, 0),
            mtime: (mtime, 0),
            device: 0,
            stamp: Stamp::default(),
            target: Vec::new(),
            capability: Vec::new(),
            has_links: false,
            first: None,
        }
    }

    /// Names the inode of a regular file that has several names.
    pub(crate) fn inode(&self) -> Option<(u64, u64)> {
        self.has_links.then(|| self.stamp.inode())
    }

    fn of(stat: &Stat, path: &[u8]) -> Self {
        let (kind, is_socket) = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Socket => (FileType::RegularFile, true),
            kind => (kind, false),
        };
        Self {
            path: path.to_vec(),
            kind,
            is_socket,
            mode: stat.st_mode & 0o7777,
            owner: (stat.st_uid, stat.st_gid),
            mtime: (stat.st_mtime, u32::try_from(stat.st_mtime_nsec).unwrap_or(0)),
            device: stat.st_rdev,
            stamp: Stamp::of(stat),
            target: Vec::new(),
            capability: Vec::new(),
            has_links: kind == FileType::RegularFile && !is_socket && stat.st_nlink > 1,
            first: None,
        }
    }
}

impl Chosen {
    /// Opens a file of the source for reading.
    pub(crate) fn open(&self, item: &Item) -> Result<File, EngineError> {
        if item.is_socket {
            return File::open("/dev/null")
                .map_err(|error| EngineError::Image(ImageFault::LayerOutput(error)));
        }
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = if self.is_dir {
            inside::open_straight(&self.base, &item.path, flags)
        } else {
            reopen(&self.base)
        };
        let file = file.map_err(|errno| failed(&item.path, errno))?;
        Ok(File::from(file))
    }
}

/// Returns the SHA-256 of all files that a copy would create, without times. Owners count if they are kept. Files
/// whose hash is in `known` are not read.
pub(crate) fn digest(
    chosen: &[Chosen],
    step: &CopyStep,
    keeps_owners: bool,
    mut known: Option<&mut Hashes>,
) -> Result<String, EngineError> {
    let mut hash = Sha256::new();
    let mut text = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    let mut buffer = vec![0; 128 << 10];
    for source in chosen {
        text(if source.is_dir { b"directory" } else { b"file" });
        for item in &source.items {
            text(&item.path);
            let owner = if keeps_owners { item.owner } else { (0, 0) };
            text(format!("{:?} {:o} {owner:?} {}", item.kind, item.mode, item.device).as_bytes());
            text(&item.capability);
            if item.kind == FileType::Symlink {
                text(&item.target);
            }
            if let Some(first) = &item.first {
                text(b"link");
                text(first);
                continue;
            }
            if item.kind == FileType::RegularFile {
                let earlier = known.as_mut().and_then(|known| known.get(&item.stamp));
                let content = match earlier {
                    Some(content) => content,
                    None => {
                        let begun = SystemTime::now();
                        let content = content(source, item, &mut buffer)?;
                        if let Some(known) = &mut known {
                            known.put(item.stamp, content, begun);
                        }
                        content
                    }
                };
                text(&content);
            }
        }
    }
    for (name, content) in &step.inline {
        text(b"inline");
        text(name.as_bytes());
        text(content.as_bytes());
    }
    let bytes: [u8; 32] = hash.finalize().into();
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn content(source: &Chosen, item: &Item, buffer: &mut [u8]) -> Result<[u8; 32], EngineError> {
    let mut hash = Sha256::new();
    let mut file = source.open(item)?;
    loop {
        let count = file.read(buffer).map_err(|error| BuildFault::Source {
            path: String::from_utf8_lossy(&item.path).into_owned(),
            source: error,
        })?;
        if count == 0 {
            return Ok(hash.finalize().into());
        }
        hash.update(&buffer[..count]);
    }
}
