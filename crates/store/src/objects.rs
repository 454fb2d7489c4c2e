//! The contents of files, each stored once.
//!
//! An object is written under its final name, at first without any permissions, and gets its mode last. An object
//! without mode or of the wrong size is unfinished: a process that needs it writes it anew under another name and
//! renames. So a file needs neither rename nor sync, and no crash leaves half an object that looks complete.

use crate::StoreError;
use crate::dir::{Dir, UNFINISHED, write_all};
use crate::fault::step;
use crate::key::{Attributes, ContentHash, Key, Owners};
use crate::share::HostFiles;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Gid, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::io::{ErrorKind, Read as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tote_archive::EntryPath;
use tote_sys::best_effort;

/// Minimum length in bytes of a run of zeros that becomes a hole.
const HOLE: usize = 32 << 10;

/// Objects of files by the paths at which they are expected, each with its size.
pub(crate) type Expected = HashMap<EntryPath, (Key, u64)>;

#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) dir: Dir,
    owners: Owners,
    pub(crate) host: HostFiles,
    /// User and group of this process, the initial owner of new files.
    own: (u32, u32),
    /// True if a damaged object was replaced.
    pub(crate) replaced: AtomicBool,
    /// Objects that this process has written or compared since it may add to the store: they need no second look.
    seen: Mutex<HashSet<Key>>,
    /// Files that are about to come, because they are read out of the store.
    expected: Mutex<Expected>,
}

/// Origin of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The store had it already.
    Found,
    /// Written into the store.
    Written,
    /// Linked to a file of the host, or shares blocks with one.
    Host,
}

impl Objects {
    pub(crate) fn new(dir: Dir, owners: Owners, host: HostFiles) -> Self {
        let own = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        Self {
            dir,
            owners,
            host,
            own,
            replaced: AtomicBool::new(false),
            seen: Mutex::default(),
            expected: Mutex::default(),
        }
    }

    /// Notes that an object is whole. It stays so for as long as nothing is swept away, which the caller's right to add
    /// excludes.
    pub(crate) fn note_seen(&self, key: &Key) {
        self.seen().insert(*key);
    }

    /// Forgets which objects are whole and which files are expected: a right to add ends.
    pub(crate) fn forget_seen(&self) {
        self.seen().clear();
        self.expect(Expected::new());
    }

    /// Expects these files instead of others.
    pub(crate) fn expect(&self, files: Expected) {
        *self.expected.lock().unwrap_or_else(PoisonError::into_inner) = files;
    }

    /// Returns the key of the file that is expected at a path with this size.
    pub(crate) fn expected_key(&self, path: &EntryPath, size: u64) -> Option<Key> {
        let expected = self.expected.lock().unwrap_or_else(PoisonError::into_inner);
        let found = expected.get(path).filter(|(_, known)| *known == size);
        found.map(|(key, _)| *key)
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, HashSet<Key>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a content in memory, of which these are the pieces, under its key. `path` is its path in the image; the host may
    /// have the same file there.
    pub(crate) fn put(
        &self,
        key: &Key,
        content: &[&[u8]],
        attributes: &Attributes,
        path: &EntryPath,
    ) -> Result<Origin, StoreError> {
        let size = content.iter().map(|piece| piece.len() as u64).sum();
        let name = key.name(0);
        // A file without permissions cannot show by its mode that it is finished.
        if attributes.mode != 0 {
            if self.host.may_have(path, size)
                && !self.is_whole(&name, size, attributes)
                && self.take_from_host(path, key, size, attributes)?
            {
                return Ok(Origin::Host);
            }
            match self.create(&name) {
                Ok(file) => {
                    let filled = content.iter().try_for_each(|piece| write_all(&file, piece));
                    let filled = filled.map_err(self.dir.failed("write", &name));
                    filled.and_then(|()| self.set_attributes(&file, attributes, Path::new(&name)))?;
                    return Ok(Origin::Written);
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.dir.failed("make", name)(errno)),
            }
        }
        if self.is_whole(&name, size, attributes) && self.has_content(&name, content) {
            return Ok(Origin::Found);
        }
        let mut incoming = self.incoming()?;
        content.iter().try_for_each(|piece| incoming.write(piece))?;
        incoming.finish(key, attributes, path)
    }

    /// Creates an object's file, and its directory if it is missing.
    fn create(&self, name: &str) -> Result<OwnedFd, Errno> {
        match self.dir.create(name, 0) {
            Err(Errno::NOENT | Errno::NOTDIR) => {
                self.make_shard(name)?;
                self.dir.create(name, 0)
            }
            created => created,
        }
    }

    pub(crate) fn make_shard(&self, name: &str) -> Result<(), Errno> {
        let shard = &name[..2];
        match self.dir.make(shard, 0o755) {
            Err(Errno::EXIST) => {}
            made => return made,
        }
        let there = self.dir.stat(shard)?;
        if FileType::from_raw_mode(there.st_mode) == FileType::Directory {
            return Ok(());
        }
        self.dir.unlink(shard)?;
        self.dir.make(shard, 0o755)
    }

    /// Begins a content that is too large for memory, and comes in pieces.
    pub(crate) fn incoming(&self) -> Result<Incoming<'_>, StoreError> {
        let (file, name) = self.dir.create_unfinished()?;
        Ok(Incoming {
            objects: self,
            file,
            name,
            size: 0,
            written: 0,
        })
    }

