//! Waiting without sleep for an answer that comes at once.
//!
//! Where two programs answer each other by turns, the next message comes some ten microseconds after the last one was passed on. To
//! put this process to sleep and to wake it again, often on another processor that sleeps as well, takes longer than that. So
//! a wait that was short is followed by one that begins without sleep. That one is in vain if the answer takes longer, or if other
//! programs need the processor; then this process sleeps through more and more short waits before it tries again.

use std::time::{Duration, Instant};
use tote_sys::{Endless, Wait};

/// A wait that ended within this time was short.
const SHORT: Duration = Duration::from_micros(100);

/// How long a wait goes on without sleep.
const LONGEST: Duration = Duration::from_micros(50);

/// The fewest short waits that are slept through after one without sleep was in vain: it costs as much as some save.
const FIRST_SLEPT: u32 = 8;

/// The most short waits that are slept through after one without sleep was in vain.
const MOST_SLEPT: u32 = 4096;

/// Whether the next wait begins without sleep.
#[derive(Debug, Default)]
pub(crate) struct Alertness {
    /// Whether the last wait was short.
    is_short: bool,
    /// Number of short waits that are still to be slept through.
    left: u32,
    /// Number of short waits to sleep through after the last wait that was in vain.
    slept: u32,
}

impl Alertness {
    /// Waits by `look`, which returns how much has happened after at most that time; `None` is any time.
    pub(crate) fn wait(&mut self, longest: Option<Duration>, mut look: impl FnMut(Wait) -> usize) -> usize {
        let begun = Instant::now();
        if self.is_awake()
            && longest.is_none_or(|longest| longest > LONGEST)
            && let Some(happened) = self.look_on(begun, &mut look)
        {
            return happened;
        }
        let happened = look(Wait::within_or(longest, Endless::Calls));
        self.has_slept(begun.elapsed());
        happened
    }

    /// Looks without sleep, and yields the processor to processes that need it. Looking was in vain if it took long: the answer takes
    /// longer, or another process kept the processor.
    fn look_on(&mut self, begun: Instant, look: &mut impl FnMut(Wait) -> usize) -> Option<usize> {
        loop {
            let happened = look(Wait::now());
            let is_over = begun.elapsed() >= LONGEST;
            if is_over {
                self.was_in_vain();
            } else if happened > 0 {
                self.has_paid();
            }
            if is_over || happened > 0 {
                return Some(happened).filter(|happened| *happened > 0);
            }
            rustix::thread::sched_yield();
        }
    }

    fn is_awake(&self) -> bool {
        self.is_short && self.left == 0
    }

    fn has_paid(&mut self) {
        self.slept = self.slept.saturating_sub(1);
    }

    fn was_in_vain(&mut self) {
        self.slept = (self.slept * 2).clamp(FIRST_SLEPT, MOST_SLEPT);
        self.left = self.slept;
    }

    fn has_slept(&mut self, time: Duration) {
        self.is_short = time < SHORT;
        if self.is_short {
            self.left = self.left.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(1);

    /// Waits during which something happens at the given look; returns how many looks slept.
    fn slept(alertness: &mut Alertness, at: usize) -> usize {
        let (mut looks, mut slept) = (0, 0);
        alertness.wait(Some(LONG), |wait| {
            looks += 1;
            let sleeps = wait.left() != Some(Duration::ZERO);
            slept += usize::from(sleeps);
            usize::from(sleeps || looks == at)
        });
        slept
    }

    #[test]
    fn short_waits_are_followed_by_one_without_sleep() {
        let mut alertness = Alertness::default();
        assert_eq!(slept(&mut alertness, 1), 1, "nothing was passed on before");
        alertness.has_slept(Duration::from_micros(10));
        for _ in 0..10 {
            assert_eq!(slept(&mut alertness, 1), 0);
        }
        alertness.has_slept(LONG);
        assert_eq!(slept(&mut alertness, 1), 1);
    }

    #[test]
    fn waits_in_vain_become_rare() {
        let mut alertness = Alertness::default();
        let mut in_vain = 0;
        for _ in 0..10_000 {
            alertness.has_slept(Duration::from_micros(10));
            if alertness.is_awake() {
                in_vain += 1;
                alertness.was_in_vain();
            }
        }
        assert!((8..16).contains(&in_vain), "{in_vain}");
        (0..MOST_SLEPT).for_each(|_| alertness.has_paid());
        alertness.was_in_vain();
        (0..FIRST_SLEPT).for_each(|_| alertness.has_slept(Duration::from_micros(10)));
        assert!(alertness.is_awake(), "answers in time count as well");
    }

    #[test]
    fn a_wait_for_nothing_does_not_go_on() {
        let mut alertness = Alertness::default();
        alertness.has_slept(Duration::from_micros(10));
        let mut looks = 0;
        let happened = alertness.wait(Some(Duration::ZERO), |wait| {
            assert_eq!(wait.left(), Some(Duration::ZERO));
            looks += 1;
            0
        });
        assert_eq!((happened, looks), (0, 1));
    }
}
