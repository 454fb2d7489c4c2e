//! A network namespace that is made while its maker goes on: no other namespace takes the kernel nearly as long.

use crate::Errno;
use crate::birth::errno;
use crate::child::exit;
use crate::identity::loopback_up;
use rustix::fd::{FromRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::thread::UnshareFlags;
use std::cell::Cell;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, Ordering};

/// A network namespace with its loopback interface up, in the caller's user namespace: made by another process, which
/// shares the caller's memory and descriptors.
#[derive(Debug)]
pub struct ComingNetwork {
    work: NonNull<Work>,
    /// The process, until it has been waited for.
    maker: Cell<Option<libc::pid_t>>,
    /// Whose child it is: what has been forked since has its own memory, which nobody writes to.
    parent: rustix::process::Pid,
}

/// What both processes have.
struct Work {
    /// The descriptor of the namespace, or [`NOTHING`].
    made: AtomicI32,
    stack: [u128; 512],
}

const NOTHING: i32 = -1;

impl ComingNetwork {
    /// Has it made.
    ///
    /// # Errors
    /// clone(2)'s.
    pub fn begin() -> Result<Self, Errno> {
        let work = Box::into_raw(Box::new(Work {
            made: AtomicI32::new(NOTHING),
            stack: [0; 512],
        }));
        let flags = libc::CLONE_VM | libc::CLONE_FILES | libc::SIGCHLD;
        // SAFETY: it is from a box.
        let stack = unsafe { &raw mut (*work).stack };
        // SAFETY: `work` lives until the other process has been waited for, see `drop`; nobody else uses its stack, whose
        // top is 16-aligned as the ABI wants. What runs there neither allocates nor locks, and makes its system calls
        // without the C library: it shares this thread's `errno` and all other thread-local memory.
        let pid = unsafe { libc::clone(make, stack.wrapping_add(1).cast(), flags, work.cast()) };
        // SAFETY: Box gives no null.
        let work = unsafe { NonNull::new_unchecked(work) };
        let coming = Self {
            work,
            maker: Cell::new((pid != -1).then_some(pid)),
            parent: rustix::process::getpid(),
        };
        if pid == -1 { Err(errno()) } else { Ok(coming) }
    }

    /// Waits for it; `None` where it could not be made, the second time, and in a process that was forked since.
    #[must_use]
    pub fn take(&self) -> Option<OwnedFd> {
        let pid = self.maker.take()?;
        if rustix::process::getpid() != self.parent {
            return None;
        }
        let mut status = 0;
        // SAFETY: `status` is a valid place for the kernel to write.
        while unsafe { libc::waitpid(pid, &raw mut status, 0) } == -1 && errno() == Errno::INTR {}
        // SAFETY: it lives as long as `self`; the process that wrote to it is gone.
        let made = unsafe { &self.work.as_ref().made }.load(Ordering::Acquire);
        // SAFETY: the other process opened it in the table that both share, and gave it away.
        (made != NOTHING).then(|| unsafe { OwnedFd::from_raw_fd(made) })
    }
}

impl Drop for ComingNetwork {
    fn drop(&mut self) {
        drop(self.take());
        // SAFETY: it is from a box, and the other process is gone.
        drop(unsafe { Box::from_raw(self.work.as_ptr()) });
    }
}

/// The other process.
extern "C" fn make(work: *mut libc::c_void) -> libc::c_int {
    // SAFETY: the caller's `work`, which is there until this process has ended; of both only this field is touched.
    let made = unsafe { &(*work.cast::<Work>()).made };
    if let Ok(network) = network() {
        made.store(network.into_raw_fd(), Ordering::Release);
    }
    exit(0)
}

fn network() -> Result<OwnedFd, Errno> {
    // SAFETY: a network namespace touches no descriptor table.
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
        // Who may make none finds nothing there, which is no error yet.
        let coming = ComingNetwork::begin().unwrap();
        let first = coming.take();
        assert!(coming.take().is_none());
        assert_eq!(first.is_some(), rustix::process::geteuid().is_root());
        drop(ComingNetwork::begin().unwrap());
    }
}
