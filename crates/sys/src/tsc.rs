//! Frequency of the processor's time stamp counter.

use crate::wait::Wait;
use std::time::{Duration, Instant};

/// Nanoseconds of the measurement: the error is that of two readings of the clock, a few hundred-thousandths at most.
const SPAN: u64 = 10_000_000;

/// Time between two readings of the clock between which the counter is read. Where another process gets the processor meanwhile, it is longer.
const MOMENT: Duration = Duration::from_nanos(250);

/// Number of attempts to read the counter in a [`MOMENT`].
const ATTEMPTS: usize = 1000;

/// Measures the frequency in kHz; `None` on processors without such a counter.
#[must_use]
pub fn tsc_khz() -> Option<u64> {
    let (begin, first) = read(count)?;
    // A wait that a signal ends is only less exact.
    crate::best_effort(Wait::within(Duration::from_nanos(SPAN)).poll(&mut []));
    let (end, last) = read(count)?;
    let cycles = u128::from(last.checked_sub(first)?);
    u64::try_from(cycles * 1_000_000 / end.duration_since(begin).as_nanos().max(1)).ok()
}

/// Reads the clock and the counter at one moment, as far as other processes allow that: a guest has no other clock than this counter, and does not
/// get a second measurement.
fn read(count: impl Fn() -> Option<u64>) -> Option<(Instant, u64)> {
    let attempt = || {
        let (before, counted) = (Instant::now(), count()?);
        let took = before.elapsed();
        Some((took, (before + took / 2, counted)))
    };
    let mut best = attempt()?;
    for _ in 1..ATTEMPTS {
        if best.0 <= MOMENT {
            break;
        }
        let next = attempt()?;
        if next.0 < best.0 {
            best = next;
        }
    }
    Some(best.1)
}

#[cfg(target_arch = "x86_64")]
fn count() -> Option<u64> {
    // SAFETY: every x86_64 processor has rdtsc, which only reads a counter. Where the kernel forbids it (PR_SET_TSC), nothing of
    // tote's has asked for that.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn count() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_frequency_of_some_processor() {
        let Some(khz) = tsc_khz() else {
            return;
        };
        assert!((100_000..20_000_000).contains(&khz), "{khz}");
    }

    #[test]
    fn a_reading_that_another_process_interrupts_does_not_count() {
        let reads = Cell::new(0);
        let interrupted = || {
            reads.set(reads.get() + 1);
            let begin = Instant::now();
            // The first three readings take a millisecond each.
            while reads.get() <= 3 && begin.elapsed() < Duration::from_millis(1) {}
            Some(reads.get())
        };
        let begin = Instant::now();
        let (at, counted) = read(interrupted).unwrap();
        assert!(counted > 3, "{counted}");
        assert!(at.duration_since(begin) >= Duration::from_millis(3));
    }
}
