//! The results, as one JSON document; `markdown` prints them for people.

use crate::chance::Chance;
use crate::leaks::Leaks;
use crate::machine::{Machine, Subject};
use crate::sample::{Pass, Sample};
use crate::scenario::{AsUser, Comparison, Measure, Scenario};
use crate::stats::{Interval, Summary, ratio, summarise};
use serde::Serialize;
use std::collections::BTreeMap;

/// A whole report.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Name of the scenario.
    pub scenario: String,
    /// The scenario's question.
    pub about: String,
    /// Start of the measurement in seconds since 1970.
    pub started: u64,
    /// How it was measured.
    pub conditions: Conditions,
    /// Where it was measured.
    pub machine: Machine,
    /// The program under test; `None` if only peers were measured.
    pub tote: Option<Subject>,
    /// First line of each peer's version.
    pub versions: BTreeMap<String, String>,
    /// Results of the candidates.
    pub candidates: Vec<Row>,
    /// Results of the comparisons.
    pub comparisons: Vec<Compared>,
    /// Objects that were left behind.
    pub leaks: Leaks,
}

/// How the samples were taken.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Conditions {
    /// Seed of order and intervals.
    pub seed: u64,
    /// Rounds that count.
    pub rounds: usize,
    /// Rounds that do not count.
    pub warm_up_rounds: usize,
    /// Rounds that measure memory.
    pub memory_rounds: usize,
    /// Pause after each run in milliseconds.
    pub settle_ms: u64,
}

/// Results of a candidate.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name.
    pub name: String,
    /// Command as in the scenario, with its places.
    pub command: String,
    /// User that ran it.
    #[serde(rename = "as")]
    pub as_user: AsUser,
    /// Reason why the candidate was not run.
    pub skipped: Option<String>,
    /// Wall time.
    pub wall_ms: Option<Summary>,
    /// Peak memory.
    pub peak_rss_mib: Option<Summary>,
    /// Reasons for which runs did not count, with the number of runs.
    pub faults: BTreeMap<String, usize>,
}

/// Result of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// Candidate that is compared.
    pub of: String,
    /// Candidate that it is compared with.
    pub to: Option<String>,
    /// Compared quantity.
    pub measure: Measure,
    /// Beginnings of the labels of steps that are summed up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// The target.
    pub at_most: Option<f64>,
    /// Ratio that others have published for the same comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// Ratio of medians, or a median if there is nothing to compare it to.
    pub found: Option<f64>,
    /// Interval of `found`.
    pub interval: Option<Interval>,
    /// Judgement.
    pub verdict: Verdict,
}

/// Result of checking a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval is within the target.
    Met,
    /// The whole interval is beyond the target.
    Missed,
    /// The target lies within the interval: more rounds, or a quieter machine, would decide.
    Undecided,
    /// The comparison has no target.
    NoTarget,
    /// A candidate has no samples, or faulty ones.
    NotMeasured(String),
}

impl Report {
    /// True if every run gave the expected result and nothing was left behind. Targets do not matter here.
    pub fn is_sound(&self) -> bool {
        self.leaks.certain.is_empty() && self.candidates.iter().all(|row| row.faults.is_empty())
    }
}

/// Builds a row for each candidate of `scenario`.
pub fn rows(
    scenario: &Scenario,
    samples: &[Sample],
    skipped: &BTreeMap<String, String>,
    chance: &mut Chance,
) -> Vec<Row> {
    let mut rows = Vec::new();
    for candidate in &scenario.candidates {
        let mut faults = BTreeMap::new();
        for sample in samples.iter().filter(|sample| sample.candidate == candidate.name) {
            if let Some(fault) = &sample.fault {
                *faults.entry(fault.clone()).or_insert(0) += 1;
            }
        }
        let mut summary = |measure| summarise(&counted(samples, &candidate.name, measure, &[]), chance);
        rows.push(Row {
            name: candidate.name.clone(),
            command: candidate.told(),
            as_user: candidate.as_user,
            skipped: skipped.get(&candidate.name).cloned(),
            wall_ms: summary(Measure::Wall),
            peak_rss_mib: summary(Measure::PeakRss),
            faults,
        });
    }
    rows
}

