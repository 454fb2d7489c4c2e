//! Selection of calls to try: all, every nth, or a sample that prefers calls that write.

use super::call::Call;
use super::errno::is_plausible;
use super::tracer::{Deed, Fault};
use crate::chance::Chance;
use nix::errno::Errno;

/// Kind of fault to inject into the calls of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    Kill,
    /// Error for calls that can fail with it in practice, or for all calls if `any`.
    Fail {
        errno: Errno,
        always: bool,
        any: bool,
    },
}

impl Point {
    /// Makes the point of a fault that the command line names.
    pub(crate) fn at(fault: Fault) -> Self {
        Self { fault, weight: 1 }
    }
}

impl Means {
    fn deed(self) -> Deed {
        match self {
            Self::Kill => Deed::Kill,
            Self::Fail { errno, always, .. } => Deed::Fail { errno, always },
        }
    }

    fn fits(self, call: &Call) -> bool {
        match self {
            Self::Kill => true,
            Self::Fail { any: true, .. } => {
                !matches!(call.name, "exit_group" | "exit" | "rt_sigreturn" | "execve")
            }
            Self::Fail { errno, .. } => is_plausible(errno, call.name),
        }
    }
}

/// Fault, and its weight in a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) fault: Fault,
    weight: u64,
}

/// Weight of a call that writes, relative to other calls. For a kill the next call has it too, because the write is
/// complete at its entry.
const WRITES: u64 = 8;

/// Lists the points of a command for these kinds of faults, in the order of processes and calls.
pub(crate) fn all(calls: &[Vec<Call>], means: &[Means]) -> Vec<Point> {
    let mut points = Vec::new();
    for &means in means {
        for (process, calls) in (1..).zip(calls) {
            let mut after_writing = false;
            for (number, call) in (1..).zip(calls) {
                let weight = if call.writes || (after_writing && means == Means::Kill) {
                    WRITES
                } else {
                    1
                };
                after_writing = call.writes;
                if means.fits(call) {
                    let fault = Fault {
                        process,
                        call: number,
                        name: Some(call.name),
                        deed: means.deed(),
                    };
                    points.push(Point { fault, weight });
                }
            }
        }
    }
    points
}

/// Keeps every `n`th point, from the first one.
pub(crate) fn every(points: Vec<Point>, n: usize) -> Vec<Point> {
    points.into_iter().step_by(n.max(1)).collect()
}

/// Draws `count` different points, in the order in which they are drawn.
pub(crate) fn sample(mut points: Vec<Point>, count: usize, chance: &mut Chance) -> Vec<Point> {
    let mut drawn = Vec::new();
    let mut total: u64 = points.iter().map(|point| point.weight).sum();
    while drawn.len() < count && !points.is_empty() {
        let mut left = chance.below(total);
        let at = points.iter().position(|point| {
            let here = left < point.weight;
            left = left.saturating_sub(point.weight);
            here
        });
        let point = points.swap_remove(at.unwrap_or(0));
        total -= point.weight;
        drawn.push(point);
    }
    drawn
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &'static str, writes: bool) -> Call {
        Call {
            name,
            object: String::new(),
            writes,
        }
    }

    fn command() -> Vec<Vec<Call>> {
        vec![
            vec![
                call("getpid", false),
                call("openat", true),
                call("close", false),
                call("read", false),
            ],
            vec![call("mkdirat", true)],
        ]
    }

    #[test]
    fn a_kill_fits_everywhere_and_an_errno_where_it_may_be() {
        let places = |means| -> Vec<(usize, usize)> {
            let points = all(&command(), &[means]);
            points
                .iter()
                .map(|point| (point.fault.process, point.fault.call))
                .collect()
        };
        assert_eq!(places(Means::Kill), [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1)]);
        let fail = |errno, any| Means::Fail {
            errno,
            always: false,
            any,
        };
        assert_eq!(places(fail(Errno::EMFILE, false)), [(1, 2)]);
        assert_eq!(places(fail(Errno::ENOSPC, false)), [(1, 2), (2, 1)]);
        assert_eq!(places(fail(Errno::EMFILE, true)).len(), 5);
    }

    #[test]
    fn what_writes_and_what_comes_after_weighs_more() {
        let weights: Vec<_> = all(&command(), &[Means::Kill])
            .iter()
            .map(|point| point.weight)
            .collect();
        assert_eq!(weights, [1, WRITES, WRITES, 1, WRITES]);
    }

    #[test]
    fn a_sample_is_drawn_without_repetition_and_again_with_the_same_seed() {
        let points = all(&command(), &[Means::Kill]);
        let draw = |seed, count| sample(points.clone(), count, &mut Chance::new(seed));
        assert_eq!(draw(7, 3), draw(7, 3));
        assert_eq!(draw(7, 3).len(), 3);
        let mut whole: Vec<_> = draw(9, 99)
            .iter()
            .map(|point| (point.fault.process, point.fault.call))
            .collect();
        whole.sort_unstable();
        assert_eq!(whole, [(1, 1), (1, 2), (1, 3), (1, 4), (2, 1)]);
        let writing = (0..500).filter(|seed| draw(*seed, 1)[0].weight == WRITES).count();
        assert!(writing > 400, "{writing} of 500, where 24 of 26 are expected");
    }

    #[test]
    fn every_second() {
        let points = every(all(&command(), &[Means::Kill]), 2);
        let places: Vec<_> = points
            .iter()
            .map(|point| (point.fault.process, point.fault.call))
            .collect();
        assert_eq!(places, [(1, 1), (1, 3), (2, 1)]);
    }
}
