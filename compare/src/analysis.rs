//! From a file of results to tables: what reports, plots and histories are made of.

use crate::record::{Cell, Results, Series};
use crate::run::blocks;
use anyhow::{Result, ensure};
use bench::chance::Chance;
use bench::sample::{Pass, Sample};
use bench::stats::{Ratio, Summary, median, ratio, summarise};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Distance of the quartiles, as a part of the median, from which a row counts as noisy.
const NOISE: f64 = 0.3;

/// Results of an experiment.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Table {
    pub(crate) series: Series,
    /// Candidate that the ratios are to.
    pub(crate) baseline: String,
    pub(crate) blocks: Vec<Block>,
}

/// Results of an experiment of one size.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Block {
    pub(crate) size: String,
    pub(crate) place: f64,
    /// The best first; candidates without a sound run last.
    pub(crate) rows: Vec<Row>,
}

/// Results of a candidate in a block.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) candidate: String,
    pub(crate) summary: Option<Summary>,
    /// Median divided by that of the baseline, with the interval of rounds that both had.
    pub(crate) ratio: Option<Ratio>,
    /// Medians of the phases in milliseconds.
    pub(crate) phases: Vec<(String, f64)>,
    pub(crate) noisy: bool,
    /// Reasons for which runs did not count, with their number.
    pub(crate) faults: BTreeMap<String, usize>,
    /// Values of the sound runs, in the experiment's unit.
    #[serde(skip)]
    pub(crate) values: Vec<f64>,
}

/// Faults of candidates.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct Findings {
    /// Candidates that reported a wrong exit code.
    pub(crate) lies: BTreeSet<String>,
    /// Candidates that did not end in time, with the experiments.
    pub(crate) hangs: BTreeMap<String, BTreeSet<String>>,
    /// Candidates that left processes behind, or other objects at the end.
    pub(crate) leaks: BTreeMap<String, BTreeSet<String>>,
    /// Control groups that were there first after a run of a candidate and stayed, with their number: others may have made them.
    pub(crate) perhaps: BTreeMap<String, BTreeMap<String, usize>>,
    /// Candidates without a sound run in an experiment.
    pub(crate) failures: BTreeMap<String, BTreeSet<String>>,
}

/// Chooses the candidate that others are compared with: `wanted`, else podman, else the first that was measured.
pub(crate) fn baseline(results: &Results, wanted: Option<&str>) -> Result<String> {
    let measured: Vec<&str> = results
        .header
        .cells
        .iter()
        .map(|cell| cell.candidate.as_str())
        .collect();
    if let Some(wanted) = wanted {
        ensure!(
            measured.contains(&wanted),
            "the baseline {wanted:?} was not measured"
        );
        return Ok(wanted.to_owned());
    }
    let podman = measured.iter().find(|name| **name == "podman");
    Ok((*podman.or(measured.first()).unwrap_or(&"")).to_owned())
}

/// Makes the tables of all experiments; some experiments have a baseline of their own.
pub(crate) fn tables(results: &Results, baseline: &str) -> Vec<Table> {
    tables_by(results, |series| {
        let own = series.baseline.as_deref();
        let has = |name: &&str| {
            let mut cells = results.header.cells.iter();
            cells.any(|cell| cell.experiment == series.source() && cell.candidate == **name)
        };
        own.filter(has).unwrap_or(baseline).to_owned()
    })
}