/// Computes the result of a comparison from the samples.
pub fn compare(comparison: &Comparison, rows: &[Row], samples: &[Sample], chance: &mut Chance) -> Compared {
    let names = [Some(&comparison.of), comparison.to.as_ref()];
    let hole = names
        .into_iter()
        .flatten()
        .find_map(|name| hole(name, rows, comparison.measure));
    let of = counted(samples, &comparison.of, comparison.measure, &comparison.steps);
    let found = match (&hole, &comparison.to) {
        (Some(_), _) => None,
        (None, None) => summarise(&of, chance).map(|summary| (summary.median, summary.median_interval)),
        (None, Some(to)) => ratio(
            &of,
            &counted(samples, to, comparison.measure, &comparison.steps),
            chance,
        )
        .map(|ratio| (ratio.of_medians, ratio.interval)),
    };
    let verdict = match (found, comparison.at_most) {
        (None, _) => Verdict::NotMeasured(hole.unwrap_or_else(|| "rounds are missing".to_owned())),
        (Some(_), None) => Verdict::NoTarget,
        (Some((_, interval)), Some(limit)) => judge(interval, limit),
    };
    Compared {
        of: comparison.of.clone(),
        to: comparison.to.clone(),
        measure: comparison.measure,
        steps: comparison.steps.clone(),
        at_most: comparison.at_most,
        published: comparison.published,
        found: found.map(|(value, _)| value),
        interval: found.map(|(_, interval)| interval),
        verdict,
    }
}

fn judge(interval: Interval, limit: f64) -> Verdict {
    if interval.high <= limit {
        Verdict::Met
    } else if interval.low > limit {
        Verdict::Missed
    } else {
        Verdict::Undecided
    }
}

/// Returns the reason why `name` cannot be compared.
fn hole(name: &str, rows: &[Row], measure: Measure) -> Option<String> {
    let row = rows.iter().find(|row| row.name == name)?;
    let measured = match measure {
        Measure::Wall | Measure::Steps | Measure::IdlePss | Measure::Stamps => row.wall_ms.is_some(),
        Measure::PeakRss => row.peak_rss_mib.is_some(),
    };
    match (&row.skipped, row.faults.is_empty(), measured) {
        (Some(reason), ..) => Some(format!("{name} {reason}")),
        (None, false, _) => Some(format!("{name} had faulty runs")),
        (None, true, false) => Some(format!("{name} has no samples")),
        (None, true, true) => None,
    }
}

