//! The gap between those who add something to the store, for a sweep that waits for one.
//!
//! Adding takes the store's lock shared, a sweep takes it exclusively, and flock(2) knows no queue: where there is always
//! somebody who adds, a sweep would never have its turn. So a sweep that has waited in vain closes the gate for a moment:
//! the file [`GATE`], locked. Whoever comes to add something waits at the gate first, once, and those inside finish
//! meanwhile. If they do not, because one of them pulls a large image, for example, the gate opens again: nobody else is
//! to wait for that one.

use crate::StoreError;
use crate::dir::Dir;
use crate::lock::Lock;
use rustix::fs::FlockOperation;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tote_sys::best_effort;

/// The lock of the store: shared by those who add, exclusive for a sweep.
pub(crate) const STORE: &str = "lock";

/// Only there while a sweep has closed it, or where a sweep was killed while it had.
const GATE: &str = "gate";

/// How long the gate is closed: the longest that anybody waits there.
const CLOSED: Duration = Duration::from_secs(2);

/// How long it is open between two closings. Each time it is twice as long as before.
const OPEN: Duration = Duration::from_secs(2);

/// How often the lock is asked for.
const PAUSE: Duration = Duration::from_millis(5);

/// How many locks this process has for adding: a further one, which part of its work may take, does not wait at the gate,
/// since the sweep waits for this process.
static ADDING: AtomicUsize = AtomicUsize::new(0);

/// The store's lock, shared.
#[derive(Debug)]
pub(crate) struct Presence {
    _lock: Lock,
}

impl Presence {
    /// Waits at the gate, and while a sweep goes on.
    pub(crate) fn enter(root: &Dir) -> Result<Self, StoreError> {
        if ADDING.load(Ordering::Relaxed) == 0 {
            // A gate that cannot be waited at delays a sweep and nobody else.
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

/// Waits until nobody adds anything, and sees to it that this does not take for ever where many do for a moment each.
pub(crate) fn wait_for_gap(root: &Dir) -> Result<Lock, StoreError> {
    let mut open = OPEN;
    loop {
        if let Some(lock) = Lock::try_exclusive(root, STORE)? {
            return Ok(lock);
        }
        // Where another sweep has closed it, that one is waited for as well.
        let gate = Lock::try_exclusive(root, GATE)?;
        let found = ask_until(root, Instant::now() + CLOSED);
        if let Some(gate) = gate {
            best_effort(gate.remove(root, GATE));
        }
        if let Some(lock) = found? {
            return Ok(lock);
        }
        if let Some(lock) = ask_until(root, Instant::now() + open)? {
            return Ok(lock);
        }
        open = open.saturating_mul(2);
    }
}

fn ask_until(root: &Dir, end: Instant) -> Result<Option<Lock>, StoreError> {
    loop {
        if let Some(lock) = Lock::try_exclusive(root, STORE)? {
            return Ok(Some(lock));
        }
        if Instant::now() >= end {
            return Ok(None);
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

    /// Threads stand for processes here, so each waits at the gate as the first of a process would.
    fn enter(root: &Dir) -> Lock {
        best_effort(Lock::of_present(root, GATE, FlockOperation::LockShared));
        Lock::shared(root, STORE).unwrap()
    }

    /// One of those who add: it stays until another has come after it, so that there is never a gap, unless the others
    /// wait at the gate.
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
                // A sweep that has no turn is to fail this test and not to hold it up.
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
            // The sweep waits for the slow one, and this does not.
            let began = Instant::now();
            drop(enter(&root));
            assert!(began.elapsed() < CLOSED * 2);
            drop(slow);
            drop(sweep.join().unwrap());
        });
    }
}
