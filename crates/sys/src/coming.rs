//! A network namespace that another process makes while the caller goes on: no other kind takes the kernel nearly as
//! long.

use crate::Errno;
use crate::identity::loopback_up;
use crate::outcome::errno;
use crate::outcome::exit;
use rustix::fd::{FromRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::thread::UnshareFlags;
use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

/// Network namespace with its loopback interface up, in the caller's user namespace. It is made by another process,
/// which shares the caller's memory and descriptors.
#[derive(Debug)]
pub struct ComingNetwork {
    work: NonNull<Work>,
    /// Pid of the process that makes it, until it has been waited for.
    maker: Cell<Option<libc::pid_t>>,
    /// The namespace, if it was made before.
    ready: RefCell<Option<OwnedFd>>,
    /// Process that began it. A process forked since then has its own copy of the memory, which the maker does not
    /// write to.
    parent: rustix::process::Pid,
}

/// Memory that both processes use.
struct Work {
    /// The descriptor of the namespace, or [`NOTHING`].
    made: AtomicI32,
    stack: [u128; 512],
}

const NOTHING: i32 = -1;

impl ComingNetwork {
    /// Has a namespace that was made before, also by a process that this one was forked from.
    #[must_use]
    pub fn of(network: OwnedFd) -> Self {
        let coming = Self::nothing();
        coming.ready.replace(Some(network));
        coming
    }

    fn nothing() -> Self {
        let work = Box::new(Work {
            made: AtomicI32::new(NOTHING),
            stack: [0; 512],
        });
        Self {
            work: NonNull::from(Box::leak(work)),
            maker: Cell::new(None),
            ready: RefCell::new(None),
            parent: rustix::process::getpid(),
        }
    }

    /// Starts making the namespace.
    ///
    /// # Errors
    /// clone(2)'s.
    pub fn begin() -> Result<Self, Errno> {
        let coming = Self::nothing();
        let work = coming.work.as_ptr();
        let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::SIGCHLD;
        // SAFETY: `work` comes from a box, so it is valid.
        let stack = unsafe { &raw mut (*work).stack };
        // SAFETY: `work` lives until the other process has been waited for, see `drop`; nothing else uses its stack,
        // whose top is 16-aligned as the ABI wants. The code that runs there neither allocates nor locks, and makes
        // its system calls without the C library: it shares this thread's `errno` and all other thread-local memory.
        let pid = unsafe { libc::clone(make, stack.wrapping_add(1).cast(), flags, work.cast()) };
        if pid == -1 {
            return Err(errno());
        }
        coming.maker.set(Some(pid));
        Ok(coming)
    }

    /// Waits for the namespace; `None` if it could not be made, on a second call, and in a process that was forked
    /// since.
    #[must_use]
    pub fn take(&self) -> Option<OwnedFd> {
        if let Some(network) = self.ready.take() {
            return Some(network);
        }
        let pid = self.maker.take()?;
        if rustix::process::getpid() != self.parent {
            return None;
        }
        let mut status = 0;
        // SAFETY: `status` is a valid place for the kernel to write.
        while unsafe { libc::waitpid(pid, &raw mut status, 0) } == -1 && errno() == Errno::INTR {}
        // SAFETY: `work` lives as long as `self`; the process that wrote to it has ended.
        let made = unsafe { &self.work.as_ref().made }.load(Ordering::Acquire);
        // SAFETY: the other process opened it in the table that both share, and gave up its ownership.
        (made != NOTHING).then(|| unsafe { OwnedFd::from_raw_fd(made) })
    }
}

impl Drop for ComingNetwork {
    fn drop(&mut self) {
        drop(self.take());
        // SAFETY: `work` comes from a box, and the other process has ended.
        drop(unsafe { Box::from_raw(self.work.as_ptr()) });
    }
}

/// Runs as the other process.
extern "C" fn make(work: *mut libc::c_void) -> libc::c_int {
    // SAFETY: `begin` passes its `work`, which lives until this process has ended; both processes touch only this
    // field.
    let made = unsafe { &(*work.cast::<Work>()).made };
    if let Ok(network) = network() {
        made.store(network.into_raw_fd(), Ordering::Release);
    }
    exit(0)
}

fn network() -> Result<OwnedFd, Errno> {
    // SAFETY: a new network namespace does not touch the descriptor table.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
    loopback_up()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::open(c"/proc/thread-self/ns/net", flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_takes_goes() {
        // An unprivileged caller gets no namespace here; `begin` does not report that yet.
        let coming = ComingNetwork::begin().unwrap();
        let first = coming.take();
        assert!(coming.take().is_none());
        assert_eq!(first.is_some(), rustix::process::geteuid().is_root());
        drop(ComingNetwork::begin().unwrap());
        let made = ComingNetwork::of(std::fs::File::open("/dev/null").unwrap().into());
        assert!(made.take().is_some() && made.take().is_none());
    }
}
