//! Removal of trees that others have written, by descriptors: no link in them is followed.

use crate::Errno;
use crate::copy::hexadecimal;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, SeekFrom};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Depth to which the removal descends at once. A deeper directory is moved up first, because the writer of the tree
/// chooses its depth.
const DEPTH: u32 = 64;

/// Removes a directory and everything below it; a missing one is not an error.
///
/// Use it in place of [`std::fs::remove_dir_all`] wherever another user has made the directories: that function holds
/// a descriptor for each level, and 20 000 levels are more than a process may have open. No link is followed. On a full
/// disk the removal waits for the file system.
///
/// # Errors
/// Those of the system calls; the remaining parts may have moved up within the directory.
pub fn remove_tree(path: &Path) -> std::io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    Ok(remove_tree_at(&path)?)
}

/// Does [`remove_tree`] without an allocation, for a process between its birth and its program.
pub(crate) fn remove_tree_at(path: &CStr) -> Result<(), Errno> {
    remove_tree_in(CWD, path)
}

/// Does [`remove_tree_at`] for a directory in another one.
pub(crate) fn remove_tree_in(dir: BorrowedFd<'_>, name: &CStr) -> Result<(), Errno> {
    let top = match open_dir(dir, name) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    empty(top.as_fd(), top.as_fd(), DEPTH)?;
    gone(with_room(top.as_fd(), || {
        rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
    }))
}

/// Removes a file or, with [`AtFlags::REMOVEDIR`], an empty directory; on a full disk it waits for the file system.
///
/// # Errors
/// Those of unlinkat(2).
pub fn unlink(dir: impl AsFd, name: impl rustix::path::Arg + Copy, flags: AtFlags) -> Result<(), Errno> {
    with_room(dir.as_fd(), || rustix::fs::unlinkat(&dir, name, flags))
}

/// Removes the file of this path; on a full disk it waits for the file system.
///
/// # Errors
/// Those of unlinkat(2).
pub fn remove_file(path: &Path) -> std::io::Result<()> {
    remove_path(path, AtFlags::empty())
}

/// Removes the empty directory of this path; on a full disk it waits for the file system.
///
/// # Errors
/// Those of unlinkat(2).
pub fn remove_dir(path: &Path) -> std::io::Result<()> {
    remove_path(path, AtFlags::REMOVEDIR)
}

fn remove_path(path: &Path, flags: AtFlags) -> std::io::Result<()> {
    let attempt = || rustix::fs::unlinkat(CWD, path, flags);
    match attempt() {
        Err(errno) if is_full(errno) => {
            // Only here is a descriptor needed, to name the file system. The parent of a single name is empty.
            let parent = path.parent().filter(|parent| *parent != Path::new(""));
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = rustix::fs::openat(CWD, parent.unwrap_or(Path::new(".")), flags, Mode::empty())?;
            Ok(with_room(dir.as_fd(), attempt)?)
        }
        removed => Ok(removed?),
    }
}

/// Repeats a step of a removal on a full disk: btrfs needs room for each step, and gets freed space back only with its
/// next transaction.
///
/// # Errors
/// Those of the step.
pub fn with_room(on: BorrowedFd<'_>, step: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    for _ in 0..TRANSACTIONS {
        match step() {
            Err(errno) if is_full(errno) => drop(rustix::fs::syncfs(on)),
            result => return result,
        }
    }
    step()
}

/// Number of transactions of a full file system to wait for.
const TRANSACTIONS: usize = 4;

/// True if the file system has no room for another file or byte.
#[must_use]
pub fn is_full(errno: Errno) -> bool {
    matches!(errno, Errno::NOSPC | Errno::DQUOT)
}

/// Accepts a missing entry: another process may be removing the same tree.
fn gone(result: Result<(), Errno>) -> Result<(), Errno> {
    match result {
        Err(Errno::NOENT) => Ok(()),
        other => other,
    }
}

fn open_dir(dir: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

fn empty(dir: BorrowedFd<'_>, top: BorrowedFd<'_>, depth: u32) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); 4096];
    // Removing entries while reading a directory may hide others, so it is read until it is empty.
    loop {
        let mut found = false;
        rustix::fs::seek(dir, SeekFrom::Start(0))?;
        let mut entries = RawDir::new(dir, &mut space);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                remove_one(dir, name, top, depth)?;
                found = true;
            }
        }
        if !found {
            return Ok(());
        }
    }
}

