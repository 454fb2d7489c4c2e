//! Placement of the source at the destination.

use super::error::{CopyError, PlaceError, TransferFault, innermost};
use super::inside::Inside;
use super::place::{Misplaced, Put, There, Wanted, rule};
use super::received::Received;
use super::request::{Copied, CopyRequest};
use super::tree::{Spot, Tree};
use crate::EngineError;
use crate::container::fault;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, FileType, Stat};
use std::cell::RefCell;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use tote_archive::{
    Decoder, Devices, Entry, EntryPath, Expansion, ExtractOptions, Extracted, Kind, Limits, Nameless,
    Overwrite, Owner, Reader, WalkError, Writer, entry_of, extract, transfer, walk,
};
use tote_images::has_many_ids;
use tote_state::new_id;
use tote_sys::{Errno, best_effort};

/// Size of the write buffer, in bytes.
const BUFFER: usize = 256 << 10;

/// Prefix of the name of an unfinished file, before digits.
const UNFINISHED: &[u8] = b".tote-cp-";

/// Size from which on a file is removed before another takes its name, as docker does with every file: ext4 flushes a
/// file that is renamed over another at once (`auto_da_alloc`), which took 2.4 s instead of 0.6 for 200 MB.
const LARGE: u64 = 1 << 20;

/// Owner root in the container.
const ROOT: Owner = Owner::Fixed { uid: 0, gid: 0 };

/// Entries with their contents.
pub(super) type Entries = Box<dyn Iterator<Item = Result<(Entry, Option<File>), WalkError>>>;

/// Open source of a copy.
pub(super) struct Original {
    from: From,
    directory: bool,
    /// True if only its entries are copied, under no name of their own.
    contents: bool,
    name: Vec<u8>,
    shown: String,
}

/// Origin of a source.
enum From {
    /// Open file or directory.
    Open(OwnedFd),
    /// Archive, until it is read.
    Archive(RefCell<Option<Box<Received>>>),
}

impl Original {
    /// A source that comes as an archive, with its name in messages.
    pub(super) fn received(archive: Received, (name, contents): (&[u8], bool), shown: String) -> Self {
        Self {
            directory: archive.is_directory(),
            from: From::Archive(RefCell::new(Some(Box::new(archive)))),
            contents: contents || name.is_empty(),
            name: name.to_vec(),
            shown,
        }
    }

    pub(super) fn new(fd: OwnedFd, stat: &Stat, wanted: &Wanted, shown: String) -> Self {
        let name = wanted.name().unwrap_or_default().to_vec();
        Self {
            from: From::Open(fd),
            directory: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
            contents: wanted.contents || name.is_empty(),
            name,
            shown,
        }
    }

    /// Returns the entry of a source other than a directory, with this name.
    fn alone(&self, name: &EntryPath, into: &OwnedFd) -> Result<(Entry, Option<File>), CopyError> {
        let found = match &self.from {
            From::Open(fd) => entry_of(fd.as_fd(), name.clone()),
            From::Archive(archive) => {
                let archive = archive.take();
                let mut entries = archive.map(|archive| archive.entries(name, Some(into)));
                entries.as_mut().and_then(Iterator::next).transpose()
            }
        };
        let found = found.map_err(|source| {
            CopyError::Transfer(TransferFault::Walk {
                from: self.shown.clone(),
                source,
            })
        })?;
        found.ok_or_else(|| CopyError::Socket(self.shown.clone()))
    }

