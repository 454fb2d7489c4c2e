//! Concurrent transfers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Limit of concurrent transfers. More of them would not increase the bandwidth.
const AT_ONCE: usize = 4;

/// Calls `work` for each item, a few at a time, and returns the results in the items' order. A failure sets `stop`,
/// on which the other calls give up; the first error is returned.
pub fn for_each<T: Sync, R: Send, E: Send>(
    items: &[T],
    work: impl Fn(&T, &AtomicBool) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let failure = Mutex::new(None);
    let results: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    let take = || {
        while !stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else {
                return;
            };
            match work(item, &stop) {
                Ok(result) => results
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push((index, result)),
                Err(error) => {
                    if !stop.swap(true, Ordering::Relaxed) {
                        *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                    }
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..items.len().min(AT_ONCE) {
            // If no further thread can be created, the present ones do its work.
            if std::thread::Builder::new().spawn_scoped(scope, take).is_err() {
                break;
            }
        }
        take();
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(index, _)| *index);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::for_each;

    #[test]
    fn results_are_in_order_and_a_failure_is_given() {
        let items: Vec<u32> = (0..50).collect();
        let doubled = for_each(&items, |item, _| Ok::<_, ()>(item * 2));
        assert_eq!(doubled, Ok((0..50).map(|item| item * 2).collect()));
        let failed = for_each(&items, |item, _| if *item == 7 { Err(*item) } else { Ok(()) });
        assert_eq!(failed, Err(7));
        assert_eq!(for_each(&[], |(): &(), _| Err::<(), _>(())), Ok(Vec::new()));
    }
}
