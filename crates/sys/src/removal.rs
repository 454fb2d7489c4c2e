//! Removing a tree that others have written, by descriptors: nothing in it is followed.

use crate::Errno;
use crate::copy::hexadecimal;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, SeekFrom};
use std::ffi::CStr;
use std::mem::MaybeUninit;

/// How deep it goes at once. What is deeper is moved up: how deep a tree is, is its writer's choice.
const DEPTH: u32 = 64;

/// Removes a directory of the host and what is below it; one that is not there needs no removing.
pub(crate) fn remove_tree(path: &CStr) -> Result<(), Errno> {
    let top = match open_dir(CWD, path) {
        Err(Errno::NOENT) => return Ok(()),
        other => other?,
    };
    empty(top.as_fd(), top.as_fd(), DEPTH)?;
    rustix::fs::unlinkat(CWD, path, AtFlags::REMOVEDIR)
}

fn open_dir(dir: impl AsFd, name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(dir, name, flags, Mode::empty())
}

fn empty(dir: BorrowedFd<'_>, top: BorrowedFd<'_>, depth: u32) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); 4096];
    // What is removed while a directory is read may hide others: until nothing is found.
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
    match rustix::fs::unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) => {}
        Err(Errno::NOENT) => return Ok(()),
        other => return other,
    }
    let below = open_dir(dir, name)?;
    let Some(depth) = depth.checked_sub(1) else {
        let unique = hexadecimal(rustix::fs::fstat(&below)?.st_ino);
        let unique = CStr::from_bytes_until_nul(&unique).map_err(|_| Errno::INVAL)?;
        return rustix::fs::renameat(dir, name, top, unique);
    };
    empty(below.as_fd(), top, depth)?;
    rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt as _;

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
        let path = CString::new(tree.as_os_str().as_bytes()).unwrap();
        super::remove_tree(&path).unwrap();
        assert!(!tree.exists() && outside.join("kept").exists());
        super::remove_tree(&path).unwrap();
    }
}
