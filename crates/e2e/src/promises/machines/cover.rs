//! Choice of cells in which each value of each axis occurs, or each two values of two axes. The same seed gives the same cells.

use super::cell::{Cell, User};
use std::collections::BTreeSet;

/// Two values that are to occur in one cell, each with its axis, in the order of the axes; twice the same for a value alone.
type Target = [(usize, usize); 2];

/// Candidates of which the best one becomes the next cell.
const CANDIDATES: usize = 20;

/// Numbers that look random: the generator SplitMix64.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // It is less than `end`.
        usize::try_from((mixed ^ (mixed >> 31)) % end.max(1) as u64).unwrap_or_default()
    }
}

/// Chooses cells of a user in which each `strength` values of different axes occur together, for a strength of 1 or 2. The first cell has
/// the usual values only. No cell has two lacks, and only a lack's own targets count in its cell: what else would be tried there is not.
pub(super) fn cells(user: User, strength: usize, seed: u64) -> Vec<Cell> {
    let mut numbers = Numbers(seed);
    let usual = Cell {
        user,
        values: vec![0; user.axes().len()],
    };
    let mut open: BTreeSet<Target> = targets(user, strength).into_iter().collect();
    let mut chosen = Vec::new();
    let mut next = Some(usual);
    while let Some(cell) = next {
        for target in met(&cell) {
            open.remove(&target);
        }
        chosen.push(cell);
        let candidates = (0..CANDIDATES).filter_map(|_| candidate(user, &open, &mut numbers));
        let gains = candidates.map(|cell| (met(&cell).filter(|target| open.contains(target)).count(), cell));
        next = gains.max_by_key(|(gain, _)| *gain).map(|(_, cell)| cell);
    }
    chosen
}

fn is_lack(user: User, (axis, value): (usize, usize)) -> bool {
    user.axes()[axis].values[value].lack
}

/// All targets that can be met.
fn targets(user: User, strength: usize) -> Vec<Target> {
    let axes = user.axes().into_iter().enumerate();
    let values: Vec<_> = axes
        .flat_map(|(axis, found)| (0..found.values.len()).map(move |value| (axis, value)))
        .collect();
    let both = |first: (usize, usize), second: (usize, usize)| match strength {
        1 => first == second,
        _ => first.0 < second.0 && !(is_lack(user, first) && is_lack(user, second)),
    };
    let pairs = values
        .iter()
        .flat_map(|first| values.iter().map(|second| [*first, *second]));
    pairs.filter(|[first, second]| both(*first, *second)).collect()
}

/// The targets, of one value and of two, that a cell meets.
fn met(cell: &Cell) -> impl Iterator<Item = Target> {
    let values: Vec<_> = cell.values.iter().copied().enumerate().collect();
    let user = cell.user;
    let lack = values.iter().copied().find(|value| is_lack(user, *value));
    let mut pairs = Vec::new();
    for (place, first) in values.iter().enumerate() {
        pairs.extend(values[place..].iter().map(|second| [*first, *second]));
    }
    pairs
        .into_iter()
        .filter(move |target| lack.is_none_or(|lack| target.contains(&lack)))
}

/// A cell that meets some open target, each further value being the one with which the most others are met; none where no target is open.
fn candidate(user: User, open: &BTreeSet<Target>, numbers: &mut Numbers) -> Option<Cell> {
    let axes = user.axes();
    let target = open.iter().nth(numbers.below(open.len()))?;
    let mut given = target.to_vec();
    let mut order: Vec<usize> = (0..axes.len()).collect();
    for place in (1..order.len()).rev() {
        order.swap(place, numbers.below(place + 1));
    }
    for axis in order {
        if given.iter().any(|(known, _)| *known == axis) {
            continue;
        }
        // A lack is only where it is the target.
        let values = (0..axes[axis].values.len()).map(|value| (axis, value));
        let gains = values.filter(|value| !is_lack(user, *value)).map(|value| {
            let pairs = given.iter().map(|other| [value.min(*other), value.max(*other)]);
            let pairs = pairs.chain([[value, value]]);
            (
                pairs.filter(|pair| open.contains(pair)).count(),
                numbers.below(1000),
                value,
            )
        });
        given.extend(gains.max().map(|(_, _, value)| value));
    }
    given.sort_unstable();
    given.dedup();
    Some(Cell {
        user,
        values: given.into_iter().map(|(_, value)| value).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_occur_and_a_seed_is_a_choice() {
        for user in User::ALL {
            for strength in [1, 2] {
                let chosen = cells(user, strength, 7);
                for target in targets(user, strength) {
                    let meets = |cell: &Cell| met(cell).any(|other| other == target);
                    assert!(chosen.iter().any(meets), "{target:?}");
                }
                assert_eq!(cells(user, strength, 7), chosen);
                assert_ne!(cells(user, strength, 8), chosen);
            }
            assert!(cells(user, 1, 1).len() < 20, "a sample is small");
        }
    }
}
