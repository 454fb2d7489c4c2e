//! Timings of a start.

use rustix::time::{ClockId, Timespec, clock_gettime};

/// Marks on one clock, each named after the work that ended there.
#[derive(Debug)]
pub struct Timings {
    start: u64,
    marks: Vec<(String, u64)>,
}

impl Timings {
    /// Starts at a time of CLOCK_MONOTONIC in nanoseconds.
    #[must_use]
    pub fn since(start: u64) -> Self {
        Self {
            start,
            marks: Vec::with_capacity(16),
        }
    }

    /// Returns when this process was executed: the present time less the processor time used since. The process has
    /// not waited before its `main`, so no other time has passed.
    #[must_use]
    pub fn process_start() -> u64 {
        Self::now().saturating_sub(nanoseconds(clock_gettime(ClockId::ProcessCPUTime)))
    }

    /// Returns the present time in nanoseconds of CLOCK_MONOTONIC.
    #[must_use]
    pub fn now() -> u64 {
        nanoseconds(clock_gettime(ClockId::Monotonic))
    }

    /// Notes that something ended now.
    pub fn mark(&mut self, what: &str) {
        self.mark_at(what.to_owned(), Self::now());
    }

    /// Notes that something ended at that time.
    pub fn mark_at(&mut self, what: String, at: u64) {
        self.marks.push((what, at));
    }

    /// Returns how many microseconds each piece of work took, in the order of time; and the total.
    ///
    /// The spans are from one mark to the next on one time line, so they add up to the total: work of the parent that
    /// ran beside work of the child shows only the time that it added.
    #[must_use]
    pub fn spans(&self) -> (Vec<(&str, f64)>, f64) {
        let mut marks: Vec<_> = self.marks.iter().collect();
        marks.sort_by_key(|(_, at)| *at);
        let mut last = self.start;
        let mut spans = Vec::with_capacity(marks.len());
        for (what, at) in marks {
            spans.push((what.as_str(), micros(at.saturating_sub(last))));
            last = *at;
        }
        (spans, micros(last.saturating_sub(self.start)))
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a start takes far less than the 104 days that a f64 holds exactly"
)]
fn micros(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

fn nanoseconds(time: Timespec) -> u64 {
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_add_up_whatever_the_order() {
        let mut timings = Timings::since(1_000);
        timings.mark_at("late".to_owned(), 9_000);
        timings.mark_at("early".to_owned(), 3_000);
        let (spans, total) = timings.spans();
        assert_eq!(spans, [("early", 2.0), ("late", 6.0)]);
        assert!((total - 8.0).abs() < f64::EPSILON);
    }
}
