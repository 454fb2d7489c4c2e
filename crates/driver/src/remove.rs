//! Removal of the files that a container's driver made.

use crate::directory::missing_is_fine;
use crate::disk::DISK;
use crate::qgroup::Gone;
use crate::{PrepareError, Request};
use rustix::fd::AsFd as _;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::ffi::{CStr, CString, OsStr};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use tote_sys::{Errno, best_effort};

/// Why a container's directory could not be removed.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove {path}")]
pub struct RemoveError {
    /// The directory of the container.
    pub path: PathBuf,
    /// The cause.
    #[source]
    pub source: std::io::Error,
}

/// Removes a container's directory with everything that any driver made in it; a missing directory is not an error.
///
/// The directory is renamed first, so that a crash in between never leaves half a container under its id. The next
/// call finds the rest under the other name.
///
/// # Errors
/// [`RemoveError`].
pub fn remove(container: &Path) -> Result<(), RemoveError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| RemoveError { path, source }
    };
    let trash = trash_of(container);
    let mut renamed = std::fs::rename(container, &trash);
    for _ in 0..ATTEMPTS {
        if !is_not_empty(&renamed) {
            break;
        }
        missing_is_fine(remove_tree(&trash)).map_err(failed(&trash))?;
        renamed = std::fs::rename(container, &trash);
    }
    let renamed = match renamed {
        // A full disk may have no room for another name, but a removal must work without any. So the records go
        // first, and after a crash in between the rest does not look like a whole container.
        Err(error) if matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded) => {
            for record in RECORDS {
                missing_is_fine(tote_sys::remove_file(&container.join(record))).map_err(failed(container))?;
            }
            return missing_is_fine(remove_tree(container)).map_err(failed(container));
        }
        other => other,
    };
    let was_there = renamed.is_ok();
    missing_is_fine(renamed).map_err(failed(container))?;
    // Most containers in the foreground have no directory at all.
    // absence: only ENOENT ends the removal here
    if !was_there && std::fs::symlink_metadata(&trash).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    {
        return Ok(());
    }
    missing_is_fine(remove_tree(&trash)).map_err(failed(&trash))
}

/// Files that mark a directory as that of a container or a volume.
const RECORDS: [&str; 2] = ["container.json", "volume.json"];

/// Maximum length of a file's name in bytes.
const LONGEST_NAME: usize = 255;

/// Returns `.NAME` beside a directory. If NAME has the maximum length, as a volume's may, its last byte is left
/// out. Two volumes that differ only there share the name of their remains, which are removed in any case.
fn trash_of(container: &Path) -> PathBuf {
    let name = container.file_name().unwrap_or_default().as_encoded_bytes();
    let kept = &name[..name.len().min(LONGEST_NAME - 1)];
    container.with_file_name(OsStr::from_bytes(&[b".", kept].concat()))
}

/// Finishes an interrupted removal of a directory that has its new name already.
///
/// # Errors
/// [`RemoveError`].
pub fn remove_rest(trash: &Path) -> Result<(), RemoveError> {
    missing_is_fine(remove_tree(trash)).map_err(|source| RemoveError {
        path: trash.to_owned(),
        source,
    })
}

/// How often a removal begins again.
const ATTEMPTS: u32 = 100;

fn is_not_empty(result: &std::io::Result<()>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty)
}

/// Removes a tree. Another command may be removing the next volume of the same name: rename(2) replaces a directory that this
/// process has just emptied, so what is found not to be empty is emptied again.
fn remove_tree(path: &Path) -> std::io::Result<()> {
    let mut removed = remove_tree_once(path);
    for _ in 0..ATTEMPTS {
        if !is_not_empty(&removed) {
            break;
        }
        removed = remove_tree_once(path);
    }
    removed
}

fn remove_tree_once(path: &Path) -> std::io::Result<()> {
    open_work(path)?;
    // absence: the removal of the tree reports what cannot be opened
    let mut kept = std::fs::read_dir(path.join("tools"))
        .into_iter()
        .flatten()
        .flatten();
    kept.try_for_each(|entry| open_work(&entry.path()))?;
    // A subvolume is removed at once with its content; on other file systems this fails without an effect.
    let gone = Gone::noted_in(path.parent().unwrap_or(path));
    for name in SUBVOLUMES {
        best_effort(remove_subvolume(path, name, &gone));
    }
    // absence: a missing file has no device to detach
    if path.join(DISK).try_exists().unwrap_or(true) {
        detach(&path.join(DISK));
    }
    tote_sys::remove_tree(path)
}

