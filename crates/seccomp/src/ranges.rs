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

    /// A balanced tree of comparisons; the accumulator has to hold the number.
    pub(crate) fn search(&self, graph: &mut Graph) -> Id {
        search(graph, self.first, &self.changes)
    }
}

fn search(graph: &mut Graph, first: Id, changes: &[(u32, Id)]) -> Id {
    match *changes {
        [] => first,
        // One number that stands out of its neighbourhood.
        [(number, single), (next, after)] if after == first && next - number == 1 => {
            graph.test(Comparison::Equal, number, single, first)
        }
        _ => {
            let middle = changes.len() / 2;
            let (start, decision) = changes[middle];
            let below = search(graph, first, &changes[..middle]);
            let above = search(graph, decision, &changes[middle + 1..]);
            graph.test(Comparison::GreaterEqual, start, above, below)
        }
    }
}
