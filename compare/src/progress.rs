//! Progress for people: what runs, what it took, and how long the rest will take.

use std::collections::BTreeMap;
use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// State of the display on stderr.
#[derive(Debug)]
pub(crate) struct Progress {
    total: usize,
    done: usize,
    /// Time of all runs of a cell so far, what is off the clock included, and their number.
    spent: BTreeMap<String, (Duration, usize)>,
    live: bool,
    block: String,
    /// When this began, and when it has to end.
    span: (Instant, Option<Instant>),
}

impl Progress {
    pub(crate) fn new(total: usize, done: usize, end: Option<Instant>) -> Self {
        let live = std::io::stderr().is_terminal();
        Progress {
            total,
            done,
            spent: BTreeMap::new(),
            live,
            block: String::new(),
            span: (Instant::now(), end),
        }
    }

    /// Notes a run of `cell`, which took `whole`; `left` are the cells with the runs that each has before it.
    pub(crate) fn note<'a>(
        &mut self,
        cell: &str,
        told: &str,
        whole: Duration,
        left: impl Iterator<Item = (&'a str, usize)>,
    ) {
        self.done += 1;
        let entry = self.spent.entry(cell.to_owned()).or_default();
        entry.0 += whole;
        entry.1 += 1;
        let runs = self.done * 100 / self.total.max(1);
        let (percent, rest) = self.within(Instant::now(), runs, self.estimate(left));
        let rest = clock(rest);
        let line = format!("{percent:3}%  {cell}: {told}; about {rest} left");
        let mut out = std::io::stderr().lock();
        let block = cell.split('/').next().unwrap_or_default();
        // A measurement goes on if its progress cannot be shown.
        drop(if self.live {
            write!(out, "\r\x1b[K{line}")
        } else if block == self.block {
            Ok(())
        } else {
            writeln!(out, "{line}")
        });
        block.clone_into(&mut self.block);
    }

    /// Estimates the time of the runs that are left: by those of the same cell, else by the mean of all.
    fn estimate<'a>(&self, left: impl Iterator<Item = (&'a str, usize)>) -> Duration {
        let mean = |(time, runs): &(Duration, usize)| time.as_secs_f64() / *runs as f64;
        let all = self.spent.values().map(mean).sum::<f64>() / self.spent.len().max(1) as f64;
        let seconds = left.map(|(cell, runs)| self.spent.get(cell).map_or(all, mean) * runs as f64);
        Duration::from_secs_f64(seconds.sum())
    }

    /// Returns the percentage that is done and the time that is left, where the time to the end is less than that of all runs.
    fn within(&self, now: Instant, percent: usize, rest: Duration) -> (usize, Duration) {
        let (begun, Some(end)) = self.span else {
            return (percent, rest);
        };
        let whole = end.saturating_duration_since(begun).as_secs_f64().max(1.0);
        let left = end.saturating_duration_since(now);
        let passed = (1.0 - left.as_secs_f64() / whole) * 100.0;
        (percent.max(passed as usize), rest.min(left))
    }

    /// Ends the display.
    pub(crate) fn end(&self) {
        if self.live {
            drop(writeln!(std::io::stderr()));
        }
    }
}

/// Formats a duration in two units at most.
pub(crate) fn clock(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_is_estimated_by_what_the_same_cell_took() {
        let mut progress = Progress::new(10, 0, None);
        progress.note("a/x", "", Duration::from_secs(2), std::iter::empty());
        progress.note("a/x", "", Duration::from_secs(4), std::iter::empty());
        progress.note("a/y", "", Duration::from_secs(1), std::iter::empty());
        let left = [("a/x", 2), ("a/y", 3), ("b/x", 1)];
        assert_eq!(
            progress.estimate(left.into_iter()),
            Duration::from_secs(6 + 3 + 2)
        );
    }

    #[test]
    fn a_limit_of_time_is_less_than_the_rest() {
        let minutes = |number: u64| Duration::from_secs(60 * number);
        let begun = Instant::now();
        let progress = Progress {
            span: (begun, Some(begun + minutes(10))),
            ..Progress::new(10, 0, None)
        };
        let half = progress.within(begun + minutes(5), 20, minutes(40));
        assert_eq!(half, (50, minutes(5)));
        assert_eq!(
            progress.within(begun + minutes(5), 80, minutes(1)),
            (80, minutes(1))
        );
        let without = Progress::new(10, 0, None);
        assert_eq!(
            without.within(begun + minutes(5), 20, minutes(40)),
            (20, minutes(40))
        );
    }

    #[test]
    fn times() {
        let told = [59, 61, 7260].map(|seconds| clock(Duration::from_secs(seconds)));
        assert_eq!(told, ["59 s", "1 min 1 s", "2 h 1 min"]);
    }
}
