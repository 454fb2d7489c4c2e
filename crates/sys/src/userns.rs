//! A user namespace that exists only for its map, as id-mapped mounts want one.

use crate::Errno;
use crate::IdMaps;
use crate::birth::errno;
use crate::child::exit;
use crate::identity::map_one_id;
use rustix::fd::{FromRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

/// What the two processes share.
struct Exchange {
    maps: IdMaps,
    result: Result<i32, Errno>,
}

/// Makes a user namespace that maps one id to the caller's own, and gives a descriptor of it.
///
/// `inside` is the id that the map is for; the caller's effective ids are what it maps to. The process that makes the
/// namespace shares the caller's memory and descriptors and is gone when this returns: a copy of the caller would cost
/// five times as much.
///
/// # Errors
/// clone(2)'s, and write(2)'s on the maps.
pub fn with_one_id(inside: u32) -> Result<OwnedFd, Errno> {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let maps = IdMaps {
        uid: (inside, uid),
        gid: (inside, gid),
    };
    let mut exchange = Exchange {
        maps,
        result: Err(Errno::CHILD),
    };
    let mut stack = [0u128; 1024];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_FILES | libc::CLONE_NEWUSER | libc::SIGCHLD;
    // SAFETY: CLONE_VFORK stops this thread until the other process has exited, so the stack and `exchange` outlive it
    // and nobody else uses them meanwhile; it starts at the top of the stack, which is 16-aligned as the ABI wants.
    let pid = unsafe {
        libc::clone(
            make,
            stack.as_mut_ptr_range().end.cast(),
            flags,
            (&raw mut exchange).cast(),
        )
    };
    if pid == -1 {
        return Err(errno());
    }
    let mut status = 0;
    // SAFETY: `status` is a valid place for the kernel to write.
    while unsafe { libc::waitpid(pid, &raw mut status, 0) } == -1 && errno() == Errno::INTR {}
    // SAFETY: the other process opened it in the table that both share, and gave it away.
    exchange.result.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The other process: writes its map, opens its namespace, ends.
extern "C" fn make(exchange: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the caller's `Exchange`, which nobody else touches until this process has exited.
    let exchange = unsafe { &mut *exchange.cast::<Exchange>() };
    exchange.result = map_one_id(exchange.maps).and_then(|()| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        rustix::fs::open(c"/proc/self/ns/user", flags, Mode::empty()).map(IntoRawFd::into_raw_fd)
    });
    exit(0)
}
