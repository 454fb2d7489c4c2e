//! Locks: those of open file descriptions, fcntl(2), and those of flock(2). Both belong to the open file and go with its last
//! descriptor, a forked child's included; unlike flock(2), fcntl(2) can also test for a lock without taking it.

use crate::deadline::Deadline;
use crate::named_process::NamedProcess;
use crate::outcome::errno;
use crate::{Errno, best_effort};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::FlockOperation;
use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Longest wait for a lock that its holders have for a moment. A process that has it for longer does not go on.
pub const MOMENT_LOCK: Duration = Duration::from_secs(60);

/// Longest wait for a lock that its holders have while they work: while a build runs a step, or an image comes in.
pub const WORK_LOCK: Duration = Duration::from_secs(60 * 60);

/// Time after which a waiting command says what it waits for.
const SILENCE: Duration = Duration::from_secs(2);

/// Kind of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// Exclusive lock of an open file description, fcntl(2).
    Description,
    /// Shared lock of flock(2).
    Shared,
    /// Exclusive lock of flock(2).
    Exclusive,
}

impl LockKind {
    /// Takes the lock if it is free.
    fn attempt(self, file: BorrowedFd<'_>) -> Result<bool, Errno> {
        let taken = match self {
            Self::Description => return lock_file(file),
            Self::Shared => flock(file, FlockOperation::LockShared),
            Self::Exclusive => flock(file, FlockOperation::LockExclusive),
        };
        match taken {
            Ok(()) => Ok(true),
            Err(Errno::WOULDBLOCK) => Ok(false),
            Err(errno) => Err(errno),
        }
    }

    /// Takes the lock, and blocks until it is free or a signal comes.
    #[expect(
        clippy::disallowed_methods,
        reason = "its caller has a signal interrupt it at a deadline"
    )]
    fn block(self, file: BorrowedFd<'_>) -> Result<(), Errno> {
        match self {
            Self::Description => control(file, libc::F_OFD_SETLKW).map(drop),
            Self::Shared => rustix::fs::flock(file, FlockOperation::LockShared),
            Self::Exclusive => rustix::fs::flock(file, FlockOperation::LockExclusive),
        }
    }
}

/// Teller of long waits.
static TELL: OnceLock<fn(&str)> = OnceLock::new();

/// Has long waits for locks told by that function, in one line each.
pub fn tell_long_waits(tell: fn(&str)) {
    // The first teller stays.
    best_effort(TELL.set(tell));
}

/// Wait for a lock by a caller that tries again and again.
#[derive(Debug)]
pub struct LockWait {
    begin: Instant,
    limit: Duration,
    is_told: bool,
}

impl LockWait {
    /// Begins a wait of that time at most.
    #[must_use]
    pub fn new(limit: Duration) -> Self {
        Self {
            begin: Instant::now(),
            limit,
            is_told: false,
        }
    }

    /// Looks, after an attempt in vain, whether the wait goes on. After two seconds the caller's user is told which process has the
    /// lock.
    ///
    /// # Errors
    /// `TimedOut`, which names the process that has the lock.
    pub fn go_on(&mut self, file: BorrowedFd<'_>, path: &Path) -> std::io::Result<()> {
        let waited = self.begin.elapsed();
        if waited >= self.limit {
            return Err(over(file, self.limit));
        }
        if waited >= SILENCE && !std::mem::replace(&mut self.is_told, true) {
            tell(file, path);
        }
        Ok(())
    }
}

/// Takes a lock on the file at `path`, and waits for it for that long at most. After two seconds the caller's user is told which
/// process has it.
///
/// # Errors
/// `TimedOut`, which names the process that has the lock; errors of fcntl(2) and flock(2).
pub fn lock_within(
    file: BorrowedFd<'_>,
    kind: LockKind,
    limit: Duration,
    path: &Path,
) -> std::io::Result<()> {
    if kind.attempt(file)? {
        return Ok(());
    }
    let deadline = Deadline::after(limit);
    let silence = Deadline::after(SILENCE.min(limit));
    if silence.interrupt(|| kind.block(file))?.is_some() {
        return Ok(());
    }
    if !deadline.is_over() {
        tell(file, path);
    }
    match deadline.interrupt(|| kind.block(file))? {
        Some(()) => Ok(()),
        None => Err(over(file, limit)),
    }
}

