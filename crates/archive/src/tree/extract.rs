//! Extraction of an archive into a directory.

use super::content::Contents;
use super::dirs::{Dir, Dirs, names, open_child, open_in_root};
use super::error::{ExtractError, made, metadata};
use super::fixup::Fixups;
use super::node::Maker;
use super::options::{Devices, ExtractOptions, Overwrite, Whiteouts};
use super::remove::remove_tree;
use super::whiteout::{Made, is_whiteout};
use crate::entry::{Change, Entry, Kind};
use crate::framing::Framing;
use crate::path::EntryPath;
use crate::reader::Reader;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;

/// Statistics of an extraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    /// Changes in the archive.
    pub changes: u64,
    /// Bytes written to files, without holes.
    pub bytes: u64,
    /// Number of device nodes left out.
    pub devices_skipped: u64,
    /// Number of extended attributes that the file system does not support, or the process may not set.
    pub attributes_skipped: u64,
}

/// Extracts everything that `reader` returns into the directory `root`.
///
/// No archive reaches anything outside of `root`, whatever links it brings or finds there: names are created in
/// directories that openat2(2) opened within the root, with flags that follow no link and open nothing that exists.
/// Entries replace an existing entry of their name, which is unlinked, never written to. Directories get their
/// times, and modes that would be in the way, at the end. Nothing is synced.
///
/// # Errors
/// See [`ExtractError`]. Entries made before the error stay.
pub fn extract<R: Read, F: Framing>(
    reader: &mut Reader<R, F>,
    root: BorrowedFd<'_>,
    options: &ExtractOptions,
) -> Result<Extracted, ExtractError> {
    // The caller's descriptor may be one with `O_PATH`, which fchmod refuses.
    let root = open_in_root(root, b"").map_err(ExtractError::Root)?;
    let mut extraction = Extraction::new(&root, options);
    while let Some(change) = reader.next_change().map_err(ExtractError::Read)? {
        extraction.count();
        match &change {
            Change::Add(entry) => extraction.add(entry, reader)?,
            Change::Whiteout(path) => extraction.whiteout(path)?,
            Change::Opaque(path) => extraction.opaque(path)?,
        }
    }
    extraction.finish()
}

pub(crate) struct Extraction<'a> {
    pub(crate) root: BorrowedFd<'a>,
    pub(crate) options: ExtractOptions,
    pub(crate) dirs: Dirs<'a>,
    maker: Maker,
    pub(crate) fixups: Fixups,
    pub(crate) made: Made,
    done: Extracted,
}

impl<'a> Extraction<'a> {
    /// Starts an extraction into a directory that is open for reading.
    pub(crate) fn new(root: &'a OwnedFd, options: &ExtractOptions) -> Self {
        Self {
            root: root.as_fd(),
            options: *options,
            dirs: Dirs::new(root.as_fd()),
            maker: Maker::new(root.as_fd(), options.owner),
            fixups: Fixups::default(),
            made: Made::default(),
            done: Extracted::default(),
        }
    }

    /// Counts a change.
    pub(crate) fn count(&mut self) {
        self.done.changes += 1;
    }

    pub(crate) fn finish(mut self) -> Result<Extracted, ExtractError> {
        self.done.attributes_skipped = self.maker.attributes_skipped;
        match self.fixups.apply(self.root, &mut self.dirs) {
            Ok(()) => Ok(self.done),
            Err((path, source)) => Err(ExtractError::Metadata {
                what: "mode and time",
                path,
                source,
            }),
        }
    }

    pub(crate) fn add(&mut self, entry: &Entry, contents: &mut impl Contents) -> Result<(), ExtractError> {
        let Some((parent, name)) = entry.path.split_last() else {
            return self.root_entry(entry);
        };
        let dir = self.parent(&entry.path, parent)?;
        if self.options.whiteouts == Whiteouts::Apply {
            self.made.insert(&entry.path);
        }
        match &entry.kind {
            Kind::File { size } => self.file(&dir, name, entry, *size, contents),
            Kind::Directory => self.directory(&dir, name, entry),
            Kind::Symlink { target } => self.symlink(&dir, name, entry, target),
            Kind::Hardlink { target } => self.hard_link(&dir, name, entry, target),
            Kind::Character { major, minor } => self.node(
                &dir,
                name,
                entry,
                FileType::CharacterDevice,
                rustix::fs::makedev(*major, *minor),
            ),
            Kind::Block { major, minor } => self.node(
                &dir,
                name,
                entry,
                FileType::BlockDevice,
                rustix::fs::makedev(*major, *minor),
            ),
            Kind::Fifo => self.node(&dir, name, entry, FileType::Fifo, 0),
        }
    }