    /// Lists the source and everything below it, with this name; `into` is the directory that is
    /// written to, and is left out.
    fn entries(&self, name: &EntryPath, into: Option<&OwnedFd>) -> Result<Entries, CopyError> {
        let fd = match &self.from {
            From::Open(fd) => fd,
            From::Archive(archive) => {
                let archive = archive.take();
                return Ok(match archive {
                    Some(archive) => archive.entries(name, into),
                    None => Box::new(std::iter::empty()),
                });
            }
        };
        if !self.directory {
            return Ok(Box::new(std::iter::once(Ok(self.alone(name, fd)?))));
        }
        let mut walk = walk(fd.as_fd()).files_only();
        if let Some(into) = into {
            walk = walk.outside_of(into.as_fd()).map_err(|source| CopyError::Path {
                attempt: "look at",
                path: self.shown.clone(),
                source,
            })?;
        }
        if name.is_root() {
            return Ok(Box::new(walk));
        }
        let name = name.clone();
        Ok(Box::new(walk.map(move |found| {
            let (mut entry, file) = found?;
            entry.path = below(&name, &entry.path);
            if let Kind::Hardlink { target } = &mut entry.kind {
                *target = below(&name, target);
            }
            Ok((entry, file))
        })))
    }
}

pub(super) fn below(dir: &EntryPath, path: &EntryPath) -> EntryPath {
    let join = |dir: EntryPath, part: &[u8]| dir.join(part).unwrap_or_default();
    path.components().fold(dir.clone(), join)
}

/// Copy in progress.
pub(super) struct Copying<'a> {
    pub(super) request: &'a CopyRequest,
    pub(super) told: &'a mut dyn FnMut(u64),
}

