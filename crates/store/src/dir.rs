//! An open directory of the store.
//!
//! Every operation of the store on the file system goes through this module, so that tests can make each one fail
//! ([`crate::fault`]) and errors have a path to name. Names are relative to the descriptor; a symbolic link at the
//! end of a name is never followed.

use crate::StoreError;
use crate::error::is_gone;
use crate::fault::step;
use crate::removal::remove_any;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use std::io::{ErrorKind, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Prefix of the names of unfinished files. A sweep removes them.
pub(crate) const UNFINISHED: &str = ".new-";

/// Prefix of the names of files that exist while a process adds an image.
pub(crate) const ADDING: &str = ".adding-";

#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    path: PathBuf,
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Dir {
    /// Opens a directory by its path.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(CWD, path, flags, Mode::empty());
        let fd = opened.map_err(|errno| StoreError::io("open", path.to_owned(), errno))?;
        Ok(Self {
            fd,
            path: path.to_owned(),
        })
    }

    /// Opens a subdirectory.
    pub(crate) fn enter(&self, name: &str) -> Result<Self, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd =
            rustix::fs::openat(&self.fd, name, flags, Mode::empty()).map_err(self.failed("open", name))?;
        Ok(Self {
            fd,
            path: self.path.join(name),
        })
    }

    /// Opens a directory only to look into it, also where its owner, another of a user's ids, has closed it: a container's root may look
    /// into it all the same.
    pub(crate) fn enter_closed(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(&self.fd, name, flags, Mode::empty()) {
            Err(Errno::ACCESS) => rustix::fs::openat(&self.fd, name, flags | OFlags::PATH, Mode::empty()),
            opened => opened,
        }
    }

    /// Opens a subdirectory, and creates it if it is missing.
    pub(crate) fn enter_or_make(&self, name: &str, mode: u32) -> Result<Self, StoreError> {
        match self.enter(name) {
            Err(error) if error.errno() == Some(Errno::NOENT) => {
                match self.make(name, mode) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(self.failed("make", name)(errno)),
                }
                self.enter(name)
            }
            entered => entered,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Builds the error of an attempt on an entry of this directory.
    pub(crate) fn failed<N: AsRef<Path>>(
        &self,
        attempt: &'static str,
        name: N,
    ) -> impl FnOnce(Errno) -> StoreError + use<'_, N> {
        // The path is built only for an error: few attempts fail, and there are many files.
        move |errno| StoreError::io(attempt, self.path.join(name), errno)
    }

    /// Creates a directory with exactly that mode.
    pub(crate) fn make(&self, name: &str, mode: u32) -> Result<(), Errno> {
        step()?;
        rustix::fs::mkdirat(&self.fd, name, Mode::from_raw_mode(mode))
    }

    /// Creates a file that must not exist, open for reading and writing.
    pub(crate) fn create(&self, name: &str, mode: u32) -> Result<OwnedFd, Errno> {
        step()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, name, flags, Mode::from_raw_mode(mode))
    }

    /// Creates a file with a new name, which a sweep would remove.
    pub(crate) fn create_unfinished(&self) -> Result<(OwnedFd, String), StoreError> {
        self.create_numbered(UNFINISHED)
    }

    /// Creates a file with a new name that has this prefix.
    pub(crate) fn create_numbered(&self, prefix: &str) -> Result<(OwnedFd, String), StoreError> {
        loop {
            let name = numbered(prefix);
            match self.create(&name, 0o600) {
                Ok(file) => return Ok((file, name)),
                // A killed process of the same number left the name behind.
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.failed("make", name)(errno)),
            }
        }
    }

    /// Creates a directory with a new name, which a sweep would remove.
    pub(crate) fn make_unfinished(&self) -> Result<(Self, String), StoreError> {
        loop {
            let name = numbered(UNFINISHED);
            match self.make(&name, 0o700) {
                Ok(()) => return Ok((self.enter(&name)?, name)),
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(self.failed("make", name)(errno)),
            }
        }
    }

    pub(crate) fn open_file(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(&self.fd, name, flags, Mode::empty())
    }

    pub(crate) fn stat(&self, name: &str) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// True if the entry can be examined. Only for callers that do no harm if an existing entry counts as missing.
    pub(crate) fn has(&self, name: &str) -> bool {
        // absence: only for callers that do no harm if an existing entry counts as missing
        self.stat(name).is_ok()
    }

    /// Returns the bytes that a file has on disk.
    pub(crate) fn space(&self, name: &str) -> u64 {
        // absence: an object that a sweep has just removed counts as 0
        let blocks = self.stat(name).map_or(0, |stat| stat.st_blocks);
        // stat(2) counts in units of 512 bytes, whatever the file system's block size.
        u64::try_from(blocks).unwrap_or_default() * 512
    }

    /// Asks whether an entry exists.
    ///
    /// # Errors
    /// [`StoreError::Io`] for every failure except ENOENT: a caller that took it for absence would remove the
    /// entry.
    pub(crate) fn is_there(&self, name: &str) -> Result<bool, StoreError> {
        match self.stat(name) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(self.failed("look at", name)(errno)),
        }
    }

    /// Renames an entry. An existing entry of the new name is replaced, also if it is of another kind: on a file
    /// system without a journal a power cut can leave names that lead to an inode which was used again.
    pub(crate) fn rename(&self, from: &str, to: &Self, name: &str) -> Result<(), Errno> {
        step()?;
        match rustix::fs::renameat(&self.fd, from, &to.fd, name) {
            Err(Errno::ISDIR | Errno::NOTDIR) => {
                remove_any(to, name)?;
                rustix::fs::renameat(&self.fd, from, &to.fd, name)
            }
            renamed => renamed,
        }
    }

    /// Renames a file, unless the new name exists.
    pub(crate) fn rename_to_free(&self, from: &str, to: &Self, name: &str) -> Result<(), Errno> {
        step()?;
        rustix::fs::renameat_with(&self.fd, from, &to.fd, name, RenameFlags::NOREPLACE)
    }

    /// Exchanges two entries.
    pub(crate) fn exchange(&self, one: &str, other: &str) -> Result<(), Errno> {
        step()?;
        rustix::fs::renameat_with(&self.fd, one, &self.fd, other, RenameFlags::EXCHANGE)
    }

    pub(crate) fn link(&self, from: &str, to: impl AsFd, name: &[u8]) -> Result<(), Errno> {
        step()?;
        rustix::fs::linkat(&self.fd, from, to, name, AtFlags::empty())
    }

    /// Removes a file, or another entry in its place; a missing one is accepted.
    pub(crate) fn unlink(&self, name: &str) -> Result<(), Errno> {
        step()?;
        match tote_sys::unlink(&self.fd, name.as_bytes(), AtFlags::empty()) {
            Err(errno) if is_gone(errno) => Ok(()),
            Err(Errno::ISDIR) => remove_any(self, name),
            result => result,
        }
    }

    /// Removes an entry with everything below it.
    pub(crate) fn remove_tree(&self, name: &str) -> Result<(), StoreError> {
        let failed = self.failed("remove", name);
        step().map_err(|errno| self.failed("remove", name)(errno))?;
        let path = self.path.join(name);
        let removed = match self.stat(name) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                tote_sys::remove_tree(&path)
            }
            Ok(_) => std::fs::remove_file(&path),
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => return Err(failed(errno)),
        };
        removed.map_err(|source| StoreError::Io {
            attempt: "remove",
            path,
            source,
        })
    }

    /// Lists the names, in the order of the file system.
    pub(crate) fn names(&self) -> Result<Vec<String>, StoreError> {
        let entries = self.entries()?.into_iter();
        Ok(entries.map(|(_, name)| name).collect())
    }

    /// Lists the names as [`Dir::names`] does, each with the number of its inode.
    pub(crate) fn entries(&self) -> Result<Vec<(u64, String)>, StoreError> {
        let mut names = Vec::new();
        let entries = rustix::fs::Dir::read_from(&self.fd).map_err(self.failed("read", ""))?;
        for entry in entries {
            let entry = entry.map_err(self.failed("read", ""))?;
            // Names that are not UTF-8 are not the store's.
            if let Ok(name) = entry.file_name().to_str()
                && name != "."
                && name != ".."
            {
                names.push((entry.ino(), name.to_owned()));
            }
        }
        Ok(names)
    }

    /// Reads a small file; `None` if it does not exist. A directory or a link in its place counts as empty.
    pub(crate) fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, StoreError> {
        let file = match self.open_file(name) {
            Ok(file) => std::fs::File::from(file),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::LOOP) => return Ok(Some(Vec::new())),
            Err(errno) => return Err(self.failed("open", name)(errno)),
        };
        let mut bytes = Vec::new();
        let read = file.take(limit).read_to_end(&mut bytes);
        match read {
            Ok(_) => Ok(Some(bytes)),
            Err(error) if error.kind() == ErrorKind::IsADirectory => Ok(Some(Vec::new())),
            Err(source) => Err(StoreError::Io {
                attempt: "read",
                path: self.path.join(name),
                source,
            }),
        }
    }

    /// Writes a file atomically: readers see the old content or the new one.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let (file, unfinished) = self.create_unfinished()?;
        write_all(&file, bytes).map_err(self.failed("write", name))?;
        self.rename(&unfinished, self, name)
            .map_err(self.failed("write", name))
    }
}

/// Writes all bytes.
pub(crate) fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    step()?;
    while !bytes.is_empty() {
        match rustix::io::write(&file, bytes) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Returns a new name. Only a file that a killed process of the same number left can have it.
pub(crate) fn numbered(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    format!("{prefix}{}-{count}", std::process::id())
}

/// Converts a name to a path.
pub(crate) fn as_path(name: &[u8]) -> &Path {
    Path::new(std::ffi::OsStr::from_bytes(name))
}
