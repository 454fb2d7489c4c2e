//! Conditions on arguments: 64-bit comparisons from 32-bit ones.

use crate::graph::{Graph, Id};
use crate::instruction::{Comparison, argument};
use tote_spec::{Arg, Operator};

/// Condition on an existing argument.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Condition {
    index: u8,
    operator: Operator,
    value: u64,
    value_two: u64,
}

impl Condition {
    /// Converts a condition; `None` if the index is not 0 to 5.
    pub(crate) fn new(arg: &Arg) -> Option<Self> {
        let index = u8::try_from(arg.index).ok().filter(|&index| index < 6)?;
        Some(Self {
            index,
            operator: arg.op,
            value: arg.value,
            value_two: arg.value_two,
        })
    }

    /// Returns the index of the argument.
    pub(crate) const fn index(&self) -> u8 {
        self.index
    }

    /// Decides between `yes` and `no`; `narrow` if only the low word exists.
    ///
    /// In that case values are cut to the low word. The value under a mask is masked. libseccomp does both.
    pub(crate) fn decide(&self, graph: &mut Graph, narrow: bool, yes: Id, no: Id) -> Id {
        let words = Words {
            low: argument(self.index),
            narrow,
            value: self.value,
        };
        match self.operator {
            Operator::Equal => words.masked(graph, u64::MAX, yes, no),
            Operator::NotEqual => words.masked(graph, u64::MAX, no, yes),
            Operator::GreaterThan => words.ordered(graph, Comparison::Greater, yes, no),
            Operator::GreaterEqual => words.ordered(graph, Comparison::GreaterEqual, yes, no),
            Operator::LessThan => words.ordered(graph, Comparison::GreaterEqual, no, yes),
            Operator::LessEqual => words.ordered(graph, Comparison::Greater, no, yes),
            Operator::MaskedEqual => Words {
                value: self.value_two,
                ..words
            }
            .masked(graph, self.value, yes, no),
        }
    }
}

/// Argument and the value that it is compared with.
#[derive(Clone, Copy)]
struct Words {
    /// Offset of the low word.
    low: u32,
    narrow: bool,
    value: u64,
}

impl Words {
    const fn high(self) -> u32 {
        self.low + 4
    }

    /// Tests `argument & mask == value & mask`. The low word comes first, since it usually differs.
    fn masked(self, graph: &mut Graph, mask: u64, yes: Id, no: Id) -> Id {
        let (low_mask, high_mask) = halves(mask);
        let (low, high) = halves(self.value);
        let equal = if self.narrow {
            yes
        } else {
            equal_word(graph, self.high(), high_mask, high, yes, no)
        };
        equal_word(graph, self.low, low_mask, low, equal, no)
    }

    /// Tests `argument > value` or `argument >= value`: the low words decide if the high ones are equal.
    fn ordered(self, graph: &mut Graph, comparison: Comparison, yes: Id, no: Id) -> Id {
        let (low, high) = halves(self.value);
        let tail = tested_word(graph, self.low, comparison, low, yes, no);
        if self.narrow {
            return tail;
        }
        let equal = tested_word(graph, self.high(), Comparison::Equal, high, tail, no);
        let otherwise = graph.past_load(equal, self.high());
        tested_word(graph, self.high(), Comparison::Greater, high, yes, otherwise)
    }
}

/// Loads a word and compares it.
fn tested_word(graph: &mut Graph, offset: u32, comparison: Comparison, k: u32, yes: Id, no: Id) -> Id {
    let (yes, no) = (graph.past_load(yes, offset), graph.past_load(no, offset));
    let test = graph.test(comparison, k, yes, no);
    graph.load(offset, test)
}

/// Loads a word and compares its masked bits, with one instruction if possible.
fn equal_word(graph: &mut Graph, offset: u32, mask: u32, value: u32, yes: Id, no: Id) -> Id {
    match (mask, value & mask) {
        (0, _) => yes,
        (u32::MAX, value) => tested_word(graph, offset, Comparison::Equal, value, yes, no),
        (mask, 0) => tested_word(graph, offset, Comparison::AnyBit, mask, no, yes),
        (mask, _) if mask.is_power_of_two() => tested_word(graph, offset, Comparison::AnyBit, mask, yes, no),
        (mask, value) => {
            let test = graph.test(Comparison::Equal, value, yes, no);
            let and = graph.and(mask, test);
            graph.load(offset, and)
        }
    }
}

/// Splits a value into the low and the high word.
#[expect(clippy::cast_possible_truncation, reason = "cutting is what is wanted")]
const fn halves(value: u64) -> (u32, u32) {
    (value as u32, (value >> 32) as u32)
}
