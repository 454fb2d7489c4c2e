//! A file of results: a line of JSON that says what is measured, where and with what, then a line for each run, then
//! one that says how it ended.
//!
//! Lines are only added, each in one write, so a killed measurement leaves a file that can be read and continued. The
//! file explains itself: reports of old results need no catalogue.

use anyhow::{Context, Result, ensure};
use bench::leaks::Leaks;
use bench::sample::Sample;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// First line of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    /// Origin of the results: `measured`, or the name of what was imported.
    pub(crate) origin: String,
    /// Start in seconds since 1970.
    pub(crate) started: u64,
    pub(crate) seed: u64,
    pub(crate) quick: bool,
    pub(crate) warm_up: usize,
    /// True if the kernel's caches of files were dropped before each run.
    #[serde(default)]
    pub(crate) cold: bool,
    /// Rounds of each experiment, where they were chosen.
    pub(crate) runs: Option<usize>,
    /// Chosen candidates and experiments; none means all.
    pub(crate) wanted: [Vec<String>; 2],
    pub(crate) machine: serde_json::Value,
    pub(crate) tote: serde_json::Value,
    pub(crate) versions: BTreeMap<String, String>,
    pub(crate) subjects: Vec<Subject>,
    pub(crate) series: Vec<Series>,
    pub(crate) cells: Vec<Cell>,
    /// Cells that cannot be measured here, with the reason.
    pub(crate) skipped: BTreeMap<String, String>,
    /// Later measurements of the same machine, from which some experiments are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) later: Vec<Later>,
}

/// A later measurement that was laid over this one.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Later {
    pub(crate) started: u64,
    /// Revision of tote.
    pub(crate) revision: String,
    pub(crate) experiments: BTreeSet<String>,
}

/// A candidate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Subject {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) manager: String,
    pub(crate) runtime: String,
    pub(crate) driver: String,
    pub(crate) isolation: String,
    pub(crate) rootless: bool,
    /// Reason why it cannot run here.
    pub(crate) skipped: Option<String>,
}

/// An experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) about: String,
    pub(crate) unit: String,
    pub(crate) more_is_better: bool,
    #[serde(default)]
    pub(crate) quantity: Quantity,
    /// Experiment whose runs this one shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) of: Option<String>,
    /// Text before the number in the output of those runs that this one shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// Candidate that others are compared with, where it is not the report's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) baseline: Option<String>,
    /// Name of the axis of sizes.
    pub(crate) axis: String,
    pub(crate) rounds: usize,
    /// True if a failure means a lie about an exit code.
    pub(crate) honesty: bool,
}

/// Kind of the result of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Quantity {
    /// Time on the clock.
    #[default]
    Time,
    /// A number of the command's or the client's.
    Figure,
    /// Proportional share of the memory of all processes that are left.
    Memory,
    /// Memory of the control groups that were made.
    GroupMemory,
    /// Processor time of the whole machine.
    Processor,
    /// Processes and threads that were made on the whole machine.
    Forks,
    /// Containers for each second of the clock.
    Rate,
    /// Containers whose processes fit in 1 GiB.
    Density,
}

impl Quantity {
    /// Names the unit.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Quantity::Time => "ms",
            Quantity::Figure => "",
            Quantity::Memory | Quantity::GroupMemory => "MB",
            Quantity::Processor => "ms of processors",
            Quantity::Forks => "processes",
            Quantity::Rate => "containers/s",
            Quantity::Density => "containers/GiB",
        }
    }

    pub(crate) fn more_is_better(self) -> bool {
        matches!(self, Quantity::Figure | Quantity::Rate | Quantity::Density)
    }

    /// True if it is measured on what is left at rest.
    pub(crate) fn rests(self) -> bool {
        matches!(self, Quantity::Memory | Quantity::GroupMemory | Quantity::Density)
    }

    /// Returns the result of a run; `place` is the size's on its axis.
    fn of(self, sample: &Sample, place: f64) -> Option<f64> {
        const KIB: f64 = 1024.0;
        Some(match self {
            Quantity::Time => sample.wall_ns as f64 / 1e6,
            Quantity::Figure => sample.figure?,
            Quantity::Memory => sample.idle_pss_kib? * KIB / 1e6,
            Quantity::GroupMemory => sample.idle_group_kib? * KIB / 1e6,
            Quantity::Processor => sample.processor_ns? as f64 / 1e6,
            Quantity::Forks => sample.forks? as f64,
            Quantity::Rate => place.max(1.0) * 1e9 / sample.wall_ns.max(1) as f64,
            Quantity::Density => place.max(1.0) * KIB * KIB / sample.idle_pss_kib?,
        })
    }
}

