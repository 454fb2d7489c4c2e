//! Access to a root from outside: reading its files, finding its programs and their interpreters.
//!
//! The root is not trusted. The kernel resolves paths as if the root were `/` (`RESOLVE_IN_ROOT`), so no symbolic
//! link and no `..` leads out of it. A file's type is checked before it is opened, so that no FIFO blocks and no
//! device reacts. Every read has a limit.

mod executable;
mod interpreter;
mod lookup;

#[cfg(test)]
mod tests;

pub use executable::{Executable, Needs, executable_in, resolve_in};
pub use interpreter::{Interpreter, InterpreterKind, interpreter_of};
pub use lookup::{LookupError, lookup_executable};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Why a file of a root could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The path cannot be resolved: too many symbolic links, no permission, or a kernel without `openat2` (before
    /// 5.6).
    #[error("cannot open {path} in the rootfs")]
    Open {
        /// The path inside the root.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
    /// The path leads to a directory, FIFO, socket or device node.
    #[error("cannot read {path} in the rootfs: it is not a regular file")]
    NotRegular {
        /// The path inside the root.
        path: PathBuf,
    },
    /// The file is larger than the caller's limit.
    #[error("cannot read {path} in the rootfs: it is larger than {limit} bytes")]
    TooLarge {
        /// The path inside the root.
        path: PathBuf,
        /// The limit in bytes.
        limit: usize,
    },
    /// The content cannot be read.
    #[error("cannot read {path} in the rootfs")]
    Read {
        /// The path inside the root.
        path: PathBuf,
        /// The kernel's answer.
        #[source]
        source: Errno,
    },
}

impl ReadError {
    /// True if this process lacks the permission to resolve the path.
    #[must_use]
    pub fn is_denied(&self) -> bool {
        matches!(
            self,
            Self::Open {
                source: Errno::ACCESS,
                ..
            }
        )
    }
}

/// Reads the regular file `path` of `root`; `None` if it does not exist. Absolute and relative paths are treated
/// alike; symbolic links are followed inside the root.
///
/// # Errors
///
/// [`ReadError`], also for a file of more than `limit` bytes.
pub fn read_in_root(
    root: impl AsFd,
    path: impl AsRef<Path>,
    limit: usize,
) -> Result<Option<Vec<u8>>, ReadError> {
    read_content_in_root(root, path, limit, &|file| Ok(file))
}

/// Reads a file as [`read_in_root`] does, in a root whose files may have their contents elsewhere: `content_of` opens the
/// content of a file of this root.
///
/// # Errors
///
/// [`ReadError`].
pub fn read_content_in_root(
    root: impl AsFd,
    path: impl AsRef<Path>,
    limit: usize,
    content_of: &dyn Fn(OwnedFd) -> Result<OwnedFd, Errno>,
) -> Result<Option<Vec<u8>>, ReadError> {
    let path = path.as_ref();
    let Some(file) = open_regular(root.as_fd(), path)? else {
        return Ok(None);
    };
    let file = content_of(file).map_err(|source| ReadError::Open {
        path: path.to_owned(),
        source,
    })?;
    read_content(file.as_fd(), path, limit).map(Some)
}

/// Reads a file of a root that is open already; `path` is for messages.
///
/// # Errors
///
/// [`ReadError`], also for a file of more than `limit` bytes.
pub fn read_content(file: BorrowedFd<'_>, path: &Path, limit: usize) -> Result<Vec<u8>, ReadError> {
    match read_at_most(file, limit) {
        Ok(Some(content)) => Ok(content),
        Ok(None) => Err(ReadError::TooLarge {
            path: path.to_owned(),
            limit,
        }),
        Err(source) => Err(ReadError::Read {
            path: path.to_owned(),
            source,
        }),
    }
}

/// Reads to the end; `None` if the file has more than `limit` bytes.
pub(crate) fn read_at_most(file: BorrowedFd<'_>, limit: usize) -> Result<Option<Vec<u8>>, Errno> {
    const STEP: usize = 64 << 10;

    let size = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(usize::MAX);
    if size > limit {
        return Ok(None);
    }
    // The size is a hint: files grow, and those of proc and sys report 0.
    let mut content = vec![0; size.saturating_add(1)];
    let mut length = 0;
    loop {
        if length == content.len() {
            if length > limit {
                return Ok(None);
            }
            content.resize(length.saturating_add(STEP).min(limit.saturating_add(1)), 0);
        }
        match rustix::io::retry_on_intr(|| rustix::io::read(file, &mut content[length..]))? {
            0 => break,
            count => length += count,
        }
    }
    content.truncate(length);
    Ok((length <= limit).then_some(content))
}

/// Resolves `path` in `root` without opening the file: the descriptor is only good for stat(2). `None` if it does
/// not exist.
#[expect(
    clippy::disallowed_methods,
    reason = "called again when it has to be, without tote_sys"
)]
fn find(root: BorrowedFd<'_>, path: &Path) -> Result<Option<(OwnedFd, Stat)>, Errno> {
    // The kernel returns EAGAIN when another process renames directories while a `..` is resolved.
    const ATTEMPTS: usize = 64;

    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    let mut answer = Err(Errno::AGAIN);
    for _ in 0..ATTEMPTS {
        answer = rustix::fs::openat2(root, path, flags, Mode::empty(), resolve);
        if !matches!(answer, Err(Errno::AGAIN | Errno::INTR)) {
            break;
        }
    }
    match answer {
        Ok(found) => {
            let stat = rustix::fs::fstat(&found)?;
            Ok(Some((found, stat)))
        }
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn is_regular(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
}

/// Opens a regular file for reading. The second open through `/proc` reaches exactly the inode that was checked; a
/// second open by path could meet a device node that was put there meanwhile.
fn open_regular(root: BorrowedFd<'_>, path: &Path) -> Result<Option<OwnedFd>, ReadError> {
    let failed = |source| ReadError::Open {
        path: path.to_owned(),
        source,
    };
    let Some((found, stat)) = find(root, path).map_err(failed)? else {
        return Ok(None);
    };
    if !is_regular(&stat) {
        return Err(ReadError::NotRegular {
            path: path.to_owned(),
        });
    }
    open_found(found.as_fd()).map(Some).map_err(failed)
}

/// Opens a file for reading that was found, and is known to be regular.
fn open_found(found: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let again = format!("/proc/self/fd/{}", found.as_raw_fd());
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open(again, flags, Mode::empty())
}