    /// True if an object is finished, has the right size, and seems unchanged by its inode.
    pub(crate) fn is_whole(&self, name: &str, size: u64, attributes: &Attributes) -> bool {
        // absence: the object is written once more
        self.dir
            .stat(name)
            .is_ok_and(|stat| is_unchanged(&stat, size, attributes))
    }

    /// True if an object has this content. The size does not suffice: data written shortly before a power cut may
    /// be other bytes, and a file that was changed in place may have its old time again.
    fn has_content(&self, name: &str, content: &[&[u8]]) -> bool {
        let Ok(file) = self.dir.open_file(name) else {
            return false;
        };
        let mut file = std::fs::File::from(file);
        let mut buffer = [0; 32 << 10];
        let mut has_next = |expected: &[u8]| {
            let found = &mut buffer[..expected.len()];
            file.read_exact(found).is_ok() && found == expected
        };
        content
            .iter()
            .flat_map(|piece| piece.chunks(32 << 10))
            .all(&mut has_next)
            && is_at_end(&mut file)
    }

    /// True if an object's content has this hash.
    pub(crate) fn has_hash(&self, name: &str, hash: &ContentHash) -> bool {
        let file = self.dir.open_file(name);
        file.is_ok_and(|file| crate::key::has_hash(&file, hash).unwrap_or(false))
    }

    /// Makes another copy of an object, for a second inode of the same content and attributes.
    pub(crate) fn copy(
        &self,
        key: &Key,
        copy: u32,
        size: u64,
        attributes: &Attributes,
    ) -> Result<(), StoreError> {
        let name = key.name(copy);
        if self.is_whole(&name, size, attributes) && (size == 0 || self.has_hash(&name, &key.content)) {
            return Ok(());
        }
        let source = key.name(0);
        let from = self
            .dir
            .open_file(&source)
            .map_err(self.dir.failed("open", &source))?;
        let (to, unfinished) = self.dir.create_unfinished()?;
        let made = duplicate(&from, &to).map_err(self.dir.failed("copy", &source));
        made.and_then(|()| self.set_attributes(&to, attributes, Path::new(&name)))?;
        self.dir
            .rename(&unfinished, &self.dir, &name)
            .map_err(self.dir.failed("make", &name))
    }

    /// Sets all attributes. The mode comes last, since it marks an object as finished.
    pub(crate) fn set_attributes(
        &self,
        file: &OwnedFd,
        attributes: &Attributes,
        path: &Path,
    ) -> Result<(), StoreError> {
        self.set_all_but_mode(file, attributes, path)?;
        let set = step().and_then(|()| rustix::fs::fchmod(file, Mode::from_raw_mode(attributes.mode)));
        set.map_err(self.dir.failed("set the mode of", path))
    }

    /// Sets all attributes but the mode. The owner comes first, since changing it clears set-id bits and capabilities.
    pub(crate) fn set_all_but_mode(
        &self,
        file: &OwnedFd,
        attributes: &Attributes,
        path: &Path,
    ) -> Result<(), StoreError> {
        self.set_owner(attributes, path, |uid, gid| rustix::fs::fchown(file, uid, gid))?;
        let failed = |attempt| self.dir.failed(attempt, path);
        set_xattrs(file, attributes).map_err(failed("set extended attributes of"))?;
        let set = step().and_then(|()| rustix::fs::futimens(file, &times(attributes)));
        set.map_err(failed("set the times of"))
    }

    /// Sets the owner of an entry, unless it is the caller.
    pub(crate) fn set_owner(
        &self,
        attributes: &Attributes,
        path: &Path,
        chown: impl FnOnce(Option<Uid>, Option<Gid>) -> Result<(), Errno>,
    ) -> Result<(), StoreError> {
        let (uid, gid) = (attributes.uid, attributes.gid);
        if self.owners == Owners::Caller || (uid, gid) == self.own {
            return Ok(());
        }
        // The highest number is not an id: chown(2) takes it for "leave as it is".
        let changed = if uid == u32::MAX || gid == u32::MAX {
            Err(Errno::INVAL)
        } else {
            step().and_then(|()| chown(Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))))
        };
        changed.map_err(|source| StoreError::Owner {
            path: path.to_owned(),
            uid,
            gid,
            source,
        })
    }
}

/// True if nothing is left to read.
fn is_at_end(file: &mut std::fs::File) -> bool {
    matches!(file.read_exact(&mut [0]), Err(error) if error.kind() == ErrorKind::UnexpectedEof)
}