impl Copying<'_> {
    fn options(&self, owner: Owner, devices: Devices) -> ExtractOptions {
        ExtractOptions {
            owner,
            devices,
            overwrite: if self.request.overwrite {
                Overwrite::All
            } else {
                Overwrite::SameKind
            },
            keep_root: true,
            ..ExtractOptions::default()
        }
    }

    /// Copies to a container, whose root owns the files then, unless owners are kept.
    pub(super) fn put_inside(
        &mut self,
        original: &Original,
        inside: &Inside,
        wanted: &Wanted,
    ) -> Result<Copied, EngineError> {
        let shown = inside.shown(&wanted.path);
        let spot = inside.tree().destination(wanted).map_err(|source| match source {
            Errno::NOENT => inside.not_there(above(&wanted.path)),
            source => unusable(&shown)(source),
        })?;
        inside.check_writable(&spot.dir, &shown)?;
        let owner = if self.request.archive {
            Owner::Archive
        } else {
            ROOT
        };
        let options = self.options(owner, Devices::IfPermitted);
        self.put(original, &spot, wanted, (&shown, options))
    }

    /// Copies out of a container. The files belong to the caller, unless owners are kept.
    pub(super) fn put_here(
        &mut self,
        original: &Original,
        tree: Tree<'_>,
        wanted: &Wanted,
        given: &[u8],
    ) -> Result<Copied, EngineError> {
        let shown = String::from_utf8_lossy(given).into_owned();
        let spot = tree.destination(wanted).map_err(|source| match source {
            Errno::NOENT => CopyError::Place(PlaceError::NoParent(
                String::from_utf8_lossy(above(&wanted.path)).into_owned(),
            )),
            source => unusable(&shown)(source),
        })?;
        let owner = if self.request.archive {
            Owner::Archive
        } else {
            Owner::Caller
        };
        let options = self.options(owner, Devices::IfPermitted);
        self.put(original, &spot, wanted, (&shown, options))
    }

    fn put(
        &mut self,
        original: &Original,
        spot: &Spot,
        wanted: &Wanted,
        (shown, options): (&str, ExtractOptions),
    ) -> Result<Copied, EngineError> {
        if spot.special {
            return Err(CopyError::Place(PlaceError::Special(shown.to_owned())).into());
        }
        let what = (original.directory, original.contents);
        let name = match rule(what, wanted, spot.there, self.request.overwrite) {
            Ok(Put::Inside) => &original.name[..],
            Ok(Put::As) => &spot.name[..],
            Ok(Put::Contents) => b"",
            Err(misplaced) => return Err(misplaced_error(misplaced, shown).into()),
        };
        let path = EntryPath::parse(name).map_err(TransferFault::Name)?;
        if !original.directory && !self.replaces_directory(&spot.dir, name, shown)? {
            return self.single(original, &spot.dir, name, (shown, options));
        }
        let entries = original.entries(&path, Some(&spot.dir))?;
        let done = transfer(entries, spot.dir.as_fd(), &options, self.told);
        Ok(copied(done.map_err(|source| {
            CopyError::Transfer(TransferFault::Transfer {
                to: shown.to_owned(),
                source,
            })
        })?))
    }

    /// True if a directory has the name of a new file, and may be replaced by it.
    fn replaces_directory(&self, dir: &OwnedFd, name: &[u8], shown: &str) -> Result<bool, CopyError> {
        let there = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        let is_dir = there.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
        if is_dir && !self.request.overwrite {
            let name = String::from_utf8_lossy(name);
            return Err(CopyError::Place(PlaceError::FileOnDirectory(format!(
                "{}/{name}",
                shown.trim_end_matches('/')
            ))));
        }
        Ok(is_dir)
    }

    /// Copies a single entry, which gets its name when it is complete.
    fn single(
        &mut self,
        original: &Original,
        dir: &OwnedFd,
        name: &[u8],
        (shown, options): (&str, ExtractOptions),
    ) -> Result<Copied, EngineError> {
        let fresh = [UNFINISHED, &new_id()?.as_str().as_bytes()[..16]].concat();
        let path = EntryPath::parse(&fresh).map_err(TransferFault::Name)?;
        let (entry, file) = original.alone(&path, dir)?;
        let failed = |why| {
            CopyError::Transfer(TransferFault::Single {
                to: shown.to_owned(),
                why,
            })
        };
        let begun = Nameless::begin(&entry, dir.as_fd(), &options);
        if let Some(mut whole) = begun.map_err(|error| failed(innermost(&error)))? {
            let filled = whole.fill(&entry, file, self.told);
            let bytes = filled.map_err(|error| failed(innermost(&error)))?;
            fault::point("cp-whole");
            let named = give_name(&whole, dir, (name, &fresh), bytes >= LARGE);
            named.map_err(|errno| failed(errno.to_string()))?;
            return Ok(Copied {
                bytes,
                devices_skipped: 0,
            });
        }
        // This way serves entries other than files, and file systems without nameless files.
        let entries = std::iter::once(Ok((entry, file)));
        let done =
            transfer(entries, dir.as_fd(), &options, self.told).map_err(|error| failed(innermost(&error)));
        fault::point("cp-whole");
        if done.as_ref().is_ok_and(|done| done.bytes >= LARGE) {
            // The rename reports an entry that is missing or cannot be removed.
            best_effort(rustix::fs::unlinkat(dir, name, AtFlags::empty()));
        }
        let named = done.and_then(|done| match rustix::fs::renameat(dir, &fresh, dir, name) {
            // The entry was a device that was left out.
            Err(Errno::NOENT) if done.devices_skipped > 0 => Ok(done),
            Err(errno) => Err(failed(errno.to_string())),
            Ok(()) => Ok(done),
        });
        if named.is_err() {
            best_effort(rustix::fs::unlinkat(dir, &fresh, AtFlags::empty()));
        }
        Ok(copied(named?))
    }

    /// Writes the source as an archive, with owners as they are inside.
    pub(super) fn pack(
        &mut self,
        original: &Original,
        output: &mut dyn Write,
    ) -> Result<Copied, EngineError> {
        let name = if original.contents && original.directory {
            EntryPath::root()
        } else {
            EntryPath::parse(&original.name).map_err(TransferFault::Name)?
        };
        let mut writer = Writer::new(BufWriter::with_capacity(BUFFER, output));
        let mut done = Copied::default();
        for found in original.entries(&name, None)? {
            let (entry, file) = found.map_err(|source| {
                CopyError::Transfer(TransferFault::Walk {
                    from: original.shown.clone(),
                    source,
                })
            })?;
            writer.entry(&entry).map_err(TransferFault::Write)?;
            if let (Kind::File { size }, Some(file)) = (&entry.kind, file) {
                // A file that grows meanwhile keeps its former size; one that shrinks is an error of the archive.
                let mut counting = Counting {
                    input: file.take(*size),
                    told: self.told,
                };
                done.bytes += std::io::copy(&mut counting, &mut writer).map_err(TransferFault::Output)?;
            }
        }
        let mut out = writer.finish().map_err(TransferFault::Write)?;
        out.flush().map_err(TransferFault::Output)?;
        Ok(done)
    }

    /// Extracts an archive into a directory. The archive names the owners of its files.
    pub(super) fn unpack(
        &mut self,
        input: &mut dyn Read,
        inside: &Inside,
        wanted: &Wanted,
    ) -> Result<Copied, EngineError> {
        let shown = inside.shown(&wanted.path);
        let spot = inside.tree().destination(wanted).map_err(|source| match source {
            Errno::NOENT => inside.not_there(&wanted.path),
            source => unusable(&shown)(source),
        })?;
        match spot.there {
            There::Directory => {}
            There::File => return Err(CopyError::Place(PlaceError::StreamToFile(shown)).into()),
            There::Nothing => return Err(inside.not_there(&wanted.path).into()),
        }
        inside.check_writable(&spot.dir, &shown)?;
        let owner = if has_many_ids() { Owner::Archive } else { ROOT };
        let options = self.options(owner, Devices::IfPermitted);
        let counting = Counting {
            input,
            told: self.told,
        };
        let input = Decoder::new(counting, Expansion::default()).map_err(TransferFault::Input)?;
        let mut reader = Reader::new(input, Limits::default()).without_whiteouts();
        let done = extract(&mut reader, spot.dir.as_fd(), &options);
        Ok(copied(done.map_err(|source| {
            CopyError::Transfer(TransferFault::Extract { to: shown, source })
        })?))
    }
}

