//! Results of the thesis's benchmark tool, as it wrote them: a JSON file for each configuration.
//!
//! A file has `measurements`, by the name of the procedure: `legend` names the phases, `data` has a list for each phase
//! with the seconds from the beginning to its end, run by run.

use crate::arguments::Options;
use crate::record::{self, Cell, Header, Series, Subject};
use anyhow::{Context, Result, ensure};
use bench::sample::Sample;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of sizes, with their places for files and for databases.
const SIZES: [(&str, f64, f64); 5] = [
    ("xs", 10.0, 151_552.0),
    ("sm", 100.0, 536_576.0),
    ("md", 1000.0, 2_646_016.0),
    ("lg", 10_000.0, 11_931_648.0),
    ("xl", 100_000.0, 111_558_656.0),
];

/// A file.
#[derive(Debug, Deserialize)]
struct File {
    #[serde(default)]
    name: String,
    measurements: BTreeMap<String, Measurement>,
}

#[derive(Debug, Deserialize)]
struct Measurement {
    legend: Vec<String>,
    data: Vec<Vec<f64>>,
}

/// Makes a file of results from the given files; returns its path.
pub(crate) fn import(options: &Options) -> Result<PathBuf> {
    ensure!(!options.files.is_empty(), "no files are given");
    let mut header = Header {
        origin: "the thesis's benchmark tool, other hardware".to_owned(),
        started: 0,
        seed: options.seed,
        quick: false,
        warm_up: 0,
        cold: false,
        runs: None,
        wanted: [Vec::new(), Vec::new()],
        machine: serde_json::Value::Null,
        tote: serde_json::Value::Null,
        versions: BTreeMap::new(),
        subjects: Vec::new(),
        series: Vec::new(),
        cells: Vec::new(),
        skipped: BTreeMap::new(),
        later: Vec::new(),
    };
    let mut samples = Vec::new();
    for path in &options.files {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        let file: File =
            serde_json::from_str(&text).with_context(|| format!("understand {}", path.display()))?;
        add(&mut header, &mut samples, path, &file)
            .with_context(|| format!("understand {}", path.display()))?;
    }
    fs::create_dir_all(&options.out).with_context(|| format!("make {}", options.out.display()))?;
    let path = options
        .out
        .join(format!("imported-{:08x}.jsonl", options.seed & 0xFFFF_FFFF));
    let mut file = record::begin(&path, &header)?;
    for sample in samples {
        record::add(&mut file, sample)?;
    }
    Ok(path)
}

fn add(header: &mut Header, samples: &mut Vec<Sample>, path: &Path, file: &File) -> Result<()> {
    let candidate = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    header.subjects.push(Subject {
        name: candidate.clone(),
        about: file.name.replace('\n', ", "),
        manager: candidate.split('-').next().unwrap_or_default().to_owned(),
        runtime: String::new(),
        driver: candidate.rsplit('-').next().unwrap_or_default().to_owned(),
        isolation: String::new(),
        rootless: candidate.contains("rootless"),
        skipped: None,
    });
    for (name, measurement) in &file.measurements {
        let (experiment, size, place) = named(name);
        if header.series.iter().all(|series| series.name != experiment) {
            header.series.push(Series {
                name: experiment.clone(),
                about: "Imported; on other hardware than what was measured here.".to_owned(),
                unit: "ms".to_owned(),
                more_is_better: false,
                quantity: record::Quantity::Time,
                of: None,
                label: None,
                baseline: None,
                axis: "size".to_owned(),
                rounds: 20,
                honesty: false,
            });
        }
        let cell = Cell {
            name: Cell::name_of(&experiment, &size, &candidate),
            candidate: candidate.clone(),
            experiment,
            size,
            place,
            laps: measurement
                .legend
                .iter()
                .map(|phase| phase.to_lowercase())
                .collect(),
        };
        ensure!(
            measurement.data.len() == cell.laps.len(),
            "{name}: phases and their names differ in number"
        );
        let runs = measurement.data.iter().map(Vec::len).min().unwrap_or(0);
        for round in 0..runs {
            samples.push(sample(&cell, measurement, round).with_context(|| format!("{name}, run {round}"))?);
        }
        header.cells.push(cell);
    }
    Ok(())
}

/// Splits the name of a procedure: `IO read xl` is the experiment `io-read` of the size `xl`.
fn named(name: &str) -> (String, String, f64) {
    let lower = name.to_lowercase();
    let lower = lower.replace("database", "db");
    let words: Vec<&str> = lower.split_whitespace().collect();
    let split = words.split_last().and_then(|(last, first)| {
        let size = SIZES.iter().find(|size| size.0 == *last)?;
        Some((first, size))
    });
    if let Some((first, (size, files, bytes))) = split {
        let place = if first.first() == Some(&"db") {
            *bytes
        } else {
            *files
        };
        return (first.join("-"), (*size).to_owned(), place);
    }
    (words.join("-"), String::new(), 0.0)
}

fn sample(cell: &Cell, measurement: &Measurement, round: usize) -> Result<Sample> {
    let mut before = 0.0;
    let mut laps_ns = Vec::new();
    for phase in &measurement.data {
        let seconds = phase[round];
        ensure!(
            seconds.is_finite() && seconds >= before && seconds < 1e6,
            "times do not ascend"
        );
        laps_ns.push(((seconds - before) * 1e9).round() as u64);
        before = seconds;
    }
    Ok(Sample::of_laps(cell.name.clone(), round, laps_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tables;
    use crate::arguments::parse;
    use crate::record::Results;

    #[test]
    fn phases_are_the_differences_of_what_is_cumulative() {
        let place = std::env::temp_dir().join(format!("tote-import-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        let given = place.join("docker-alpine-runc-overlay.json");
        let text = r#"{"name": "Docker\nrunc", "measurements": {
            "IO read xl": {"name": "x", "legend": ["Create", "Exec"], "data": [[0.1, 0.2], [0.3, 0.6]]},
            "Hello World": {"legend": ["Create"], "data": [[1.5]]}}}"#;
        fs::write(&given, text).unwrap();
        let words = [
            "import",
            "--out",
            place.to_str().unwrap(),
            given.to_str().unwrap(),
        ];
        let (_, options) = parse(words.map(Into::into)).unwrap();
        let results = Results::read(&import(&options).unwrap()).unwrap();
        fs::write(&given, text.replace("0.3, 0.6", "0.05, 0.6")).unwrap();
        assert!(import(&options).is_err(), "a time before the one before");
        fs::remove_dir_all(&place).unwrap();
        let tables = tables(&results, "docker-alpine-runc-overlay");
        let read = tables
            .iter()
            .find(|table| table.series.name == "io-read")
            .unwrap();
        let row = &read.blocks[0].rows[0];
        assert_eq!(
            (read.blocks[0].size.as_str(), read.blocks[0].place),
            ("xl", 100_000.0)
        );
        let rounded: Vec<i64> = row.phases.iter().map(|phase| phase.1.round() as i64).collect();
        assert_eq!(rounded, [150, 300]);
    }

    #[test]
    fn names_of_procedures() {
        assert_eq!(
            named("Database write md"),
            ("db-write".to_owned(), "md".to_owned(), 2_646_016.0)
        );
        assert_eq!(
            named("Hello World"),
            ("hello-world".to_owned(), String::new(), 0.0)
        );
    }
}
