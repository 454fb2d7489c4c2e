//! Time that a measurement may take, and how it is shared among experiments.

use super::Turn;
use bench::sample::Pass;
use std::collections::BTreeSet;
use std::time::Instant;

/// Time that is shared among the blocks that are left in a sweep.
#[derive(Debug)]
pub(super) struct Budget {
    end: Instant,
    /// The present sweep and block, and when its share is over.
    block: Option<(usize, String, Instant)>,
}

impl Budget {
    pub(super) fn new(end: Instant) -> Self {
        Budget { end, block: None }
    }

    /// True if there is time for a run. Every candidate gets its warm-up and its first counted round of a block, as long as there is
    /// any time at all.
    pub(super) fn allows(&mut self, turn: &Turn, left: &[Turn], now: Instant) -> bool {
        let (sweep, block) = turn.part();
        if (self.block.as_ref())
            .is_none_or(|(in_sweep, present, _)| (*in_sweep, &**present) != (sweep, block))
        {
            let others: BTreeSet<&str> = (left.iter())
                .filter(|other| other.sweep == sweep && other.block() != block)
                .map(Turn::block)
                .collect();
            let share = self.end.saturating_duration_since(now) / (others.len() as u32 + 1);
            self.block = Some((sweep, block.to_owned(), now + share));
        }
        let is_first = sweep == 0 && (turn.pass == Pass::WarmUp || turn.place.0 == 0);
        let share_is_over = self.block.as_ref().is_some_and(|(_, _, over)| now >= *over);
        now < self.end && (is_first || !share_is_over)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arguments::parse;
    use crate::catalogue::Catalogue;
    use crate::compose::compose;
    use crate::run::tests::composed;
    use crate::run::turns;
    use std::time::Duration;

    #[test]
    fn a_budget_is_shared_and_every_candidate_gets_a_round() {
        let (_, options) = parse(["run", "--seed", "3"].map(Into::into)).unwrap();
        let ready = ["hello/slow", "hello/fast"].map(str::to_owned);
        let turns = turns(&ready, &composed(), &options);
        let now = Instant::now();
        let at = |seconds| now + Duration::from_secs(seconds);
        let other = Turn {
            cell: "later/slow".to_owned(),
            sweep: 1,
            ..turns[0].clone()
        };
        let left = [turns.clone(), vec![other]].concat();
        let mut budget = Budget::new(at(100));
        let counted = |round| {
            turns
                .iter()
                .find(|turn| turn.pass == Pass::Wall && turn.place.0 == round)
        };
        let (first, second, third) = (counted(0).unwrap(), counted(1).unwrap(), counted(2).unwrap());
        assert!(budget.allows(second, &left, now), "half of the time is its own");
        assert!(budget.allows(third, &left, at(49)));
        assert!(!budget.allows(third, &left, at(51)));
        assert!(budget.allows(first, &left, at(51)), "the first round");
        assert!(budget.allows(first, &left, at(99)), "the first round");
        assert!(!budget.allows(first, &left, at(100)));
    }

    /// Seconds of a run, with what is off the clock: of the experiments that take longest, and of all others. Each is more than the mean
    /// of a full measurement by nine candidates on two processors, 3,183 runs in 33 minutes.
    const SLOW: [(&str, f64); 14] = [
        ("concurrency", 1.0),
        ("density", 2.0),
        ("http-load", 1.1),
        ("http-throughput", 1.1),
        ("http-traffic", 1.1),
        ("load", 1.2),
        ("memory", 3.0),
        ("nginx-load", 1.0),
        ("postgres-read", 2.7),
        ("postgres-write", 2.7),
        ("pull", 1.2),
        ("redis-load", 1.2),
        ("sysbench-cpu", 2.7),
        ("tcp-throughput", 1.6),
    ];
    const USUAL: f64 = 0.5;

    /// The set that is measured on a machine that has every program that distributions have.
    #[test]
    fn a_quick_measurement_reaches_everything_and_ends_in_time() {
        let (_, options) = parse(["run", "--quick", "--seed", "3"].map(Into::into)).unwrap();
        let mut all = Catalogue::read(None).unwrap();
        for candidate in &mut all.candidates {
            candidate.needs.clear();
        }
        let rare = ["youki", "gvisor", "kata", "lxd"];
        all.candidates
            .retain(|candidate| !rare.contains(&&*candidate.name));
        all.choose(&[], &[], options.quick).unwrap();
        let composed = compose(&all, options.quick, options.time_limit_ms, "v2").unwrap();
        let ready: Vec<String> = composed.cells.iter().map(|cell| cell.name.clone()).collect();
        let mut left = turns(&ready, &composed, &options);
        left.reverse();
        let begun = Instant::now();
        let minutes = options.minutes.unwrap();
        let mut budget = Budget::new(begun + Duration::from_secs(minutes * 60));
        // Images are made and loaded first: all of them for nine candidates took a minute.
        let mut now = begun + Duration::from_secs(100);
        let mut reached = BTreeSet::new();
        while let Some(turn) = left.pop() {
            if budget.allows(&turn, &left, now) {
                let name = turn.block().split(':').next().unwrap();
                let slow = SLOW.iter().find(|(slow, _)| *slow == name);
                now += Duration::from_secs_f64(slow.map_or(USUAL, |slow| slow.1));
                if turn.pass == Pass::Wall {
                    reached.insert(turn.cell.clone());
                }
            }
        }
        let never: Vec<&String> = ready.iter().filter(|cell| !reached.contains(*cell)).collect();
        assert!(never.is_empty(), "{} of {}: {never:?}", never.len(), ready.len());
        assert!(now - begun < Duration::from_secs(15 * 60), "{:?}", now - begun);
    }
}
