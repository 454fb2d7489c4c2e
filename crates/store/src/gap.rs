//! The gap between processes that add to the store, in which a sweep can run.
//!
//! Adding takes the store's lock shared, a sweep takes it exclusively, and flock(2) has no queue: with an
//! uninterrupted series of additions, a sweep would never get the lock. So a sweep that has waited in vain closes
//! the gate for a moment: it locks the file [`GATE`]. A process that begins to add first waits at the gate, once,
//! and those inside can finish meanwhile. If they do not, for example because one of them pulls a large image, the
//! gate opens again, so that no other process waits for that one.

use crate::StoreError;
use crate::dir::Dir;
use crate::lock::Lock;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::FlockOperation;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tote_sys::{LockWait, WORK_LOCK, best_effort};

/// Name of the store's lock: shared by processes that add, exclusive for a sweep.
pub(crate) const STORE: &str = "lock";

/// Name of the gate. The file exists only while a sweep has closed the gate, or after such a sweep was killed.
const GATE: &str = "gate";

/// Time for which the gate is closed: the longest wait at it.
const CLOSED: Duration = Duration::from_secs(2);

/// Time for which the gate is open between two closings; it doubles each time.
const OPEN: Duration = Duration::from_secs(2);

/// Longest time for which the gate is open between two closings.
const LONGEST_OPEN: Duration = Duration::from_secs(60);

/// Time for which a process that comes to the gate may have it.
const INSTANT: Duration = Duration::from_millis(20);

/// Time between two attempts to take a lock.
const PAUSE: Duration = Duration::from_millis(5);

/// Number of locks that this process holds for adding. A further one, taken by a part of its work, does not wait at
/// the gate, since the sweep waits for this process.
static ADDING: AtomicUsize = AtomicUsize::new(0);

/// A gap: as long as it is held, no process adds anything to the store, so an image without a name is not just getting
/// one.
#[derive(Debug)]
pub struct Gap {
    _lock: Lock,
}

impl Gap {
    /// Waits for the gap.
    pub(crate) fn wait(root: &Dir) -> Result<Self, StoreError> {
        Ok(Self {
            _lock: wait_for_gap(root)?,
        })
    }
}

/// The store's lock, held shared.
#[derive(Debug)]
pub(crate) struct Presence {
    _lock: Lock,
}

impl Presence {
    /// Takes the lock; waits at the gate, and for a running sweep.
    pub(crate) fn enter(root: &Dir) -> Result<Self, StoreError> {
        if ADDING.load(Ordering::Relaxed) == 0 {
            // If the gate fails, only a sweep is delayed.
            best_effort(Lock::of_present(root, GATE, FlockOperation::LockShared));
        }
        let lock = Lock::shared(root, STORE)?;
        ADDING.fetch_add(1, Ordering::Relaxed);
        Ok(Self { _lock: lock })
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        ADDING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Waits until no process adds anything, and closes the gate from time to time, so that a series of short additions
/// cannot make this wait endless; a process that adds for an hour, or is stopped, does not either.
pub(crate) fn wait_for_gap(root: &Dir) -> Result<Lock, StoreError> {
    let mut open = OPEN;
    let mut wait = LockWait::new(WORK_LOCK);
    loop {
        if let Ok(lock) = Lock::try_exclusive(root, STORE)? {
            return Ok(lock);
        }
        // A process that begins to add has the gate for an instant, if it finds the file before that is locked. If another sweep has closed
        // the gate, that one is waited for as well.
        let gate = ask_for(root, GATE, INSTANT)?;
        let found = ask_for(root, STORE, CLOSED);
        if let Ok(gate) = gate {
            best_effort(gate.remove(root, GATE));
        }
        let adding = match found? {
            Ok(lock) => return Ok(lock),
            Err(file) => file,
        };
        let path = root.path().join(STORE);
        let goes_on = wait.go_on(adding.as_fd(), &path);
        goes_on.map_err(|source| StoreError::Io {
            attempt: "lock",
            path,
            source,
        })?;
        if let Ok(lock) = ask_for(root, STORE, open)? {
            return Ok(lock);
        }
        open = open.saturating_mul(2).min(LONGEST_OPEN);
    }
}

/// Asks for a lock until it is free, no longer than so long; returns the file of one that is not.
fn ask_for(root: &Dir, name: &str, longest: Duration) -> Result<Result<Lock, OwnedFd>, StoreError> {
    let end = Instant::now() + longest;
    loop {
        let taken = Lock::try_exclusive(root, name)?;
        if taken.is_ok() || Instant::now() >= end {
            return Ok(taken);
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the kernel has no call that waits for a lock and no longer than so long"
        )]
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    /// Enters as the first lock of a process would: each waits at the gate, because threads stand for processes
    /// here.
    fn enter(root: &Dir) -> Lock {
        best_effort(Lock::of_present(root, GATE, FlockOperation::LockShared));
        Lock::shared(root, STORE).unwrap()
    }

    /// Adds without a gap: each addition lasts until another has begun, unless the others wait at the gate.
    fn add_and_add(root: &Dir, entered: &AtomicUsize, over: &AtomicBool) {
        while !over.load(Ordering::Relaxed) {
            let lock = enter(root);
            let own = entered.fetch_add(1, Ordering::Relaxed) + 1;
            while entered.load(Ordering::Relaxed) == own && !over.load(Ordering::Relaxed) && !root.has(GATE) {
                std::thread::yield_now();
            }
            drop(lock);
        }
    }

    #[test]
    fn a_sweep_has_its_turn_among_those_who_always_add() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open(temp.path()).unwrap();
        let (entered, over) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| add_and_add(&root, &entered, &over));
            }
            scope.spawn(|| {
                // Without a gap the sweep must fail this test and not block it.
                let end = Instant::now() + CLOSED + OPEN;
                while Instant::now() < end && !over.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                over.store(true, Ordering::Relaxed);
            });
            while entered.load(Ordering::Relaxed) < 2 {
                std::thread::yield_now();
            }
            let lock = wait_for_gap(&root).unwrap();
            assert!(!over.swap(true, Ordering::Relaxed), "the sweep had no turn");
            assert!(!root.has(GATE), "the gate is open again");
            drop(lock);
        });
    }

    #[test]
    fn nobody_waits_at_the_gate_for_long() {
        let temp = tempfile::tempdir().unwrap();
        let root = Dir::open(temp.path()).unwrap();
        let slow = enter(&root);
        std::thread::scope(|scope| {
            let sweep = scope.spawn(|| wait_for_gap(&root).unwrap());
            let soon = Instant::now() + CLOSED;
            while !root.has(GATE) && Instant::now() < soon {
                std::thread::yield_now();
            }
            // The sweep waits for the slow addition, which ends after this one: this one does not wait for the sweep.
            drop(enter(&root));
            assert!(!sweep.is_finished());
            drop(slow);
            drop(sweep.join().unwrap());
        });
    }
}
