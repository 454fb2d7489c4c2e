//! Copies files of the host's `/etc` that every user may read, and no others.
//!
//! Subdirectories of `/etc` may belong to other accounts, and root copies them. So every step is taken relative to
//! an open directory, never through a symbolic link, and type and mode are checked on the opened file.

use super::error::HostImageError;
use super::etc;
use super::skeleton::Target;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

/// Maximum depth; deeper directories are left out.
const MAX_DEPTH: usize = 12;
/// Maximum size of a file in bytes; larger ones are left out. Certificate bundles and the linker's cache are below
/// 1 MiB.
const MAX_FILE: usize = 8 << 20;
/// Maximum number of entries in all.
const MAX_ENTRIES: usize = 20_000;

const READ_DIR: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);
const READ_FILE: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// State of copying parts of `/etc`.
pub(super) struct EtcCopy<'a> {
    etc: OwnedFd,
    target: &'a Target<'a>,
    entries_left: usize,
}

impl<'a> EtcCopy<'a> {
    /// Opens the host's `/etc`; `None` if not every user may read it.
    pub(super) fn of_etc(root: &Path, target: &'a Target<'a>) -> Result<Option<Self>, HostImageError> {
        let path = root.join("etc");
        let etc = open_directory(rustix::fs::CWD, path.as_os_str());
        let etc = etc.map_err(|source| HostImageError::Build {
            attempt: "open",
            path,
            source,
        })?;
        Ok(etc.map(|etc| EtcCopy {
            etc,
            target,
            entries_left: MAX_ENTRIES,
        }))
    }

    /// Copies all files that `patterns` name, see [`etc::COPIED`].
    pub(super) fn all(&mut self, patterns: &[&str]) -> Result<(), HostImageError> {
        let names = self.names(&self.etc, Path::new("etc"))?;
        for pattern in patterns {
            match pattern.strip_suffix('*') {
                Some(prefix) => {
                    for name in names
                        .iter()
                        .filter(|name| name.as_bytes().starts_with(prefix.as_bytes()))
                    {
                        self.one(Path::new(name))?;
                    }
                }
                None => self.one(Path::new(pattern))?,
            }
        }
        Ok(())
    }

    /// Copies a path below `/etc`, creating its parents.
    fn one(&mut self, path: &Path) -> Result<(), HostImageError> {
        let Some(name) = path.file_name() else {
            return Ok(());
        };
        let again = rustix::fs::openat(&self.etc, ".", READ_DIR, Mode::empty());
        let mut dir = self
            .target
            .failing("open the host's counterpart of", "etc", again)?;
        let mut made = Path::new("etc").to_owned();
        for parent in path.parent().into_iter().flat_map(Path::iter) {
            match self.open_directory(dir.as_fd(), parent, path)? {
                Some(below) => dir = below,
                None => return Ok(()),
            }
            made.push(parent);
            self.target.directory(&made, 0o755)?;
        }
        self.entry(dir.as_fd(), Path::new(name), path, 0)
    }

    /// Copies the entry `name` of `dir`; `path` is its path below `/etc`.
    fn entry(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &Path,
        path: &Path,
        depth: usize,
    ) -> Result<(), HostImageError> {
        if etc::is_denied(path) || depth > MAX_DEPTH || self.entries_left == 0 {
            return Ok(());
        }
        self.entries_left -= 1;
        let to = Path::new("etc").join(path);
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW);
        let Some(stat) = self.seen(&to, stat)? else {
            return Ok(());
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::Symlink => match self.seen(&to, rustix::fs::readlinkat(dir, name, Vec::new()))? {
                Some(link) => self.target.failing(
                    "make the link",
                    &to,
                    rustix::fs::symlinkat(link, self.target.dir, &to),
                ),
                None => Ok(()),
            },
            FileType::RegularFile if is_readable(&stat) => match self.read_public(dir, name, &to)? {
                Some((content, executable)) if !etc::holds_private_key(&content) => {
                    self.target
                        .file(&to, &content, if executable { 0o755 } else { 0o644 })
                }
                _ => Ok(()),
            },
            FileType::Directory => {
                let Some(below) = self.open_directory(dir, name.as_os_str(), &to)? else {
                    return Ok(());
                };
                self.target.directory(&to, 0o755)?;
                for name in self.names(&below, &to)? {
                    self.entry(below.as_fd(), Path::new(&name), &path.join(&name), depth + 1)?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Returns what a call found at the host's counterpart of a path; `None` if that is absent or closed to the caller.
    fn seen<T>(&self, path: &Path, outcome: Result<T, Errno>) -> Result<Option<T>, HostImageError> {
        let outcome = tote_sys::visible(outcome);
        self.target
            .failing("read the host's counterpart of", path, outcome)
    }

    /// Opens a directory that every user may list and enter; `None` if it is absent, or not such a directory.
    fn open_directory(
        &self,
        dir: BorrowedFd<'_>,
        name: &OsStr,
        path: &Path,
    ) -> Result<Option<OwnedFd>, HostImageError> {
        let opened = open_directory(dir, name);
        self.target
            .failing("open the host's counterpart of", path, opened)
    }

    /// Reads a regular file that every user may read and that is not too large; returns its content and whether it is
    /// executable.
    fn read_public(
        &self,
        dir: BorrowedFd<'_>,
        name: &Path,
        path: &Path,
    ) -> Result<Option<(Vec<u8>, bool)>, HostImageError> {
        let Some(file) = self.seen(path, rustix::fs::openat(dir, name, READ_FILE, Mode::empty()))? else {
            return Ok(None);
        };
        let stat = self.target.failing(
            "look at the host's counterpart of",
            path,
            rustix::fs::fstat(&file),
        )?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || !is_readable(&stat) {
            return Ok(None);
        }
        let content = crate::inside::read_at_most(file.as_fd(), MAX_FILE);
        let content = self
            .target
            .failing("read the host's counterpart of", path, content)?;
        Ok(content.map(|content| (content, stat.st_mode & 0o111 != 0)))
    }

    /// Lists the names in a directory, without `.` and `..`.
    fn names(&self, dir: &OwnedFd, path: &Path) -> Result<Vec<OsString>, HostImageError> {
        let read = || -> Result<Vec<OsString>, Errno> {
            let mut names = Vec::new();
            for entry in Dir::read_from(dir)? {
                let name = entry?.file_name().to_bytes().to_vec();
                if name != b"." && name != b".." && names.len() < MAX_ENTRIES {
                    names.push(OsString::from_vec(name));
                }
            }
            Ok(names)
        };
        self.target
            .failing("list the host's counterpart of", path, read())
    }
}

/// Opens a directory that every user may list and enter; `None` if it is absent, or not such a directory.
fn open_directory(dir: BorrowedFd<'_>, name: &OsStr) -> Result<Option<OwnedFd>, Errno> {
    let opened = tote_sys::visible(rustix::fs::openat(dir, name, READ_DIR, Mode::empty()))?;
    let Some(opened) = opened else { return Ok(None) };
    let is_open = rustix::fs::fstat(&opened)?.st_mode & 0o005 == 0o005;
    Ok(is_open.then_some(opened))
}

fn is_readable(stat: &Stat) -> bool {
    stat.st_mode & 0o004 != 0
}
