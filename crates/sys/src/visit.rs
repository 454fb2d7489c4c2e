//! Copies of mounts in another mount namespace.
//!
//! Only a process in that namespace may make one. A child goes there itself and returns, because a process that does
//! nothing else costs ten times as much, and a session brings a dozen mounts. The parent stays where it is, and sends one
//! ([`root_of`](crate::root_of)).

use crate::Errno;
use crate::join::set_namespaces;
use crate::lookup::openat2;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::mount::{OpenTreeFlags, open_tree};
use std::ffi::CStr;

const NEW_MOUNT: u32 = libc::CLONE_NEWNS as u32;

/// Returns a detached copy of the mount that a process in another mount namespace has at a path, with the mounts
/// below it if asked for. Links on the way are not followed: that process may have made them.
///
/// # Errors
/// setns(2)'s, openat2(2)'s, and open_tree(2)'s; this process may be among the other's mounts then, and must end.
pub(crate) fn mount_of(process: BorrowedFd<'_>, path: &CStr, recursive: bool) -> Result<OwnedFd, Errno> {
    let open = |path: &CStr, flags| rustix::fs::open(path, flags | OFlags::CLOEXEC, Mode::empty());
    // By thread: once in another user namespace, this process may not look into its own process directory.
    let own = open(c"/proc/thread-self/ns/mnt", OFlags::RDONLY)?;
    let (root, dir) = (open(c"/", OFlags::PATH)?, open(c".", OFlags::PATH)?);
    set_namespaces(process, NEW_MOUNT)?;
    let copy = copy_at(path, recursive);
    set_namespaces(own.as_fd(), NEW_MOUNT)?;
    // The kernel has led this process to the root of the namespace, which need not have been its root.
    rustix::process::fchdir(&root)?;
    rustix::process::chroot(c".")?;
    rustix::process::fchdir(&dir)?;
    copy
}

/// Makes such a copy of a mount in this process's own mount namespace.
pub(crate) fn copy_at(path: &CStr, recursive: bool) -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let place = openat2(CWD, path, flags, Mode::empty(), resolve)?;
    let mut flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH;
    flags.set(OpenTreeFlags::AT_RECURSIVE, recursive);
    open_tree(place, c"", flags)
}
