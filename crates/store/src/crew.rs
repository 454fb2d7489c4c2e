//! Work shared by several threads.

use rustix::thread::{sched_getaffinity, sched_getcpu, sched_setaffinity};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use tote_sys::best_effort;

/// Maximum number of threads; more would only wait for the file system's locks.
const MOST: usize = 4;

/// Returns the number of threads for many items.
pub(crate) fn size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| match std::thread::available_parallelism() {
        // Tests use a single thread, because injected faults are counted per thread.
        Ok(count) if !cfg!(test) => count.get().min(MOST),
        _ => 1,
    })
}

/// Moves the present thread, a new one, to another processor than that of its maker; then it may run on all again. The kernel of a
/// virtual machine does not count on a processor that sleeps: it leaves a new thread beside its maker until some ticks later.
pub(crate) fn leave(maker: usize) {
    let Ok(all) = sched_getaffinity(None) else {
        return;
    };
    let mut others = all;
    others.unset(maker);
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        best_effort(sched_setaffinity(None, &all));
    }
}

/// Calls `work` for each item, in any order, on as many threads as there are processors. After a failure no further
/// item is begun, and the first error is returned.
pub(crate) fn for_each<T: Sync, E: Send>(
    items: &[T],
    work: impl Fn(&T) -> Result<(), E> + Sync,
) -> Result<(), E> {
    let threads = size().min(items.len());
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let take = || {
        while !stop.load(Ordering::Relaxed) {
            let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) else {
                return;
            };
            if let Err(error) = work(item)
                && !stop.swap(true, Ordering::Relaxed)
            {
                *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
        }
    };
    let maker = sched_getcpu();
    std::thread::scope(|scope| {
        for _ in 1..threads {
            // If no further thread can be created, the present ones do its work.
            if std::thread::Builder::new()
                .spawn_scoped(scope, || {
                    leave(maker);
                    take();
                })
                .is_err()
            {
                break;
            }
        }
        take();
    });
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// Does both, `other` on a second thread where there are two processors, and returns both results.
pub(crate) fn both<A: Send, B>(other: impl Fn() -> A + Sync, own: impl FnOnce() -> B) -> (A, B) {
    let maker = sched_getcpu();
    let on_thread = || {
        leave(maker);
        other()
    };
    std::thread::scope(|scope| {
        let thread = (size() > 1).then(|| std::thread::Builder::new().spawn_scoped(scope, on_thread));
        let own = own();
        let other = match thread {
            Some(Ok(thread)) => thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            // If no thread can be created, this one does its work.
            None | Some(Err(_)) => other(),
        };
        (other, own)
    })
}

#[cfg(test)]
mod tests {
    use super::{both, for_each};
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn everything_is_done_once_and_the_first_failure_ends_it() {
        let items: Vec<u64> = (0..100).collect();
        let sum = AtomicU64::new(0);
        let add = |item: &u64| {
            sum.fetch_add(*item, Ordering::Relaxed);
            Ok::<_, u64>(())
        };
        assert_eq!(for_each(&items, add), Ok(()));
        assert_eq!(sum.into_inner(), 4950);
        let failed = for_each(&items, |item| if *item < 10 { Ok(()) } else { Err(*item) });
        assert_eq!(failed, Err(10));
        assert_eq!(for_each(&[], |(): &()| Err(())), Ok(()));
    }

    #[test]
    fn both_are_done() {
        let items = [1, 2, 3];
        assert_eq!(both(|| items.len(), || items.iter().sum::<i32>()), (3, 6));
    }
}