fn remove_one(dir: BorrowedFd<'_>, name: &CStr, top: BorrowedFd<'_>, depth: u32) -> Result<(), Errno> {
    match unlink(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        Err(Errno::NOENT) => return Ok(()),
        other => return other,
    }
    let below = match open_dir(dir, name) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    let Some(depth) = depth.checked_sub(1) else {
        let number = rustix::fs::fstat(&below)?.st_ino;
        return gone(move_up(dir, name, top, number));
    };
    empty(below.as_fd(), top, depth)?;
    gone(unlink(dir, name, AtFlags::REMOVEDIR))
}

/// Moves a directory to the top, under the first free number from this one on: the maker of the tree may have used
/// such names there, too.
fn move_up(dir: BorrowedFd<'_>, name: &CStr, top: BorrowedFd<'_>, mut number: u64) -> Result<(), Errno> {
    loop {
        let unique = hexadecimal(number);
        let unique = CStr::from_bytes_until_nul(&unique).map_err(|_| Errno::INVAL)?;
        match rustix::fs::renameat(dir, name, top, unique) {
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::NOTDIR) => number = number.wrapping_add(1),
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    #[test]
    fn a_tree_goes_however_deep_and_what_links_lead_to_stays() {
        let temp = tempfile::tempdir().unwrap();
        let (outside, tree) = (temp.path().join("outside"), temp.path().join("tree"));
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("kept"), "").unwrap();
        std::fs::create_dir_all(tree.join("d/".repeat(300))).unwrap();
        std::fs::write(tree.join("d/".repeat(300)).join("x"), "").unwrap();
        for number in 0..500 {
            std::fs::write(tree.join(number.to_string()), "").unwrap();
        }
        std::os::unix::fs::symlink(&outside, tree.join("link")).unwrap();
        super::remove_tree(&tree).unwrap();
        assert!(!tree.try_exists().unwrap() && outside.join("kept").try_exists().unwrap());
        super::remove_tree(&tree).unwrap();
    }

    #[test]
    fn names_at_the_top_do_not_stop_what_is_moved_there() {
        let temp = tempfile::tempdir().unwrap();
        let tree = temp.path().join("tree");
        let deep = tree.join("d/".repeat(65));
        std::fs::create_dir_all(deep.join("more")).unwrap();
        let number = std::fs::metadata(&deep).unwrap().ino();
        std::fs::create_dir_all(tree.join(format!("{number:016x}/full"))).unwrap();
        std::fs::write(tree.join(format!("{:016x}", number + 1)), "").unwrap();
        super::remove_tree(&tree).unwrap();
        assert!(!tree.try_exists().unwrap());
    }

    #[test]
    fn a_full_disk_gets_time_for_its_transactions_and_no_other_error_is_tried_again() {
        use rustix::fd::AsFd as _;
        use rustix::io::Errno;
        use std::cell::Cell;
        let temp = tempfile::tempdir().unwrap();
        let dir = std::fs::File::open(temp.path()).unwrap();
        let attempts = |full: usize, last: Errno| {
            let count = Cell::new(0);
            let result = super::with_room(dir.as_fd(), || {
                count.set(count.get() + 1);
                if count.get() <= full {
                    Err(Errno::NOSPC)
                } else {
                    Err(last)
                }
            });
            (count.get(), result)
        };
        assert_eq!(attempts(0, Errno::ACCESS), (1, Err(Errno::ACCESS)));
        assert_eq!(attempts(2, Errno::ACCESS), (3, Err(Errno::ACCESS)));
        assert_eq!(
            attempts(100, Errno::ACCESS),
            (super::TRANSACTIONS + 1, Err(Errno::NOSPC))
        );
    }

    #[test]
    fn files_and_empty_directories_go_and_missing_ones_are_errors() {
        let temp = tempfile::tempdir().unwrap();
        let (file, dir) = (temp.path().join("file"), temp.path().join("dir"));
        std::fs::write(&file, "").unwrap();
        std::fs::create_dir(&dir).unwrap();
        super::remove_file(&file).unwrap();
        super::remove_dir(&dir).unwrap();
        for removed in [super::remove_file(&file), super::remove_dir(&dir)] {
            assert_eq!(removed.unwrap_err().kind(), std::io::ErrorKind::NotFound);
        }
    }

    #[test]
    fn twenty_thousand_levels() {
        use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
        // Disks that discard freed blocks take minutes for 20 000 directories.
        let temp = tempfile::tempdir_in("/dev/shm").unwrap();
        let tree = temp.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut dir = openat(CWD, &tree, flags, Mode::empty()).unwrap();
        for _ in 0..20_000 {
            mkdirat(&dir, c"d", Mode::RWXU).unwrap();
            dir = openat(&dir, c"d", flags, Mode::empty()).unwrap();
        }
        super::remove_tree(&tree).unwrap();
        assert!(!tree.try_exists().unwrap());
    }
}
