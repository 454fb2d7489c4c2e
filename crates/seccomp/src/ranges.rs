//! Which decision follows for which call numbers, and a search tree over that.

use crate::graph::{Graph, Id};
use crate::instruction::Comparison;

/// All numbers, divided into ranges of one decision each.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// The decision from 0 on.
    first: Id,
    /// Where it changes, and to what; rising, and each differs from the one before.
    changes: Vec<(u32, Id)>,
}

impl Ranges {
    /// Every number leads to `decision`.
    pub(crate) fn new(decision: Id) -> Self {
        Self {
            first: decision,
            changes: Vec::new(),
        }
    }

    /// From `start` on it is `decision`. `start` is never below the one of an earlier call; an equal one replaces it.
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

    /// A single number, and what follows it.
    pub(crate) fn single(&mut self, number: u32, decision: Id, otherwise: Id) {
        self.from(number, decision);
        if let Some(next) = number.checked_add(1) {
            self.from(next, otherwise);
        }
    }

    /// A tree of comparisons; the accumulator has to hold the number.
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

/// A range as wide as this, or wider, is one without calls rather than one of many calls.
const WIDE: u32 = 64;

/// Where the decision changes, and to what.
struct Bound {
    start: u32,
    decision: Id,
    /// The weight of all ranges below.
    below: u32,
}

/// Divides by weight, which is the number of calls, and 1 more for each range: few comparisons on average over all
/// calls, and not many for any. The kernel asks for each call when it loads a filter, to remember what is always allowed.
fn search(graph: &mut Graph, first: Id, bounds: &[Bound], from: u32, to: u32) -> Id {
    match bounds {
        [] => first,
        // One number that stands out of its neighbourhood.
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