/// True if an inode matches an object of that size and these attributes. Times are compared by seconds, and only if
/// every file system can represent them.
pub(crate) fn is_unchanged(stat: &Stat, size: u64, attributes: &Attributes) -> bool {
    let is_common = (0..=i64::from(i32::MAX)).contains(&attributes.mtime.secs);
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && u64::try_from(stat.st_size) == Ok(size)
        && stat.st_mode & 0o7777 == attributes.mode
        && (!is_common || stat.st_mtime == attributes.mtime.secs)
}

/// Returns the times to set; the access time does not matter and is set to 0.
pub(crate) fn times(attributes: &Attributes) -> Timestamps {
    let mtime = attributes.mtime;
    Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: mtime.secs,
            tv_nsec: i64::from(mtime.nanos),
        },
    }
}

/// Sets extended attributes. On a file system without them they are left out; the key still covers those of the
/// image.
pub(crate) fn set_xattrs(file: impl AsFd, attributes: &Attributes) -> Result<(), Errno> {
    for (name, value) in &attributes.xattrs {
        step()?;
        match rustix::fs::fsetxattr(&file, name.as_slice(), value, XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Copies a file, by sharing its blocks if the file system can.
pub(crate) fn duplicate(from: &OwnedFd, to: &OwnedFd) -> Result<(), Errno> {
    step()?;
    if rustix::fs::ioctl_ficlone(to, from).is_ok() {
        return Ok(());
    }
    loop {
        match rustix::fs::sendfile(to, from, None, 1 << 20) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// An unfinished object, under a name that a sweep would remove.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    objects: &'a Objects,
    file: OwnedFd,
    name: String,
    size: u64,
    /// End of the data on disk; less than `size` after a hole.
    written: u64,
}

impl Incoming<'_> {
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        let mut offset = self.size;
        self.size += bytes.len() as u64;
        if bytes.len() >= HOLE && bytes.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let failed = |errno| self.objects.dir.failed("write", &self.name)(errno);
        step().map_err(failed)?;
        let mut rest = bytes;
        while !rest.is_empty() {
            match rustix::io::pwrite(&self.file, rest, offset) {
                Ok(0) => return Err(failed(Errno::IO)),
                Ok(written) => {
                    offset += written as u64;
                    rest = &rest[written..];
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(errno)),
            }
        }
        self.written = self.size;
        Ok(())
    }

    /// Fills it with the content of another object, which has this size.
    pub(crate) fn fill(&mut self, name: &str, size: u64) -> Result<(), StoreError> {
        let dir = &self.objects.dir;
        let from = dir.open_file(name).map_err(dir.failed("open", name))?;
        duplicate(&from, &self.file).map_err(dir.failed("copy", name))?;
        (self.size, self.written) = (size, size);
        Ok(())
    }

    /// Finishes the object and gives it its name. `key` must be that of the written content. An existing object is
    /// kept.
    pub(crate) fn finish(
        self,
        key: &Key,
        attributes: &Attributes,
        path: &EntryPath,
    ) -> Result<Origin, StoreError> {
        let dir = &self.objects.dir;
        let name = key.name(0);
        if self.objects.is_whole(&name, self.size, attributes) && self.objects.has_hash(&name, &key.content) {
            return Ok(Origin::Found);
        }
        if self.objects.take_from_host(path, key, self.size, attributes)? {
            return Ok(Origin::Host);
        }
        if self.written < self.size {
            // ftruncate(2) is not used: its size could reach the disk before the content, and a power cut would
            // leave a file of the right size without any data. The last byte needs a block, which is written after
            // those before it.
            let last = step().and_then(|()| rustix::io::pwrite(&self.file, &[0], self.size - 1));
            last.map_err(dir.failed("write", &self.name))?;
        }
        self.objects
            .set_attributes(&self.file, attributes, Path::new(&self.name))?;
        if !matches!(dir.stat(&name), Err(Errno::NOENT | Errno::NOTDIR)) {
            // The existing object is unfinished or damaged, so trees that contain it must be checked.
            self.objects.replaced.store(true, Ordering::Relaxed);
            // Its layers may be recorded as being on the disk, so this object must be too. This case is rare.
            rustix::fs::fdatasync(&self.file).map_err(dir.failed("sync", &self.name))?;
        }
        match dir.rename(&self.name, dir, &name) {
            Err(Errno::NOENT | Errno::NOTDIR) => {
                self.objects
                    .make_shard(&name)
                    .map_err(dir.failed("make", &name))?;
                dir.rename(&self.name, dir, &name)
            }
            renamed => renamed,
        }
        .map_err(dir.failed("make", &name))?;
        Ok(Origin::Written)
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        // After a rename the name is free, and no other file gets it.
        debug_assert!(self.name.starts_with(UNFINISHED));
        best_effort(self.objects.dir.unlink(&self.name));
    }
}