fn tell(file: BorrowedFd<'_>, path: &Path) {
    if let Some(tell) = TELL.get() {
        let holder = NamedProcess::with_lock(file);
        tell(&format!("waiting for the lock of {}: {holder}", path.display()));
    }
}

fn over(file: BorrowedFd<'_>, limit: Duration) -> std::io::Error {
    let text = format!(
        "{}; gave up after {} s",
        NamedProcess::with_lock(file),
        limit.as_secs()
    );
    std::io::Error::new(std::io::ErrorKind::TimedOut, text)
}

/// Calls flock(2), which does not wait: an operation that would is done as the one that does not.
///
/// # Errors
/// `EWOULDBLOCK` if the lock is not free, and other errors of flock(2).
pub fn flock(file: impl AsFd, operation: FlockOperation) -> Result<(), Errno> {
    let at_once = match operation {
        FlockOperation::LockShared => FlockOperation::NonBlockingLockShared,
        FlockOperation::LockExclusive => FlockOperation::NonBlockingLockExclusive,
        FlockOperation::Unlock => FlockOperation::NonBlockingUnlock,
        at_once => at_once,
    };
    #[expect(clippy::disallowed_methods, reason = "no operation of these waits")]
    rustix::fs::flock(file, at_once)
}

/// Locks a file for this open file description alone; `false` if another one holds the lock.
///
/// # Errors
/// `EBADF` if the file is not open for writing, `ENOLCK` if the file system has no locks.
pub fn lock_file(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    match control(file, libc::F_OFD_SETLK) {
        Ok(_) => Ok(true),
        Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// True if another open file description holds a lock on the file.
///
/// # Errors
/// `EBADF`, and errors of the file system.
pub fn is_locked(file: BorrowedFd<'_>) -> Result<bool, Errno> {
    control(file, libc::F_OFD_GETLK).map(|found| i32::from(found) != libc::F_UNLCK)
}

fn control(file: BorrowedFd<'_>, command: i32) -> Result<i16, Errno> {
    // SAFETY: a C structure of numbers, for which all zeros is a value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    // The constants are small; the field has the kernel's width.
    lock.l_type = libc::F_WRLCK as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    // SAFETY: the kernel reads, and for F_OFD_GETLK writes, the one structure that lives until the call returns.
    match unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) } {
        -1 => Err(errno()),
        _ => Ok(lock.l_type),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_description_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let open = || {
            let mut options = std::fs::File::options();
            options
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)
                .unwrap()
        };
        let (first, second) = (open(), open());
        assert_eq!(is_locked(second.as_fd()), Ok(false));
        assert_eq!(lock_file(first.as_fd()), Ok(true));
        assert_eq!(is_locked(first.as_fd()), Ok(false), "one's own is no hindrance");
        assert_eq!(is_locked(second.as_fd()), Ok(true));
        assert_eq!(lock_file(second.as_fd()), Ok(false));
        let copy = first.try_clone().unwrap();
        drop(first);
        assert_eq!(
            is_locked(second.as_fd()),
            Ok(true),
            "a copy of the descriptor keeps it"
        );
        drop(copy);
        assert_eq!(lock_file(second.as_fd()), Ok(true));
    }

    #[test]
    fn a_wait_for_a_lock_ends_and_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        std::fs::write(&path, "").unwrap();
        let open = || {
            std::fs::File::options()
                .read(true)
                .write(true)
                .open(&path)
                .unwrap()
        };
        for kind in [LockKind::Description, LockKind::Exclusive] {
            let (first, second) = (open(), open());
            let short = Duration::from_millis(20);
            lock_within(first.as_fd(), kind, short, &path).unwrap();
            let error = lock_within(second.as_fd(), kind, short, &path).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
            let own = format!("process {} (", std::process::id());
            assert!(error.to_string().contains(&own), "{error}");
            // One that becomes free is taken at once.
            std::thread::scope(|scope| {
                scope.spawn(|| lock_within(second.as_fd(), kind, MOMENT_LOCK, &path).unwrap());
                drop(first);
            });
            assert!(!kind.attempt(open().as_fd()).unwrap());
        }
    }
}
