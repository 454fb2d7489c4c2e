//! The host's programs and libraries that not every user may read.
//!
//! For file modes, root in a container without an idmapped `/usr` is the host's root, and could read them.

use super::error::HostImageError;
use crate::rootfs::Bind;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const LIST: &str = "private-paths";

/// Lists paths below `usr` (on its file system) that not every user can read: files without `o+r`, directories
/// without `o+rx`, and nothing below such a directory. The paths are sorted, and absolute if `usr` is.
///
/// The walk takes some hundred milliseconds for a large `/usr`.
///
/// # Errors
///
/// [`HostImageError::Walk`] names the directory that could not be read.
pub fn private_paths(usr: &Path) -> Result<Vec<PathBuf>, HostImageError> {
    let failing = |path: &Path, source| HostImageError::Walk {
        path: path.to_owned(),
        source,
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let device = rustix::fs::lstat(usr)
        .map_err(|errno| failing(usr, errno))?
        .st_dev;
    let mut private = Vec::new();
    let mut pending = vec![usr.to_owned()];
    while let Some(path) = pending.pop() {
        let dir = match rustix::fs::open(&path, flags, Mode::empty()) {
            Ok(dir) => dir,
            Err(Errno::NOENT | Errno::NOTDIR) if path != usr => continue,
            Err(errno) => return Err(failing(&path, errno)),
        };
        for entry in Dir::read_from(&dir).map_err(|errno| failing(&path, errno))? {
            let entry = entry.map_err(|errno| failing(&path, errno))?;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." || entry.file_type() == FileType::Symlink {
                continue;
            }
            match visit(dir.as_fd(), name, device).map_err(|errno| failing(&path.join(name), errno))? {
                Visit::Private => private.push(path.join(name)),
                Visit::Enter => pending.push(path.join(name)),
                Visit::Pass => {}
            }
        }
    }
    private.sort_unstable();
    Ok(private)
}

enum Visit {
    Private,
    Enter,
    Pass,
}

fn visit(dir: BorrowedFd<'_>, name: &OsStr, device: u64) -> Result<Visit, Errno> {
    let stat = match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Ok(Visit::Pass),
        Err(errno) => return Err(errno),
    };
    // Another file system does not show through a bind mount that is not recursive.
    if stat.st_dev != device {
        return Ok(Visit::Pass);
    }
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => Visit::Pass,
        FileType::Directory if stat.st_mode & 0o005 == 0o005 => Visit::Enter,
        FileType::Directory => Visit::Private,
        _ if stat.st_mode & 0o004 != 0 => Visit::Pass,
        _ => Visit::Private,
    })
}

/// Returns [`private_paths`] of all `binds`, from the list beside `layer` or, the first time, by walking. The list
/// separates paths by NUL.
pub(super) fn remembered(layer: &Path, binds: &[Bind]) -> Result<Vec<PathBuf>, HostImageError> {
    let list = layer.with_file_name(LIST);
    let failing = |attempt, path: &Path, error: &std::io::Error| HostImageError::Build {
        attempt,
        path: path.to_owned(),
        source: Errno::from_io_error(error).unwrap_or(Errno::IO),
    };
    match std::fs::read(&list) {
        Ok(content) => return Ok(parse(&content)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(failing("read", &list, &error)),
    }
    let mut paths = Vec::new();
    for bind in binds {
        paths.extend(private_paths(&bind.source)?);
    }
    let fresh = layer.with_file_name(format!("{LIST}.{}", rustix::process::getpid().as_raw_pid()));
    std::fs::write(&fresh, print(&paths)).map_err(|error| failing("write", &fresh, &error))?;
    std::fs::rename(&fresh, &list).map_err(|error| failing("publish", &list, &error))?;
    Ok(paths)
}

fn parse(list: &[u8]) -> Vec<PathBuf> {
    list.split(|byte| *byte == 0)
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(OsString::from_vec(path.to_vec())))
        .collect()
}

fn print(paths: &[PathBuf]) -> Vec<u8> {
    paths
        .iter()
        .flat_map(|path| path.as_os_str().as_bytes().iter().copied().chain([0]))
        .collect()
}
