//! Volumes that get the image's files: a copy is in its place as a whole, or not at all.
//!
//! The copy is made in a directory of its own within the volume, and what is in it moves to its place once it is complete. So a process that is
//! killed on the way leaves a volume without files, which is filled anew, or the rest of a complete copy, which is moved
//! later. A volume is full as soon as it has files and [`FILLING`] is gone.

use crate::copy::{self, Owner};
use crate::lock::flock;
use crate::registers::Registers;
use crate::{CopyMode, Errno, removal, root};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, RawDir, RenameFlags, SeekFrom};
use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::sync::Arc;

/// Directory of a copy that is not in its place yet, in the directory that is being filled.
pub const FILLING: &CStr = c".tote-fill";

/// Incomplete copy, in that directory.
const PART: &CStr = c"part";

/// Complete copy, in that directory.
const WHOLE: &CStr = c"whole";

/// A directory of the host that gets a copy of what the root has at some place, if there is such a place. One that has files of its
/// own stays as it is.
#[derive(Debug)]
pub struct FillOp {
    /// The directory, on the host.
    pub to: CString,
    /// The place, inside.
    pub from: CString,
    /// User and group of all copies, in ids of the container; `None` keeps the owners.
    pub owner: Option<(u32, u32)>,
    /// Lock of flock(2) under which the caller has decided to fill; it ends with the copy.
    pub lock: Option<Arc<OwnedFd>>,
}

/// Fills the directory.
pub(crate) fn fill(op: &FillOp, registers: &Registers<'_>) -> Result<(), Errno> {
    copy_in(op, registers)?;
    match &op.lock {
        // The parent and its other children may have the same open file for longer.
        Some(lock) => flock(&**lock, FlockOperation::Unlock),
        None => Ok(()),
    }
}

fn copy_in(op: &FillOp, registers: &Registers<'_>) -> Result<(), Errno> {
    let dir = rustix::fs::open(&*op.to, DIRECTORY, Mode::empty())?;
    let dir = dir.as_fd();
    if complete(dir)?.is_none() {
        forget(dir)?;
        let Some(place) = original(op, registers)? else {
            return Ok(());
        };
        if !is_empty(dir)? {
            return Ok(());
        }
        let owner = op.owner.map(|(uid, gid)| Owner { uid, gid });
        copy_aside(place.as_fd(), dir, owner)?;
    }
    match complete(dir)? {
        Some(copy) => move_in(copy.as_fd(), dir),
        None => Err(Errno::NOENT),
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

fn open_dir(dir: BorrowedFd<'_>, name: &CStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(dir, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens a complete copy whose files are not all in their places.
fn complete(dir: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Errno> {
    let opened = open_dir(dir, FILLING).and_then(|filling| open_dir(filling.as_fd(), WHOLE));
    match opened {
        Ok(copy) => Ok(Some(copy)),
        // A program may have put something else in its place.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Removes what a killed process has copied.
fn forget(dir: BorrowedFd<'_>) -> Result<(), Errno> {
    match removal::remove_tree_in(dir, FILLING) {
        Err(Errno::NOTDIR | Errno::LOOP) => rustix::fs::unlinkat(dir, FILLING, AtFlags::empty()),
        removed => removed,
    }
}

/// Opens the directory to copy. Files of the kernel are not copied: the mount that follows refuses their place.
fn original(op: &FillOp, registers: &Registers<'_>) -> Result<Option<OwnedFd>, Errno> {
    let place = match root::open(registers.root()?, &op.from, false) {
        Err(Errno::NOENT) => return Ok(None),
        place => place?,
    };
    let is_proc = rustix::fs::fstatfs(&place)?.f_type == rustix::fs::PROC_SUPER_MAGIC;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
    Ok(Some(place).filter(|_| !is_proc && kind == FileType::Directory))
}

fn is_empty(dir: BorrowedFd<'_>) -> Result<bool, Errno> {
    let dir = open_dir(dir, c".")?;
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&dir, &mut space);
    while let Some(entry) = entries.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn copy_aside(place: BorrowedFd<'_>, dir: BorrowedFd<'_>, owner: Option<Owner>) -> Result<(), Errno> {
    let how = CopyMode {
        reflink: true,
        hard_links: false,
    };
    rustix::fs::mkdirat(dir, FILLING, Mode::RWXU)?;
    let filling = open_dir(dir, FILLING)?;
    rustix::fs::mkdirat(&filling, PART, Mode::RWXU)?;
    let part = open_dir(filling.as_fd(), PART)?;
    copy::copy_owned(place, part.as_fd(), how, owner)?;
    rustix::fs::renameat(&filling, PART, &filling, WHOLE)
}

/// Moves a complete copy to its place.
fn move_in(copy: BorrowedFd<'_>, dir: BorrowedFd<'_>) -> Result<(), Errno> {
    let stat = rustix::fs::fstat(copy)?;
    let mut space = [MaybeUninit::uninit(); 4096];
    // Moving entries while reading a directory may hide others, so it is read until nothing moves.
    loop {
        let mut moved = false;
        rustix::fs::seek(copy, SeekFrom::Start(0))?;
        let mut entries = RawDir::new(copy, &mut space);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                moved |= move_one(copy, dir, name)?;
            }
        }
        if !moved {
            break;
        }
    }
    // With its attributes the directory may not let its owner remove anything.
    let may_remove = stat.st_mode & 0o300 == 0o300;
    if !may_remove {
        forget(dir)?;
    }
    copy::like_original(dir, copy, &stat)?;
    if may_remove {
        forget(dir)?;
    }
    copy::times_of(dir, &stat)
}

/// Moves a file or a directory, unless its place is taken: a program may have the volume already.
fn move_one(from: BorrowedFd<'_>, to: BorrowedFd<'_>, name: &CStr) -> Result<bool, Errno> {
    match rustix::fs::renameat_with(from, name, to, name, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // The file system cannot tell.
        Err(Errno::INVAL | Errno::NOSYS) => match rustix::fs::statat(to, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => rustix::fs::renameat(from, name, to, name).map(|()| true),
            found => found.map(|_| false),
        },
        Err(errno) => Err(errno),
    }
}