/// Makes the tables of all experiments with the baseline that each is given.
pub(crate) fn tables_by(results: &Results, baseline_of: impl Fn(&Series) -> String) -> Vec<Table> {
    let mut chance = Chance::new(results.header.seed);
    let mut tables = Vec::new();
    for series in &results.header.series {
        let baseline = baseline_of(series);
        let sizes = blocks(&results.header.cells);
        let mut made = Vec::new();
        for (experiment, size) in sizes
            .into_iter()
            .filter(|(experiment, _)| *experiment == series.source())
        {
            let cells: Vec<&Cell> = results
                .header
                .cells
                .iter()
                .filter(|cell| cell.block() == (experiment, size))
                .collect();
            let block = block(&cells, &baseline, series, &results.samples, &mut chance);
            if block
                .rows
                .iter()
                .any(|row| row.summary.is_some() || !row.faults.is_empty())
            {
                made.push(block);
            }
        }
        made.sort_by(|a, b| a.place.total_cmp(&b.place));
        if !made.is_empty() {
            tables.push(Table {
                series: series.clone(),
                baseline,
                blocks: made,
            });
        }
    }
    tables
}

fn block(cells: &[&Cell], baseline: &str, series: &Series, samples: &[Sample], chance: &mut Chance) -> Block {
    let sound = |cell: &Cell| -> Vec<&Sample> {
        (samples.iter())
            .filter(|sample| {
                sample.candidate == cell.name && sample.pass == Pass::Wall && sample.fault.is_none()
            })
            .collect()
    };
    let base = cells
        .iter()
        .find(|cell| cell.candidate == baseline)
        .map(|cell| sound(cell))
        .unwrap_or_default();
    let mut rows = Vec::new();
    for cell in cells {
        let runs = sound(cell);
        let mut faults: BTreeMap<String, usize> = BTreeMap::new();
        for sample in samples.iter().filter(|sample| sample.candidate == cell.name) {
            if let Some(fault) = &sample.fault {
                *faults.entry(located(cell, sample, fault)).or_default() += 1;
            }
        }
        let values: Vec<f64> = runs
            .iter()
            .filter_map(|sample| series.value(sample, cell.place))
            .collect();
        let summary = summarise(&values, chance);
        let (of, to) = paired(series, cell.place, &runs, &base);
        rows.push(Row {
            candidate: cell.candidate.clone(),
            noisy: summary
                .as_ref()
                .is_some_and(|found| found.n > 2 && found.iqr > NOISE * found.median),
            // Numbers that are all 0, such as latencies in whole milliseconds, have no ratio.
            ratio: ratio(&of, &to, chance).filter(|ratio| faults.is_empty() && ratio.of_medians.is_finite()),
            phases: if series.of.is_none() {
                phases(cell, &runs)
            } else {
                Vec::new()
            },
            summary,
            faults,
            values,
        });
    }
    rows.retain(|row| row.summary.is_some() || !row.faults.is_empty());
    let key = |row: &Row| match &row.summary {
        None => f64::INFINITY,
        Some(found) if series.more_is_better => -found.median,
        Some(found) => found.median,
    };
    rows.sort_by(|a, b| key(a).total_cmp(&key(b)));
    let first = cells.first();
    Block {
        size: first.map(|cell| cell.size.clone()).unwrap_or_default(),
        place: first.map_or(0.0, |cell| cell.place),
        rows,
    }
}

/// Says in which phase a run failed.
fn located(cell: &Cell, sample: &Sample, fault: &str) -> String {
    let laps = sample.laps_ns.len();
    match laps.checked_sub(1).and_then(|last| cell.laps.get(last)) {
        Some(phase) if laps < cell.laps.len() => format!("{phase}: {fault}"),
        _ => fault.to_owned(),
    }
}

/// Returns the values of the rounds that both have.
fn paired(series: &Series, place: f64, of: &[&Sample], to: &[&Sample]) -> (Vec<f64>, Vec<f64>) {
    let pairs = of.iter().filter_map(|sample| {
        let other = to.iter().find(|other| other.round == sample.round)?;
        Some((series.value(sample, place)?, series.value(other, place)?))
    });
    pairs.unzip()
}

