//! Ranges of call numbers with a decision each, and a search tree over them.

use crate::graph::{Graph, Id};
use crate::instruction::Comparison;

/// All numbers, divided into ranges of one decision each.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// Decision from 0 on.
    first: Id,
    /// Start of each later range and its decision; rising, and each decision differs from the one before.
    changes: Vec<(u32, Id)>,
}

impl Ranges {
    /// Makes every number lead to `decision`.
    pub(crate) fn new(decision: Id) -> Self {
        Self {
            first: decision,
            changes: Vec::new(),
        }
    }

    /// Sets the decision from `start` on. `start` is never below the one of an earlier call; an equal one replaces
    /// it.
    pub(crate) fn from(&mut self, start: u32, decision: Id) {
        if start == 0 {
            self.first = decision;
            return;
        }
        self.changes.pop_if(|last| last.0 == start);
        if self.changes.last().map_or(self.first, |last| last.1) != decision {
            self.changes.push((start, decision));
        }
    }

    /// Sets the decision of a single number, and of those after it.
    pub(crate) fn single(&mut self, number: u32, decision: Id, otherwise: Id) {
        self.from(number, decision);
        if let Some(next) = number.checked_add(1) {
            self.from(next, otherwise);
        }
    }

    /// Builds a tree of comparisons; the accumulator has to hold the number.
    pub(crate) fn search(&self, graph: &mut Graph) -> Id {
        let mut weight = 0;
        let mut start = 0;
        let mut bounds = Vec::with_capacity(self.changes.len());
        for &(next, decision) in &self.changes {
            weight += (next - start).min(WIDE) + 1;
            start = next;
            bounds.push(Bound {
                start,
                decision,
                below: weight,
            });
        }
        search(graph, self.first, &bounds, 0, weight + WIDE)
    }
}

/// Width from which on a range is taken for one without calls, and not for one of many calls.
const WIDE: u32 = 64;

/// Start of a range, and its decision.
struct Bound {
    start: u32,
    decision: Id,
    /// Total weight of all ranges below.
    below: u32,
}

/// Divides by weight, which is the number of calls, and 1 more for each range: this makes few comparisons on average
/// over all calls, and not many for any. The kernel runs the filter for each call when it loads it, to remember those
/// that are always allowed.
fn search(graph: &mut Graph, first: Id, bounds: &[Bound], from: u32, to: u32) -> Id {
    match bounds {
        [] => first,
        // A single number differs from its neighbourhood.
        [single, next] if next.decision == first && next.start - single.start == 1 => {
            graph.test(Comparison::Equal, single.start, single.decision, first)
        }
        _ => {
            let half = from.midpoint(to);
            let above = bounds
                .partition_point(|bound| bound.below < half)
                .min(bounds.len() - 1);
            let nearest = if above > 0 && half - bounds[above - 1].below < bounds[above].below.abs_diff(half)
            {
                above - 1
            } else {
                above
            };
            let bound = &bounds[nearest];
            let below = search(graph, first, &bounds[..nearest], from, bound.below);
            let above = search(graph, bound.decision, &bounds[nearest + 1..], bound.below, to);
            graph.test(Comparison::GreaterEqual, bound.start, above, below)
        }
    }
}
