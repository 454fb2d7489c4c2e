//! The contents of files, each once.
//!
//! An object is written under its final name, at first with no permission at all, and gets its mode last: what has no
//! mode, or not its size, is unfinished, and whoever needs it writes it anew beside it and renames. So a file costs no
//! rename and no sync, and no crash leaves a half object that looks whole.

use crate::StoreError;
use crate::dir::{Dir, UNFINISHED, write_all};
use crate::fault::step;
use crate::key::{Attributes, ContentHash, Key, Owners};
use crate::share::HostFiles;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Gid, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use tote_archive::EntryPath;
use tote_sys::best_effort;

/// Runs of zeros of at least this size become holes.
const HOLE: usize = 32 << 10;

#[derive(Debug)]
pub(crate) struct Objects {
    pub(crate) dir: Dir,
    owners: Owners,
    pub(crate) host: HostFiles,
    /// Who makes the files, and so owns them until somebody else is given them.
    own: (u32, u32),
    /// Whether an object was put in the place of one that was not what its name says.
    pub(crate) replaced: AtomicBool,
}

/// How an object came to be in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// It was there.
    Found,
    /// It was written.
    Written,
    /// It is one of the host's files, or shares its blocks.
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
        }
    }

    /// Stores a content that is in memory, and whose key that is. `path` is where the image has it; the host may have the
    /// same there.
    pub(crate) fn put(
        &self,
        key: &Key,
        content: &[u8],
        attributes: &Attributes,
        path: &EntryPath,
    ) -> Result<Origin, StoreError> {
        let size = content.len() as u64;
        let name = key.name(0);
        // A file that is to have no permissions cannot show by them that it is finished.
        if attributes.mode != 0 {
            if self.host.may_have(path, size)
                && !self.is_whole(&name, size, attributes)
                && self.take_from_host(path, key, size, attributes)?
            {
                return Ok(Origin::Host);
            }
            match self.create(&name) {
                Ok(file) => {
                    let filled = write_all(&file, content).map_err(self.dir.failed("write", &name));
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
        incoming.write(content)?;
        incoming.finish(key, attributes, path)
    }

    /// Makes an object's file, and the directory that it is in.
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

    /// A content too large for memory, which comes in pieces.
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

    /// Whether an object is there, finished, of the right size, and as far as its inode says not changed since.
    pub(crate) fn is_whole(&self, name: &str, size: u64, attributes: &Attributes) -> bool {
        self.dir
            .stat(name)
            .is_ok_and(|stat| is_unchanged(&stat, size, attributes))
    }

    /// Whether an object has that content. A size does not tell: what was written shortly before a power cut may be other
    /// bytes, and what somebody has changed in place may have its old time again.
    fn has_content(&self, name: &str, content: &[u8]) -> bool {
        let Ok(file) = self.dir.open_file(name) else {
            return false;
        };
        let mut buffer = [0; 32 << 10];
        let mut rest = content;
        loop {
            match rustix::io::read(&file, &mut buffer) {
                Ok(0) => return rest.is_empty(),
                Ok(read) => match rest.strip_prefix(&buffer[..read]) {
                    Some(after) => rest = after,
                    None => return false,
                },
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }

    /// The same for whoever has only the hash.
    fn has_hash(&self, name: &str, hash: &ContentHash) -> bool {
        let file = self.dir.open_file(name);
        file.is_ok_and(|file| crate::verify::content(file).is_ok_and(|found| found == *hash))
    }

    /// Makes one more copy of an object, for a second inode of the same content and attributes.
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

    /// The owner first, since changing it clears set-id bits and capabilities; the mode last, since it says that the
    /// object is finished.
    pub(crate) fn set_attributes(
        &self,
        file: &OwnedFd,
        attributes: &Attributes,
        path: &Path,
    ) -> Result<(), StoreError> {
        self.set_owner(attributes, path, |uid, gid| rustix::fs::fchown(file, uid, gid))?;
        let failed = |attempt| self.dir.failed(attempt, path);
        set_xattrs(file, attributes).map_err(failed("set extended attributes of"))?;
        let set = step().and_then(|()| rustix::fs::futimens(file, &times(attributes)));
        set.map_err(failed("set the times of"))?;
        let set = step().and_then(|()| rustix::fs::fchmod(file, Mode::from_raw_mode(attributes.mode)));
        set.map_err(failed("set the mode of"))
    }

    /// Gives something to its owner, where that is not the caller anyway.
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
        // The last number is no id: chown(2) takes it for "leave as it is".
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

/// Whether an inode has what an object of that size and these attributes has. Times are compared by seconds, and only
/// those that every file system can have.
pub(crate) fn is_unchanged(stat: &Stat, size: u64, attributes: &Attributes) -> bool {
    let is_common = (0..=i64::from(i32::MAX)).contains(&attributes.mtime.secs);
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && u64::try_from(stat.st_size) == Ok(size)
        && stat.st_mode & 0o7777 == attributes.mode
        && (!is_common || stat.st_mtime == attributes.mtime.secs)
}

/// The modification time; the access time is nobody's business.
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

/// On a file system without extended attributes there are none; the key still says what the image has.
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

/// Copies a file, by sharing its blocks where the file system can.
fn duplicate(from: &OwnedFd, to: &OwnedFd) -> Result<(), Errno> {
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

/// An object in the making, under a name that a sweep would remove.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    objects: &'a Objects,
    file: OwnedFd,
    name: String,
    size: u64,
    /// Up to where there is something on disk; less than `size` after a hole.
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

    /// The object under its name, whose key is that of what was written. One that is there already stays.
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
            // Not by ftruncate(2): its size would be durable before its content, and a power cut would leave a file of the
            // right size without a byte. The last byte takes a block, and comes after what is before it.
            let last = step().and_then(|()| rustix::io::pwrite(&self.file, &[0], self.size - 1));
            last.map_err(dir.failed("write", &self.name))?;
        }
        self.objects
            .set_attributes(&self.file, attributes, Path::new(&self.name))?;
        if !matches!(dir.stat(&name), Err(Errno::NOENT | Errno::NOTDIR)) {
            // Unfinished, or not what its name says: trees that have it are to be looked at.
            self.objects.replaced.store(true, Ordering::Relaxed);
            // Its layers may be known to be on the disk; so is this one, then. It happens once.
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
        // After a rename the name is free, and is not given twice.
        debug_assert!(self.name.starts_with(UNFINISHED));
        best_effort(self.objects.dir.unlink(&self.name));
    }
}