    /// Returns the directory that holds the path. Missing directories are created, because archives may leave them
    /// out.
    pub(crate) fn parent(&mut self, path: &EntryPath, parent: &[u8]) -> Result<Rc<Dir>, ExtractError> {
        let failed = |source| ExtractError::Make {
            what: "directory of",
            path: path.clone(),
            source,
        };
        match self.dirs.get(parent) {
            Err(Errno::NOENT) => {}
            answer => return answer.map_err(failed),
        }
        for end in (0..parent.len())
            .filter(|at| parent[*at] == b'/')
            .chain([parent.len()])
        {
            let (above, name) = match parent[..end].iter().rposition(|byte| *byte == b'/') {
                Some(slash) => (&parent[..slash], &parent[slash + 1..end]),
                None => (&[][..], &parent[..end]),
            };
            let above = self.dirs.get(above).map_err(failed)?;
            match rustix::fs::mkdirat(&*above, name, Mode::from_raw_mode(0o755)) {
                Ok(()) => self.implied(&above, name).map_err(failed)?,
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        self.dirs.get(parent).map_err(failed)
    }

    /// Sets the owner of a directory that the archive left out: root, or the fixed owner of all entries.
    fn implied(&self, dir: &Dir, name: &[u8]) -> Result<(), Errno> {
        let entry = Entry::new(EntryPath::root(), Kind::Directory);
        let Some((uid, gid)) = self.maker.owner_of(&entry, dir.group) else {
            return Ok(());
        };
        let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
        rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
    }

    fn root_entry(&mut self, entry: &Entry) -> Result<(), ExtractError> {
        if self.options.keep_root {
            return Ok(());
        }
        if entry.kind != Kind::Directory {
            return Err(ExtractError::Overwrite {
                path: entry.path.clone(),
                old: "directory",
                new: "non-directory",
            });
        }
        let root = self.root;
        self.existing_directory(root, entry)
    }

    fn file(
        &mut self,
        dir: &Dir,
        name: &[u8],
        entry: &Entry,
        size: u64,
        contents: &mut impl Contents,
    ) -> Result<(), ExtractError> {
        let (create, mode) = self.maker.modes(entry);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = self.make(dir, name, entry, "file", || {
            rustix::fs::openat(dir, name, flags, create)
        })?;
        self.done.bytes += contents.fill(&file, entry, size)?;
        let owner = self.maker.owner_of(entry, dir.group);
        self.maker
            .finish(file.as_fd(), entry, owner, mode)
            .map_err(|failed| metadata(entry, failed))
    }

    fn directory(&mut self, dir: &Dir, name: &[u8], entry: &Entry) -> Result<(), ExtractError> {
        let wanted = self.maker.mode(entry);
        // The owner must be able to create entries in it until the end; and in a setgid directory it becomes
        // setgid.
        let at_once = self.maker.mask.leaves(wanted) && wanted & 0o300 == 0o300 && dir.group.is_none();
        let create = if at_once { wanted } else { 0o700 };
        match rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(create)) {
            Ok(()) => {}
            Err(Errno::EXIST) => match open_child(dir, name) {
                Ok(fd) => return self.existing_directory(fd.as_fd(), entry),
                Err(Errno::NOTDIR | Errno::LOOP) => return self.directory_instead(dir, name, entry),
                Err(source) => return Err(made("directory", entry, source)),
            },
            Err(source) => return Err(made("directory", entry, source)),
        }
        let owner = self.maker.owner_of(entry, dir.group);
        if owner.is_some() || !entry.xattrs.is_empty() {
            let fd = open_child(dir, name).map_err(|source| made("directory", entry, source))?;
            let set = self.maker.own_and_attributes(fd.as_fd(), entry, owner);
            set.map_err(|failed| metadata(entry, failed))?;
        }
        let mode = (!at_once).then_some(Mode::from_raw_mode(wanted));
        self.fixups.note(&entry.path, entry.mtime, mode);
        Ok(())
    }

    /// Puts a directory in the place of another entry, which may be a whiteout from earlier in the same layer.
    fn directory_instead(&mut self, dir: &Dir, name: &[u8], entry: &Entry) -> Result<(), ExtractError> {
        let hides = match self.options.whiteouts {
            Whiteouts::Apply => None,
            Whiteouts::Overlay { user_xattr } => {
                let found = is_whiteout(dir, name).map_err(|errno| made("directory", entry, errno))?;
                found.then_some(user_xattr)
            }
        };
        self.replace(dir, name, entry)?;
        self.directory(dir, name, entry)?;
        match hides {
            Some(user_xattr) => self.mark_opaque(dir, name, &entry.path, user_xattr),
            None => Ok(()),
        }
    }

    fn existing_directory(&mut self, fd: BorrowedFd<'_>, entry: &Entry) -> Result<(), ExtractError> {
        // The present metadata are unknown, so everything is set.
        let owner = self.maker.wanted_owner(entry);
        let set = self.maker.own_and_attributes(fd, entry, owner);
        set.map_err(|failed| metadata(entry, failed))?;
        let mode = Mode::from_raw_mode(self.maker.mode(entry));
        self.fixups.note(&entry.path, entry.mtime, Some(mode));
        Ok(())
    }

    fn symlink(&mut self, dir: &Dir, name: &[u8], entry: &Entry, target: &[u8]) -> Result<(), ExtractError> {
        self.make(dir, name, entry, "symbolic link", || {
            rustix::fs::symlinkat(target, dir, name)
        })?;
        let owner = self.maker.owner_of(entry, dir.group);
        let finished = self.maker.finish_link(dir.as_fd(), name, entry, owner);
        finished.map_err(|failed| metadata(entry, failed))
    }

    /// Makes a hard link. Its metadata are skipped: they are those of the file, which are set already.
    fn hard_link(
        &mut self,
        dir: &Dir,
        name: &[u8],
        entry: &Entry,
        target: &EntryPath,
    ) -> Result<(), ExtractError> {
        let failed = |source| ExtractError::Link {
            path: entry.path.clone(),
            target: target.clone(),
            source,
        };
        // A link to itself is refused, because making room for it would remove the target.
        let (target_parent, target_name) = target.split_last().ok_or_else(|| failed(Errno::PERM))?;
        if *target == entry.path {
            return Err(failed(Errno::NOENT));
        }
        let from = self.dirs.get(target_parent).map_err(failed)?;
        // Without AT_SYMLINK_FOLLOW, a link to a symbolic link becomes one more name of it.
        let link = || rustix::fs::linkat(&*from, target_name, dir, name, AtFlags::empty());
        match link() {
            Err(Errno::EXIST) => {
                self.replace(dir, name, entry)?;
                link().map_err(failed)
            }
            answer => answer.map_err(failed),
        }
    }

    fn node(
        &mut self,
        dir: &Dir,
        name: &[u8],
        entry: &Entry,
        kind: FileType,
        device: u64,
    ) -> Result<(), ExtractError> {
        let is_device = kind != FileType::Fifo;
        let skips = self.options.devices == Devices::Skip || !self.options.owner.keeps_rights();
        if is_device && skips {
            self.done.devices_skipped += 1;
            return Ok(());
        }
        let what = if is_device { "device" } else { "fifo" };
        let (create, mode) = self.maker.modes(entry);
        let made = self.make(dir, name, entry, what, || {
            rustix::fs::mknodat(dir, name, kind, create, device)
        });
        match made {
            Err(ExtractError::Make {
                source: Errno::PERM, ..
            }) if is_device && self.options.devices == Devices::IfPermitted => {
                self.done.devices_skipped += 1;
                return Ok(());
            }
            made => made?,
        }
        let owner = self.maker.owner_of(entry, dir.group);
        let finished = self.maker.finish_special(dir.as_fd(), name, entry, owner, mode);
        finished.map_err(|failed| metadata(entry, failed))
    }

    /// Creates an entry, and makes room for it if the name exists.
    fn make<T>(
        &mut self,
        dir: &Dir,
        name: &[u8],
        entry: &Entry,
        what: &'static str,
        make: impl Fn() -> Result<T, Errno>,
    ) -> Result<T, ExtractError> {
        let answer = match make() {
            Err(Errno::EXIST) => {
                self.replace(dir, name, entry)?;
                make()
            }
            answer => answer,
        };
        answer.map_err(|source| made(what, entry, source))
    }

    /// Removes the existing entry of the name, if the new one may replace it.
    fn replace(&mut self, dir: &Dir, name: &[u8], entry: &Entry) -> Result<(), ExtractError> {
        if self.options.overwrite == Overwrite::SameKind {
            let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
            let stat = stat.map_err(|source| ExtractError::Remove {
                path: entry.path.clone(),
                source,
            })?;
            let kinds = ["non-directory", "directory"];
            let old = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            let new = entry.kind == Kind::Directory;
            if old != new {
                let (old, new) = (kinds[usize::from(old)], kinds[usize::from(new)]);
                return Err(ExtractError::Overwrite {
                    path: entry.path.clone(),
                    old,
                    new,
                });
            }
        }
        self.remove(dir, name, &entry.path)?;
        if self.options.whiteouts == Whiteouts::Apply {
            self.made.insert(&entry.path);
        }
        Ok(())
    }

    /// Removes an entry with everything below it, also from the caches.
    pub(crate) fn remove(
        &mut self,
        dir: impl AsFd,
        name: &[u8],
        path: &EntryPath,
    ) -> Result<(), ExtractError> {
        let removed = remove_tree(dir, name);
        // The caches forget the entry even if its removal was incomplete.
        self.dirs.forget();
        self.fixups.forget(path);
        self.made.forget(path);
        removed.map_err(|source| ExtractError::Remove {
            path: path.clone(),
            source,
        })
    }

    /// Lists the names in a directory that is about to be emptied.
    pub(crate) fn listed(dir: &OwnedFd, path: &EntryPath) -> Result<Vec<Vec<u8>>, ExtractError> {
        names(dir).map_err(|source| ExtractError::Remove {
            path: path.clone(),
            source,
        })
    }
}