/// An experiment of one size with one candidate.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Cell {
    /// Name of the candidate of the harness.
    pub(crate) name: String,
    pub(crate) candidate: String,
    pub(crate) experiment: String,
    pub(crate) size: String,
    /// Place of the size on the axis.
    pub(crate) place: f64,
    /// Phase of each step on the clock.
    pub(crate) laps: Vec<String>,
}

/// Last line of a complete file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) leaks: Leaks,
    pub(crate) load_after: [f64; 3],
}

/// A line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Line {
    Header(Box<Header>),
    End(End),
    #[serde(untagged)]
    Run(Sample),
}

/// A file that was read.
#[derive(Clone, Debug)]
pub(crate) struct Results {
    pub(crate) path: PathBuf,
    pub(crate) header: Header,
    pub(crate) samples: Vec<Sample>,
    pub(crate) end: Option<End>,
    /// Length of the part that is whole.
    length: u64,
}

impl Series {
    /// Names the experiment that has the runs.
    pub(crate) fn source(&self) -> &str {
        self.of.as_deref().unwrap_or(&self.name)
    }

    /// Returns the result of a run; `place` is the size's on its axis.
    pub(crate) fn value(&self, sample: &Sample, place: f64) -> Option<f64> {
        match &self.label {
            Some(label) => sample.further.get(label).copied(),
            None => self.quantity.of(sample, place),
        }
    }
}

impl Cell {
    pub(crate) fn name_of(experiment: &str, size: &str, candidate: &str) -> String {
        match size {
            "" => format!("{experiment}/{candidate}"),
            size => format!("{experiment}:{size}/{candidate}"),
        }
    }

    /// Names the experiment with its size.
    pub(crate) fn block(&self) -> (&str, &str) {
        (&self.experiment, &self.size)
    }
}

impl Results {
    /// Reads a file. A last line that is not whole is left out.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let whole = text.rfind('\n').map_or("", |end| text.split_at(end + 1).0);
        let (mut header, mut samples, mut end) = (None, Vec::new(), None);
        for (number, line) in whole.lines().enumerate() {
            let line: Line = serde_json::from_str(line)
                .with_context(|| format!("read {}:{}", path.display(), number + 1))?;
            match line {
                Line::Header(found) => header = Some(*found),
                Line::Run(sample) => samples.push(sample),
                Line::End(found) => end = Some(found),
            }
        }
        let header = header.with_context(|| format!("{} does not begin as results do", path.display()))?;
        Ok(Results {
            path: path.to_owned(),
            header,
            samples,
            end,
            length: whole.len() as u64,
        })
    }

    /// Makes results that have no file.
    #[cfg(test)]
    pub(crate) fn of(header: Header, samples: Vec<Sample>) -> Self {
        Results {
            path: PathBuf::new(),
            header,
            samples,
            end: None,
            length: 0,
        }
    }

    /// Opens the file for more lines, after the whole ones.
    pub(crate) fn go_on(&self) -> Result<File> {
        let failed = || format!("continue {}", self.path.display());
        let file = OpenOptions::new()
            .append(true)
            .open(&self.path)
            .with_context(failed)?;
        file.set_len(self.length).with_context(failed)?;
        Ok(file)
    }

    /// Reads the file, or the newest of a directory.
    pub(crate) fn newest(place: &Path) -> Result<Self> {
        let all = files(place)?;
        let newest = all
            .last()
            .with_context(|| format!("find results in {}", place.display()))?;
        Self::read(newest)
    }
}