/// Gives a complete file its name, and replaces an existing entry.
///
/// Since linkat(2) replaces nothing, a replacing file has a temporary name first. A kill between the two calls leaves
/// the complete file under that name, beside the old one. The kernel has no call that avoids this.
fn give_name(
    whole: &Nameless,
    dir: &OwnedFd,
    (name, fresh): (&[u8], &[u8]),
    large: bool,
) -> Result<(), Errno> {
    if large {
        // The link or the rename reports an entry that is missing or cannot be removed.
        best_effort(rustix::fs::unlinkat(dir, name, AtFlags::empty()));
    }
    match whole.link(dir.as_fd(), name) {
        Err(Errno::EXIST) => {}
        linked => return linked,
    }
    whole.link(dir.as_fd(), fresh)?;
    rustix::fs::renameat(dir, fresh, dir, name)
        .inspect_err(|_| best_effort(rustix::fs::unlinkat(dir, fresh, AtFlags::empty())))
}

fn copied(done: Extracted) -> Copied {
    Copied {
        bytes: done.bytes,
        devices_skipped: done.devices_skipped,
    }
}

fn unusable(shown: &str) -> impl Fn(Errno) -> CopyError + use<> {
    let path = shown.to_owned();
    move |source| CopyError::Path {
        attempt: "open",
        path: path.clone(),
        source,
    }
}

fn misplaced_error(misplaced: Misplaced, shown: &str) -> CopyError {
    let shown = shown.to_owned();
    match misplaced {
        Misplaced::DirectoryOnFile => CopyError::Place(PlaceError::DirectoryOnFile(shown)),
        Misplaced::NoDirectory => CopyError::Place(PlaceError::NoDirectory(shown)),
        Misplaced::NotDirectory => CopyError::Place(PlaceError::NotDirectory(shown)),
    }
}

fn above(path: &[u8]) -> &[u8] {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(0) | None => b"/",
        Some(slash) => &path[..slash],
    }
}

/// Reader that reports the bytes read.
struct Counting<'a, R> {
    input: R,
    told: &'a mut dyn FnMut(u64),
}

impl<R: Read> Read for Counting<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.input.read(buffer)?;
        (self.told)(read as u64);
        Ok(read)
    }
}
