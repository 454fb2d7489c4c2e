//! The tree of a skeleton: directories, links, and the written and copied parts of `/etc`.

use super::copy::EtcCopy;
use super::error::HostImageError;
use super::etc;
use super::fingerprint::Host;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

/// The directories of every host image, parents first.
const DIRECTORIES: [(&str, u32); 24] = [
    ("usr", 0o755),
    ("proc", 0o555),
    ("sys", 0o555),
    ("dev", 0o755),
    ("run", 0o755),
    ("run/lock", 0o1777),
    ("tmp", 0o1777),
    ("var", 0o755),
    ("var/tmp", 0o1777),
    ("var/lib", 0o755),
    ("var/cache", 0o755),
    ("var/log", 0o755),
    ("var/mail", 0o755),
    ("var/spool", 0o755),
    ("root", 0o700),
    ("home", 0o755),
    ("media", 0o755),
    ("mnt", 0o755),
    ("opt", 0o755),
    ("srv", 0o755),
    ("etc", 0o755),
    ("etc/ssl", 0o755),
    ("etc/default", 0o755),
    ("etc/profile.d", 0o755),
];

/// Fills the empty directory `layer` with the skeleton for `host`. `layer_path` is its name in errors.
pub(super) fn fill(host: &Host, layer: BorrowedFd<'_>, layer_path: &Path) -> Result<(), HostImageError> {
    let target = Target {
        dir: layer,
        path: layer_path,
    };
    for (path, mode) in DIRECTORIES {
        target.directory(path, mode)?;
    }
    for name in &host.dirs {
        target.directory(name, 0o755)?;
    }
    for name in &host.links {
        let from = host.root.join(name);
        let link = rustix::fs::readlink(&from, Vec::new()).map_err(|source| HostImageError::Build {
            attempt: "read the link",
            path: from,
            source,
        })?;
        target.failing("make the link", name, rustix::fs::symlinkat(link, layer, *name))?;
    }
    for (path, link) in etc::LINKED {
        target.failing("make the link", path, rustix::fs::symlinkat(link, layer, path))?;
    }
    for (path, content) in etc::WRITTEN {
        target.file(path, content.as_bytes(), 0o644)?;
    }
    EtcCopy::of_etc(&host.root, &target)?.map_or(Ok(()), |mut copy| copy.all(&etc::COPIED))
}

/// The skeleton being filled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target<'a> {
    /// Directory to which all paths are relative.
    pub(super) dir: BorrowedFd<'a>,
    /// Name of the directory in errors.
    pub(super) path: &'a Path,
}

impl Target<'_> {
    /// Converts the outcome of `attempt` on `path` into an error that names both.
    pub(super) fn failing<T>(
        &self,
        attempt: &'static str,
        path: impl AsRef<Path>,
        outcome: Result<T, Errno>,
    ) -> Result<T, HostImageError> {
        outcome.map_err(|source| HostImageError::Build {
            attempt,
            path: self.path.join(path),
            source,
        })
    }

    /// Creates a directory with exactly this mode, whatever the umask; an existing one is left unchanged.
    pub(super) fn directory(&self, path: impl AsRef<Path>, mode: u32) -> Result<(), HostImageError> {
        let path = path.as_ref();
        let mode = Mode::from_raw_mode(mode);
        match rustix::fs::mkdirat(self.dir, path, mode) {
            Ok(()) => self.failing(
                "set the mode of",
                path,
                rustix::fs::chmodat(self.dir, path, mode, AtFlags::empty()),
            ),
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => self.failing("make the directory", path, Err(errno)),
        }
    }

    /// Creates a file that does not exist yet.
    pub(super) fn file(
        &self,
        path: impl AsRef<Path>,
        content: &[u8],
        mode: u32,
    ) -> Result<(), HostImageError> {
        let path = path.as_ref();
        let mode = Mode::from_raw_mode(mode);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let write = || -> Result<(), Errno> {
            let file: OwnedFd = rustix::fs::openat(self.dir, path, flags, mode)?;
            write_all(file.as_fd(), content)?;
            rustix::fs::fchmod(&file, mode)
        };
        self.failing("write", path, write())
    }
}

fn write_all(file: BorrowedFd<'_>, mut content: &[u8]) -> Result<(), Errno> {
    while !content.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(file, content))?;
        content = &content[written..];
    }
    Ok(())
}