/// Lists the files of results in a directory, the oldest first; a file is itself.
pub(crate) fn files(place: &Path) -> Result<Vec<PathBuf>> {
    let failed = || format!("read {}", place.display());
    if !fs::metadata(place).with_context(failed)?.is_dir() {
        return Ok(vec![place.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(place).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.extension().is_some_and(|end| end == "jsonl") {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Begins a file with its header.
pub(crate) fn begin(path: &Path, header: &Header) -> Result<File> {
    let mut file = File::create_new(path).with_context(|| format!("make {}", path.display()))?;
    write(&mut file, &Line::Header(Box::new(header.clone())))?;
    Ok(file)
}

/// Ends a file.
pub(crate) fn finish(path: &Path, end: End) -> Result<()> {
    let mut file =
        (OpenOptions::new().append(true).open(path)).with_context(|| format!("open {}", path.display()))?;
    write(&mut file, &Line::End(end))
}

/// Adds a run to a file, for those that were not measured here.
pub(crate) fn add(file: &mut File, sample: Sample) -> Result<()> {
    ensure!(!sample.candidate.is_empty(), "a run has no candidate");
    write(file, &Line::Run(sample))
}

fn write(file: &mut File, line: &Line) -> Result<()> {
    let mut text = serde_json::to_string(line).context("write results as JSON")?;
    text.push('\n');
    file.write_all(text.as_bytes()).context("write results")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn header() -> Header {
        let cell = |candidate: &str, laps: &[&str]| Cell {
            name: Cell::name_of("hello", "", candidate),
            candidate: candidate.to_owned(),
            experiment: "hello".to_owned(),
            size: String::new(),
            place: 0.0,
            laps: laps.iter().map(|lap| (*lap).to_owned()).collect(),
        };
        let subject = |name: &str, skipped: Option<&str>| Subject {
            name: name.to_owned(),
            about: "x".to_owned(),
            manager: "m".to_owned(),
            runtime: "r".to_owned(),
            driver: "d".to_owned(),
            isolation: "i".to_owned(),
            rootless: false,
            skipped: skipped.map(str::to_owned),
        };
        Header {
            origin: "measured".to_owned(),
            started: 1_700_000_000,
            seed: 1,
            quick: true,
            warm_up: 0,
            cold: false,
            runs: None,
            wanted: [Vec::new(), Vec::new()],
            machine: serde_json::json!({"cpu": "<c>"}),
            tote: serde_json::Value::Null,
            versions: BTreeMap::new(),
            subjects: vec![
                subject("slow", None),
                subject("fast", None),
                subject("absent", Some("needs x")),
            ],
            series: vec![Series {
                name: "hello".to_owned(),
                about: "A & b.".to_owned(),
                unit: "ms".to_owned(),
                more_is_better: false,
                quantity: Quantity::Time,
                of: None,
                label: None,
                baseline: None,
                axis: String::new(),
                rounds: 4,
                honesty: false,
            }],
            cells: vec![cell("slow", &["start", "exec"]), cell("fast", &["start", "exec"])],
            skipped: BTreeMap::new(),
            later: Vec::new(),
        }
    }

    pub(crate) fn sample(candidate: &str, round: usize, laps_ms: &[u64], fault: Option<&str>) -> Sample {
        let laps_ns: Vec<u64> = laps_ms.iter().map(|ms| ms * 1_000_000).collect();
        Sample {
            fault: fault.map(str::to_owned),
            ..Sample::of_laps(Cell::name_of("hello", "", candidate), round, laps_ns)
        }
    }

    #[test]
    fn a_line_that_was_cut_is_replaced_by_the_next_one() {
        let path = std::env::temp_dir().join(format!("tote-record-{}.jsonl", std::process::id()));
        let mut file = begin(&path, &header()).unwrap();
        add(&mut file, sample("slow", 0, &[1, 2], None)).unwrap();
        file.write_all(b"{\"candidate\": \"hel").unwrap();
        let cut = Results::read(&path).unwrap();
        assert_eq!((cut.samples.len(), cut.end.is_some()), (1, false));
        let mut file = cut.go_on().unwrap();
        add(&mut file, sample("fast", 0, &[1, 1], Some("x"))).unwrap();
        finish(
            &path,
            End {
                leaks: Leaks::default(),
                load_after: [0.0; 3],
            },
        )
        .unwrap();
        let whole = Results::read(&path).unwrap();
        assert_eq!(whole.samples.len(), 2);
        assert_eq!(whole.samples[1].fault.as_deref(), Some("x"));
        assert!(whole.end.is_some());
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn other_files_are_refused() {
        for text in ["", "{}\n", "x\n", "{\"header\": 1}\n"] {
            assert!(Results::parse(Path::new("f"), text).is_err(), "{text:?}");
        }
    }
}
