//! What is made once for an image and used by all its containers: a subvolume, a file.

use crate::PrepareError;
use crate::prepare::{Request, make_dir};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tote_sys::Errno;

/// The template of an image for one driver: its path, whether or not it is there.
///
/// A store's image is known by its key. Any other tree is looked through: inode numbers and times of change of all that is
/// in it tell whether it is still the one that the template was made of.
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

/// How the names of all templates of a directory begin, whatever was in it.
fn place(image: &Path) -> String {
    let mut hash = Fnv1a::NEW;
    hash.bytes(image.as_os_str().as_bytes());
    format!("dir-{:016x}-", hash.0)
}

/// Puts a template that was made in the container's directory where the others find it. Templates of what the same
/// directory held before go: whoever uses them has a share of his own.
pub(crate) fn publish(
    fresh: &Path,
    path: &Path,
    image: &Path,
    request: &Request<'_>,
) -> Result<(), PrepareError> {
    make_dir(request.templates)?;
    match std::fs::rename(fresh, path) {
        Ok(()) => {}
        // Another command was quicker.
        Err(_) if crate::prepare::is_there(path)? => return crate::prepare::clear(fresh, request),
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
        let entries = std::fs::read_dir(request.templates)
            .into_iter()
            .flatten()
            .flatten();
        for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(&place)) {
            if entry.path() != *path && entry.path().extension() == path.extension() {
                // One that stays takes space and does no harm.
                tote_sys::best_effort(crate::remove::remove_any(&entry.path(), request.templates));
            }
        }
    }
    Ok(())
}

/// Removes the templates of a store's images that are no more. `is_needed` is asked with the key of each.
pub fn forget(templates: &Path, is_needed: &dyn Fn(&str) -> bool) {
    for entry in std::fs::read_dir(templates).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let key = name.to_str().and_then(|name| name.split('.').next());
        let is_stores = |key: &&str| key.len() == 64 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
        if key.filter(is_stores).is_some_and(|key| !is_needed(key)) {
            // One that stays takes space and does no harm.
            tote_sys::best_effort(crate::remove::remove_any(&entry.path(), templates));
        }
    }
}

/// A number that is another one when anything in a tree has changed.
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

/// Directories wait open, so that none can be swapped for a link; the order is that of the directory, which is the same
/// as long as nothing in it changes.
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

/// The hash of Fowler, Noll and Vo. Nobody chooses inode numbers and times so that two trees meet.
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
