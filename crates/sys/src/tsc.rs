//! Frequency of the processor's time stamp counter.

use rustix::event::{PollFd, Timespec, poll};
use std::time::Instant;

/// Nanoseconds of the measurement: the error is that of two readings of the clock, a few millionths.
const SPAN: i64 = 10_000_000;

/// Measures the frequency in kHz; `None` on processors without such a counter.
#[must_use]
pub fn tsc_khz() -> Option<u64> {
    let wait = Timespec {
        tv_sec: 0,
        tv_nsec: SPAN,
    };
    let (begin, first) = (Instant::now(), count()?);
    // A wait that a signal ends is only less exact.
    crate::best_effort(poll(&mut [] as &mut [PollFd<'_>], Some(&wait)));
    let (elapsed, last) = (begin.elapsed(), count()?);
    let cycles = u128::from(last.checked_sub(first)?);
    u64::try_from(cycles * 1_000_000 / elapsed.as_nanos().max(1)).ok()
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
    #[test]
    fn a_frequency_of_some_processor() {
        let Some(khz) = super::tsc_khz() else {
            return;
        };
        assert!((100_000..20_000_000).contains(&khz), "{khz}");
    }
}