/// Computes the medians of phases, in order. Laps of one phase are summed up.
fn phases(cell: &Cell, runs: &[&Sample]) -> Vec<(String, f64)> {
    let mut order: Vec<&String> = Vec::new();
    for lap in &cell.laps {
        if !order.contains(&lap) {
            order.push(lap);
        }
    }
    let sum = |phase: &String, sample: &Sample| -> f64 {
        if sample.laps_ns.is_empty() {
            return sample.wall_ns as f64 / 1e6;
        }
        let laps = cell
            .laps
            .iter()
            .zip(&sample.laps_ns)
            .filter(|(name, _)| *name == phase);
        laps.map(|(_, ns)| *ns as f64 / 1e6).sum()
    };
    let found = order.into_iter().map(|phase| {
        let mut times: Vec<f64> = runs.iter().map(|sample| sum(phase, sample)).collect();
        (phase.clone(), median(&mut times))
    });
    found.filter(|(_, time)| !time.is_nan()).collect()
}

/// Collects what is wrong with candidates.
pub(crate) fn findings(results: &Results, tables: &[Table]) -> Findings {
    let mut found = Findings::default();
    // An experiment that shows the runs of another one would tell their faults again.
    for table in tables.iter().filter(|table| table.series.of.is_none()) {
        for (block, row) in table
            .blocks
            .iter()
            .flat_map(|block| block.rows.iter().map(move |row| (block, row)))
        {
            let note = |to: &mut BTreeMap<String, BTreeSet<String>>| {
                let what = match block.size.as_str() {
                    "" => table.series.name.clone(),
                    size => format!("{} {size}", table.series.name),
                };
                to.entry(row.candidate.clone()).or_default().insert(what);
            };
            if row.summary.is_none() && !row.faults.is_empty() {
                note(&mut found.failures);
            }
            for fault in row.faults.keys() {
                if fault.contains("did not end in time") || fault.contains("TimedOut") {
                    note(&mut found.hangs);
                }
                if fault.contains("left ") && fault.contains("process") {
                    note(&mut found.leaks);
                }
                if table.series.honesty && fault.starts_with("exit code") {
                    found.lies.insert(row.candidate.clone());
                }
            }
        }
    }
    note_leaks(results, &mut found);
    found
}

/// Notes what candidates left behind at the end, for certain or perhaps.
fn note_leaks(results: &Results, found: &mut Findings) {
    for leak in results.end.iter().flat_map(|end| &end.leaks.certain) {
        let leaky = results.header.subjects.iter().find(|subject| {
            let state = format!("/state/{}", subject.name);
            leak.contains(&format!("{state}/")) || is_of(leak, &subject.name)
        });
        let name = leaky.map_or("(unknown)", |subject| subject.name.as_str());
        found
            .leaks
            .entry(name.to_owned())
            .or_default()
            .insert(leak.clone());
    }
    for leak in results
        .end
        .iter()
        .flat_map(|end| end.leaks.suspected.iter().chain(&end.leaks.removed))
    {
        if let Some(subject) = results
            .header
            .subjects
            .iter()
            .find(|subject| is_of(leak, &subject.name))
        {
            let seen = found.perhaps.entry(subject.name.clone()).or_default();
            *seen.entry(group_name(leak).to_owned()).or_default() += 1;
        }
    }
}

/// Returns the name of a control group without its place in a hierarchy: v1 has it in many.
fn group_name(leak: &str) -> &str {
    let path = leak.split(", there since").next().unwrap_or_default();
    path.rsplit('/').next().unwrap_or_default()
}

/// True if the candidate of the run after which an object was there first has this name.
fn is_of(leak: &str, name: &str) -> bool {
    leak.contains(" there since a run of ") && leak.ends_with(&format!("/{name}"))
}

