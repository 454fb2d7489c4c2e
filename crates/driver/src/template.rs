//! Templates: a subvolume or a file that is made once for an image and used by all its containers.

use crate::PrepareError;
use crate::directory::{is_there, make_dir};
use crate::remove::clear;
use crate::request::Request;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tote_sys::Errno;

/// Returns the path of an image's template for a driver, whether it exists or not.
///
/// A store's image is identified by its key. Any other tree is walked: inode numbers and times of change of all its
/// entries show whether it is still the one that the template was made of.
///
/// # Errors
/// [`PrepareError::Look`].
pub(crate) fn path(image: &Path, request: &Request<'_>, suffix: &str) -> Result<PathBuf, PrepareError> {
    let name = match request.key {
        Some(key) => format!("{key}{suffix}"),
        None => {
            let failed = |source| PrepareError::Look {
                path: image.to_owned(),
                source,
            };
            let place = place(image);
            format!("{place}{:016x}{suffix}", fingerprint(image).map_err(failed)?)
        }
    };
    Ok(request.templates.join(name))
}

/// Returns the prefix of the names of a directory's templates, whatever its content was.
fn place(image: &Path) -> String {
    let mut hash = Fnv1a::NEW;
    hash.bytes(image.as_os_str().as_bytes());
    format!("dir-{:016x}-", hash.0)
}

/// Moves a template that was made in the container's directory to the place of templates. Templates of the same
/// directory with earlier content are removed; containers that use one have a share of their own.
pub(crate) fn publish(
    fresh: &Path,
    path: &Path,
    image: &Path,
    request: &Request<'_>,
) -> Result<(), PrepareError> {
    make_dir(request.templates)?;
    match std::fs::rename(fresh, path) {
        Ok(()) => {}
        // Another command was faster.
        Err(_) if is_there(path)? => return clear(fresh, request),
        Err(source) => {
            return Err(PrepareError::State {
                attempt: "make",
                path: path.to_owned(),
                source,
            });
        }
    }
    if request.key.is_none() {
        let place = place(image);
        // absence: an old template takes space and does no harm
        let entries = std::fs::read_dir(request.templates)
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&place)) {
            if entry.path() != *path && entry.path().extension() == path.extension() {
                // A template that cannot be removed takes space and does no harm.
                tote_sys::best_effort(crate::remove::remove_any(&entry.path(), request.templates));
            }
        }
    }
    Ok(())
}

/// Removes templates of a store's images that are not needed any more. `is_needed` is called with the key of each.
pub fn forget(templates: &Path, is_needed: &dyn Fn(&str) -> bool) {
    // absence: an old template takes space and does no harm
    for entry in std::fs::read_dir(templates).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let key = name.to_str().and_then(|name| name.split('.').next());
        let is_stores = |key: &&str| key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        if key.filter(is_stores).is_some_and(|key| !is_needed(key)) {
            // A template that cannot be removed takes space and does no harm.
            tote_sys::best_effort(crate::remove::remove_any(&entry.path(), templates));
        }
    }
}

/// Computes a number that changes if anything in a tree changes.
fn fingerprint(image: &Path) -> Result<u64, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = rustix::fs::open(image, flags, Mode::empty())?;
    let mut hash = Fnv1a::NEW;
    hash.stat(&rustix::fs::fstat(&top)?);
    let mut pending = vec![top];
    while let Some(dir) = pending.pop() {
        look_through(&dir, &mut hash, &mut pending)?;
    }
    Ok(hash.0)
}

/// Hashes the entries of a directory and opens its subdirectories. They wait open, so that none can be replaced by
/// a link. The order is that of the directory, which stays the same until the directory changes.
fn look_through(dir: &OwnedFd, hash: &mut Fnv1a, pending: &mut Vec<OwnedFd>) -> Result<(), Errno> {
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
        hash.bytes(name.to_bytes());
        hash.stat(&stat);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            pending.push(open_below(dir.as_fd(), name)?);
        }
    }
    Ok(())
}

fn open_below(dir: BorrowedFd<'_>, name: &std::ffi::CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

/// The hash of Fowler, Noll and Vo. Collisions are not a threat: inode numbers and times are not chosen by an
/// attacker.
struct Fnv1a(u64);

impl Fnv1a {
    const NEW: Self = Self(0xcbf2_9ce4_8422_2325);

    fn bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn stat(&mut self, stat: &Stat) {
        for number in [
            stat.st_dev,
            stat.st_ino,
            stat.st_ctime.cast_unsigned(),
            stat.st_ctime_nsec,
        ] {
            self.bytes(&number.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fingerprint;
    use std::fs;

    #[test]
    fn any_change_is_another_fingerprint() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("a/b")).unwrap();
        fs::write(temp.path().join("a/b/file"), "x").unwrap();
        let look = || fingerprint(temp.path()).unwrap();
        let mut seen = vec![look()];
        assert_eq!(look(), seen[0]);
        fs::rename(temp.path().join("a/b/file"), temp.path().join("a/b/other")).unwrap();
        seen.push(look());
        fs::write(temp.path().join("new"), "").unwrap();
        seen.push(look());
        fs::remove_dir_all(temp.path().join("a/b")).unwrap();
        seen.push(look());
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 4);
    }
}
