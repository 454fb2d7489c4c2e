//! A program's time by its own report, and how much of the wall time the report covers.

use crate::chance::Chance;
use crate::sample::{Pass, Sample};
use crate::stats::{Summary, median, summarise};
use crate::steps::TOTAL;
use serde::Serialize;

/// Steps of a candidate.
#[derive(Clone, Debug, Serialize)]
pub struct Breakdown {
    /// Name of the candidate.
    pub candidate: String,
    /// Median wall time, measured from outside.
    pub wall_us: f64,
    /// Median of the program's own total.
    pub total_us: f64,
    /// Steps in the program's order, the total last.
    pub steps: Vec<StepRow>,
}

/// A step over all runs.
#[derive(Clone, Debug, Serialize)]
pub struct StepRow {
    /// Name of the step.
    pub label: String,
    /// Microseconds in the runs that had the step.
    pub us: Summary,
}

/// Summarises the steps of `candidate` over the runs that count. `None` if no run reported a total.
pub fn break_down(candidate: &str, samples: &[Sample], chance: &mut Chance) -> Option<Breakdown> {
    let runs: Vec<&Sample> = samples
        .iter()
        .filter(|sample| sample.candidate == candidate && sample.pass == Pass::Wall && sample.fault.is_none())
        .filter(|sample| sample.steps.iter().any(|step| step.label == TOTAL))
        .collect();
    let mut labels: Vec<&str> = Vec::new();
    for step in runs.iter().flat_map(|run| &run.steps) {
        if !labels.contains(&step.label.as_str()) && step.label != TOTAL {
            labels.push(&step.label);
        }
    }
    labels.push(TOTAL);
    let mut steps = Vec::new();
    for label in labels {
        let told = runs
            .iter()
            .flat_map(|run| &run.steps)
            .filter(|step| step.label == label);
        let us = summarise(&told.map(|step| step.us as f64).collect::<Vec<_>>(), chance)?;
        steps.push(StepRow {
            label: label.to_owned(),
            us,
        });
    }
    let mut walls: Vec<f64> = runs.iter().map(|run| run.wall_ns as f64 / 1e3).collect();
    Some(Breakdown {
        candidate: candidate.to_owned(),
        wall_us: median(&mut walls),
        total_us: steps.last()?.us.median,
        steps,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::steps;

    fn sample(stderr: &str, wall_us: u64, pass: Pass) -> Sample {
        Sample {
            candidate: "c".into(),
            pass,
            round: 0,
            position: 0,
            wall_ns: wall_us * 1000,
            peak_rss_kib: None,
            idle_pss_kib: None,
            idle_group_kib: None,
            processor_ns: None,
            forks: None,
            stamps_ns: None,
            laps_ns: Vec::new(),
            figure: None,
            further: std::collections::BTreeMap::new(),
            steps: steps::parse(stderr),
            fault: None,
        }
    }

    #[test]
    fn medians_by_label_in_the_programs_order() {
        let told = "timings: 10 clone\ntimings: 5 exec\ntimings: 16 total\n";
        let again = "timings: 20 clone\ntimings: 1 retry\ntimings: 7 exec\ntimings: 30 total\n";
        let samples = [
            sample(told, 40, Pass::Wall),
            sample(again, 60, Pass::Wall),
            sample("timings: 999 total\n", 999, Pass::WarmUp),
            sample("", 999, Pass::Wall),
        ];
        let found = break_down("c", &samples, &mut Chance::new(1)).unwrap();
        let steps: Vec<_> = found
            .steps
            .iter()
            .map(|row| (row.label.as_str(), row.us.median, row.us.n))
            .collect();
        assert_eq!(
            steps,
            [
                ("clone", 15.0, 2),
                ("exec", 6.0, 2),
                ("retry", 1.0, 1),
                ("total", 23.0, 2)
            ]
        );
        assert_eq!((found.wall_us, found.total_us), (50.0, 23.0));
        assert!(break_down("d", &samples, &mut Chance::new(1)).is_none());
    }
}