/// Gives permissions to the directory without any that overlayfs leaves in its work directory. It is opened by descriptor, and
/// not through a link.
fn open_work(path: &Path) -> std::io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    // absence: the removal of the tree reports what cannot be opened
    if let Ok(work) = rustix::fs::openat(CWD, path.join("work"), flags, Mode::empty())
        && rustix::fs::openat(&work, "work", flags | OFlags::PATH, Mode::empty()).is_ok()
    {
        tote_sys::with_room(work.as_fd(), || {
            rustix::fs::chmodat(&work, "work", Mode::RWXU, AtFlags::empty())
        })?;
    }
    Ok(())
}

/// Names of subvolumes that the btrfs driver makes in a container's directory.
const SUBVOLUMES: [&CStr; 2] = [c"tree", c"template.fresh"];

fn remove_subvolume(dir: &Path, name: &CStr, gone: &Gone) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(CWD, dir, flags, Mode::empty())?;
    let found = rustix::fs::openat(&dir, name, flags, Mode::empty())?;
    if tote_sys::is_subvolume(found.as_fd())? {
        let has_quota = gone.note(found.as_fd());
        drop(found);
        tote_sys::remove_subvolume(dir.as_fd(), name)?;
        if has_quota {
            gone.settle();
        }
    }
    Ok(())
}

/// Removes a file, a directory or a subvolume, with everything below it. Work on a subvolume that must be done
/// later is recorded in the directory `stays`.
pub(crate) fn remove_any(path: &Path, stays: &Path) -> std::io::Result<()> {
    if !path.symlink_metadata()?.is_dir() {
        return std::fs::remove_file(path);
    }
    let name = path.file_name().map(|name| CString::new(name.as_encoded_bytes()));
    if let (Some(dir), Some(Ok(name))) = (path.parent(), name) {
        best_effort(remove_subvolume(dir, &name, &Gone::noted_in(stays)));
    }
    tote_sys::remove_tree(path)
}

/// Detaches the loop devices of a disk. A device is detached automatically with its last user; this is for a device
/// whose user was killed just before that was arranged.
fn detach(disk: &Path) {
    // absence: the kernel detaches the device with its last user
    for entry in std::fs::read_dir("/sys/block").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file"));
        // absence: the kernel detaches the device with its last user
        if backing.is_ok_and(|backing| Path::new(backing.trim_end()) == disk)
            && let Ok(device) = std::fs::File::open(Path::new("/dev").join(name))
        {
            best_effort(tote_sys::detach_loop(device.as_fd()));
        }
    }
}

/// Removes the unfinished files of a killed command in a container's directory, or below it.
pub(crate) fn clear(path: &Path, request: &Request<'_>) -> Result<(), PrepareError> {
    let stays = request.container.parent().unwrap_or(request.container);
    missing_is_fine(remove_any(path, stays)).map_err(|source| PrepareError::State {
        attempt: "remove",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::remove;
    use std::fs;

    #[test]
    fn removing_twice_does_no_harm_and_finds_what_a_crash_left() {
        let temp = tempfile::tempdir().unwrap();
        let container = temp.path().join("abc");
        fs::create_dir_all(container.join("tree/sub")).unwrap();
        remove(&container).unwrap();
        remove(&container).unwrap();
        fs::create_dir_all(temp.path().join(".abc/tree")).unwrap();
        remove(&container).unwrap();
        let longest = temp.path().join("v".repeat(255));
        fs::create_dir_all(longest.join("_data")).unwrap();
        remove(&longest).unwrap();
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }

    #[test]
    fn removals_of_one_name_do_not_disturb_each_other() {
        let temp = tempfile::tempdir().unwrap();
        let (volume, trash) = (temp.path().join("v"), temp.path().join(".v"));
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sweeps = scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    super::remove_rest(&trash)?;
                }
                Ok::<_, super::RemoveError>(())
            });
            let removals = (0..2000).try_for_each(|_| {
                fs::create_dir_all(volume.join("_data/sub")).unwrap();
                remove(&volume)
            });
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            sweeps.join().unwrap().unwrap();
            removals.unwrap();
        });
    }

    #[test]
    fn the_longest_name_is_no_obstacle() {
        let temp = tempfile::tempdir().unwrap();
        for name in ["a".repeat(255), "b".repeat(254), "\u{e9}".repeat(127)] {
            fs::create_dir_all(temp.path().join(&name).join("_data/sub")).unwrap();
            remove(&temp.path().join(&name)).unwrap();
        }
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
    }
}