/// Lists what makes numbers of this file doubtful.
pub(crate) fn warnings(results: &Results, tables: &[Table]) -> Vec<String> {
    let mut found = Vec::new();
    if results.end.is_none() && results.header.origin == "measured" {
        found.push("The measurement is not complete; tote bench run --resume continues it.".to_owned());
    }
    let cores = results.header.machine["cores"].as_f64().unwrap_or(1.0);
    let load = results.header.machine["load_before"][0].as_f64().unwrap_or(0.0);
    if load > cores / 2.0 {
        found.push(format!(
            "Other programs kept the machine busy: its load was {load:.2} on {cores} processors before the first run."
        ));
    }
    let rows: Vec<&Row> = tables
        .iter()
        .flat_map(|table| &table.blocks)
        .flat_map(|block| &block.rows)
        .collect();
    let noisy = rows.iter().filter(|row| row.noisy).count();
    if noisy * 4 > rows.len() {
        found.push(format!(
            "The machine was too noisy to tell small differences: in {noisy} of {} rows the quartiles are further \
             apart than {NOISE} of the median.",
            rows.len()
        ));
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::record::tests::{header, sample};

    pub(crate) fn results() -> Results {
        let mut samples = Vec::new();
        for round in 0..4 {
            samples.push(sample("slow", round, &[30, 10 + round as u64], None));
            samples.push(sample("fast", round, &[3, 1], None));
        }
        samples.push(sample("slow", 4, &[900], Some("did not end in time")));
        Results::of(header(), samples)
    }

    #[test]
    fn failures_have_their_phase_and_no_time() {
        let tables = tables(&results(), "slow");
        let rows = &tables[0].blocks[0].rows;
        assert_eq!(rows[0].candidate, "fast");
        let slow = &rows[1];
        assert_eq!(slow.summary.as_ref().unwrap().n, 4);
        assert!(slow.summary.as_ref().unwrap().median < 50.0);
        assert_eq!(
            slow.faults,
            BTreeMap::from([("start: did not end in time".to_owned(), 1)])
        );
        assert_eq!(
            slow.phases,
            [("start".to_owned(), 30.0), ("exec".to_owned(), 11.5)]
        );
        assert!(slow.ratio.is_none(), "what failed is not compared");
        let ratio = rows[0].ratio.unwrap();
        assert!((ratio.of_medians - 4.0 / 41.5).abs() < 1e-9, "{ratio:?}");
    }

    #[test]
    fn numbers_that_are_all_zero_have_no_ratio() {
        let samples = ["slow", "fast"].map(|name| sample(name, 0, &[0, 0], None));
        let tables = tables(&Results::of(header(), samples.to_vec()), "slow");
        let rows = &tables[0].blocks[0].rows;
        assert_eq!(rows.len(), 2);
        assert!(
            rows.iter()
                .all(|row| row.summary.is_some() && row.ratio.is_none())
        );
    }

    #[test]
    fn an_experiment_may_have_a_baseline_of_its_own() {
        let mut results = results();
        results.header.series[0].baseline = Some("fast".to_owned());
        assert_eq!(tables(&results, "slow")[0].baseline, "fast");
        let asked = tables_by(&results, |_| "slow".to_owned());
        assert_eq!(asked[0].baseline, "slow");
        results.header.series[0].baseline = Some("absent".to_owned());
        assert_eq!(tables(&results, "slow")[0].baseline, "slow");
    }

    #[test]
    fn findings_name_the_candidate() {
        let mut results = results();
        results.header.series[0].honesty = true;
        results
            .samples
            .push(sample("fast", 5, &[1, 1], Some("exit code 0 instead of 7")));
        results
            .samples
            .push(sample("fast", 6, &[1, 1], Some("left 2 processes behind")));
        let found = findings(&results, &tables(&results, "slow"));
        assert!(found.lies.contains("fast") && found.lies.len() == 1);
        assert!(found.hangs.contains_key("slow") && found.leaks.contains_key("fast"));
        assert!(found.failures.is_empty());
    }

    #[test]
    fn the_baseline_must_have_been_measured() {
        assert_eq!(baseline(&results(), None).unwrap(), "slow");
        assert_eq!(baseline(&results(), Some("fast")).unwrap(), "fast");
        assert!(baseline(&results(), Some("absent")).is_err());
    }
}
