//! Files of the engine's in the root of a container that runs, opened for a change in place.
//!
//! A container may be read-only, and may have put anything in the place of such a file. So a file is looked at before it is opened, and
//! opened by a copy of its mount that only this process has, with the rights that root of the container has.

use crate::Errno;
use crate::attributes::{Attributes, change};
use crate::join::set_namespaces;
use crate::lookup::openat2;
use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, ResolveFlags};
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use std::ffi::CStr;

const NEW_USER: u32 = libc::CLONE_NEWUSER as u32;
const NEW_MOUNT: u32 = libc::CLONE_NEWNS as u32;

/// Way to the files of a container.
#[derive(Debug)]
pub struct OwnFiles {
    root: OwnedFd,
    /// The descriptors of this process, as the machine's procfs has them.
    descriptors: OwnedFd,
}

impl OwnFiles {
    /// Moves this process, which must end soon and have one thread, to the mounts of another one (a pidfd), whose root is `root`, and to
    /// its user namespace if that is another one than this process's.
    ///
    /// # Errors
    /// open(2)'s and setns(2)'s.
    pub fn enter(process: BorrowedFd<'_>, root: OwnedFd, other_user: bool) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptors = rustix::fs::open(c"/proc/self/fd", flags, Mode::empty())?;
        // A container with `--pid host` may see this process, which has the caller's memory.
        crate::set_dumpable(false)?;
        if other_user {
            set_namespaces(process, NEW_USER)?;
        }
        set_namespaces(process, NEW_MOUNT)?;
        Ok(Self { root, descriptors })
    }

    /// Opens a regular file for reading and writing; `None` if it is missing or of another kind. No link is followed, and no mount but the
    /// root's is entered. Mode and owner stay. With `is_mounted` the file itself may be a mount.
    ///
    /// # Errors
    /// Those of openat2(2), open_tree(2) and mount_setattr(2), except that there is no such file; `EAGAIN` where a program has a lease on it.
    pub fn open(&self, path: &CStr, is_mounted: bool) -> Result<Option<OwnedFd>, Errno> {
        let mut resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        resolve.set(ResolveFlags::NO_XDEV, !is_mounted);
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let place = match openat2(&self.root, path, flags, Mode::empty(), resolve) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => return Ok(None),
            place => place?,
        };
        let kind = FileType::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
        if kind != FileType::RegularFile {
            return Ok(None);
        }
        let flags =
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
        let copy = open_tree(place, c"", flags)?;
        let attributes = Attributes {
            clear: MountAttrFlags::MOUNT_ATTR_RDONLY,
            ..Attributes::NONE
        };
        change(copy.as_fd(), &attributes)?;
        let name = copy.as_raw_fd().to_string();
        // A program with a lease on the file (fcntl(2)) is not waited for.
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.descriptors, name, flags, Mode::empty())?;
        Ok(Some(file))
    }
}