/// Returns the samples of `candidate` that count for `measure`, in the order of rounds and in the measure's unit.
fn counted(samples: &[Sample], candidate: &str, measure: Measure, steps: &[String]) -> Vec<f64> {
    let sound = samples
        .iter()
        .filter(|sample| sample.candidate == candidate && sample.fault.is_none());
    match measure {
        Measure::Wall => sound
            .filter(|sample| sample.pass == Pass::Wall)
            .map(|sample| sample.wall_ns as f64 / 1e6)
            .collect(),
        Measure::Steps => sound
            .filter(|sample| sample.pass == Pass::Wall)
            .filter_map(|sample| sample.sum_of(steps))
            .map(|us| us as f64 / 1e3)
            .collect(),
        Measure::IdlePss => sound
            .filter(|sample| sample.pass == Pass::Wall)
            .filter_map(|sample| Some(sample.idle_pss_kib? * 1024.0 / 1e6))
            .collect(),
        Measure::Stamps => sound
            .filter(|sample| sample.pass == Pass::Wall)
            .filter_map(|sample| Some(sample.stamps_ns? as f64 / 1e6))
            .collect(),
        Measure::PeakRss => sound
            .filter_map(|sample| Some(sample.peak_rss_kib? as f64 / 1024.0))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCENARIO: &str = r#"{"name": "n", "about": "", "candidates": [
        {"name": "fast", "argv": ["x"]}, {"name": "slow", "argv": ["x"]},
        {"name": "broken", "argv": ["x"]}, {"name": "absent", "argv": ["x"]}]}"#;

    fn sample(candidate: &str, pass: Pass, wall_ms: u64, fault: Option<&str>) -> Sample {
        Sample {
            candidate: candidate.to_owned(),
            pass,
            round: 0,
            position: 0,
            wall_ns: wall_ms * 1_000_000,
            peak_rss_kib: (pass == Pass::PeakRss).then_some(2048),
            idle_pss_kib: None,
            idle_group_kib: None,
            processor_ns: None,
            forks: None,
            stamps_ns: None,
            laps_ns: Vec::new(),
            figure: None,
            further: BTreeMap::new(),
            steps: Vec::new(),
            fault: fault.map(str::to_owned),
        }
    }

    fn compared(of: &str, to: Option<&str>, measure: Measure, at_most: Option<f64>) -> Compared {
        let mut samples = vec![
            sample("fast", Pass::WarmUp, 900, None),
            sample("fast", Pass::PeakRss, 900, None),
        ];
        for _ in 0..5 {
            samples.push(sample("fast", Pass::Wall, 2, None));
            samples.push(sample("slow", Pass::Wall, 4, None));
            samples.push(sample("broken", Pass::Wall, 1, Some("exit code 1")));
        }
        samples.push(sample("broken", Pass::Wall, 1, None));
        let scenario = Scenario::parse(SCENARIO).unwrap();
        let skipped = BTreeMap::from([("absent".to_owned(), "needs x".to_owned())]);
        let mut chance = Chance::new(1);
        let rows = rows(&scenario, &samples, &skipped, &mut chance);
        assert_eq!(rows[2].faults, BTreeMap::from([("exit code 1".to_owned(), 5)]));
        let comparison = Comparison {
            of: of.to_owned(),
            to: to.map(str::to_owned),
            measure,
            steps: Vec::new(),
            at_most,
            published: None,
        };
        compare(&comparison, &rows, &samples, &mut chance)
    }

    #[test]
    fn ratios_and_absolute_targets() {
        let wall = Measure::Wall;
        let cases = [
            (
                compared("fast", Some("slow"), wall, Some(0.5)),
                Some(0.5),
                Verdict::Met,
            ),
            (
                compared("fast", Some("slow"), wall, Some(0.49)),
                Some(0.5),
                Verdict::Missed,
            ),
            (
                compared("slow", Some("fast"), wall, None),
                Some(2.0),
                Verdict::NoTarget,
            ),
            (compared("fast", None, wall, Some(2.0)), Some(2.0), Verdict::Met),
            (
                compared("fast", None, Measure::PeakRss, Some(1.0)),
                Some(2.0),
                Verdict::Missed,
            ),
        ];
        for (compared, found, verdict) in cases {
            assert_eq!(
                (compared.found, &compared.verdict),
                (found, &verdict),
                "{compared:?}"
            );
        }
    }

    #[test]
    fn what_was_not_measured_meets_no_target() {
        let cases = [
            (
                compared("broken", Some("slow"), Measure::Wall, Some(9.0)),
                "broken had faulty runs",
            ),
            (
                compared("slow", Some("absent"), Measure::Wall, Some(9.0)),
                "absent needs x",
            ),
            (
                compared("slow", None, Measure::PeakRss, Some(9.0)),
                "slow has no samples",
            ),
        ];
        for (compared, reason) in cases {
            assert_eq!(compared.verdict, Verdict::NotMeasured(reason.to_owned()));
            assert_eq!(compared.found, None);
        }
    }

    #[test]
    fn a_target_within_the_interval_decides_nothing() {
        let interval = Interval { low: 0.9, high: 1.1 };
        assert_eq!(judge(interval, 1.0), Verdict::Undecided);
        assert_eq!(judge(interval, 1.1), Verdict::Met);
        assert_eq!(judge(interval, 0.9), Verdict::Undecided);
        assert_eq!(judge(interval, 0.8), Verdict::Missed);
    }
}
