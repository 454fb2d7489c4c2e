//! Reports of a file of results: Markdown, HTML, JSON and CSV.

mod figures;
mod html;
mod markdown;
pub(crate) mod plots;

use crate::analysis::{self, Findings, Table};
use crate::arguments::Options;
use crate::joined;
use crate::published::Published;
use crate::record::{Header, Results};
use anyhow::{Context, Result};
use bench::clock;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Everything that a report says.
#[derive(Debug, Serialize)]
pub(crate) struct Report<'a> {
    pub(crate) header: &'a Header,
    pub(crate) baseline: String,
    pub(crate) tables: Vec<Table>,
    pub(crate) findings: Findings,
    pub(crate) warnings: Vec<String>,
    /// New objects of the machine that may belong to others.
    pub(crate) suspected: Vec<String>,
    #[serde(skip)]
    pub(crate) published: Published,
}

/// Writes all reports beside the results; returns their paths.
pub(crate) fn write(options: &Options) -> Result<Vec<PathBuf>> {
    let places = match options.files.as_slice() {
        [] => std::slice::from_ref(&options.out),
        given => given,
    };
    let results = joined::read(places)?;
    let report = Report::of(&results, options.baseline.as_deref())?;
    let json = serde_json::to_string(&report).context("write the report as JSON")?;
    let directory = results.path.parent().unwrap_or(Path::new("."));
    let mut written = Vec::new();
    for (name, text) in [
        ("report.md", markdown::text(&report)),
        ("report.html", html::page(&report)?),
        ("report.json", json + "\n"),
        ("report.csv", csv(&results)),
    ] {
        let path = directory.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        written.push(path);
    }
    written.extend(figures::write(&report, &options.plots, directory)?);
    Ok(written)
}

impl<'a> Report<'a> {
    fn of(results: &'a Results, baseline: Option<&str>) -> Result<Self> {
        let is_asked = baseline.is_some();
        let baseline = analysis::baseline(results, baseline)?;
        let tables = if is_asked {
            analysis::tables_by(results, |_| baseline.clone())
        } else {
            analysis::tables(results, &baseline)
        };
        Ok(Report {
            header: &results.header,
            findings: analysis::findings(results, &tables),
            warnings: analysis::warnings(results, &tables),
            suspected: results
                .end
                .iter()
                .flat_map(|end| end.leaks.suspected.clone())
                .collect(),
            baseline,
            tables,
            published: Published::read()?,
        })
    }

    /// Describes the machine and the programs: name and value.
    fn surroundings(&self) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let machine = &self.header.machine;
        for (name, key) in [
            ("kernel", "kernel"),
            ("processor", "cpu"),
            ("processors", "cores"),
            ("memory (MiB)", "memory_mib"),
            ("control groups", "cgroups"),
        ] {
            match &machine[key] {
                serde_json::Value::Null => {}
                serde_json::Value::String(text) => found.push((name.to_owned(), text.clone())),
                other => found.push((name.to_owned(), other.to_string())),
            }
        }
        if let Some(load) = machine["load_before"].as_array() {
            let load: Vec<String> = load.iter().map(ToString::to_string).collect();
            found.push(("load before".to_owned(), load.join(" ")));
        }
        for (name, key) in [("tote", "version"), ("tote's revision", "revision")] {
            if let Some(text) = self.header.tote[key].as_str() {
                found.push((name.to_owned(), text.to_owned()));
            }
        }
        let versions = self.header.versions.iter();
        found.extend(versions.map(|(name, version)| (name.clone(), version.clone())));
        for later in &self.header.later {
            let experiments: Vec<&str> = later.experiments.iter().map(String::as_str).collect();
            found.push((
                format!("measured later, {}", clock::utc(later.started)),
                format!("{}, tote's revision {}", experiments.join(", "), later.revision),
            ));
        }
        found.push(("seed".to_owned(), self.header.seed.to_string()));
        let caches = if self.header.cold {
            "cold: those of files were dropped before each run".to_owned()
        } else {
            format!(
                "warm: {} rounds before the first that counts",
                self.header.warm_up
            )
        };
        found.push(("caches".to_owned(), caches));
        found
    }

    /// Lists sentences about what is wrong with candidates.
    fn accusations(&self) -> Vec<String> {
        let Findings {
            lies,
            hangs,
            leaks,
            perhaps,
            failures,
        } = &self.findings;
        let join =
            |words: &std::collections::BTreeSet<String>| words.iter().cloned().collect::<Vec<_>>().join(", ");
        let mut found = Vec::new();
        found.extend(lies.iter().map(|name| format!("{name} lies about exit codes.")));
        found.extend(
            hangs
                .iter()
                .map(|(name, where_)| format!("{name} did not end in time: {}.", join(where_))),
        );
        found.extend(
            leaks
                .iter()
                .map(|(name, what)| format!("{name} left something behind: {}.", join(what))),
        );
        found.extend(perhaps.iter().map(|(name, groups)| {
            let groups: Vec<String> = groups.iter().map(|(group, number)| format!("{group} ({number})")).collect();
            format!(
                "Control groups were there first after a run of {name}, and stayed until the end: {}. Others may have made them.",
                groups.join(", ")
            )
        }));
        found.extend(
            failures
                .iter()
                .map(|(name, where_)| format!("{name} has no sound run: {}.", join(where_))),
        );
        found
    }
}

/// Formats every run as a row.
fn csv(results: &Results) -> String {
    let quote = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
    let mut out = "experiment,size,candidate,pass,round,wall_ms,phases_ms,figure,pss_mb,groups_mb,processor_ms,forks,fault\n".to_owned();
    let megabytes = |kib: Option<f64>| {
        kib.map(|kib| format!("{:.3}", kib * 1024.0 / 1e6))
            .unwrap_or_default()
    };
    for sample in &results.samples {
        let Some(cell) = results
            .header
            .cells
            .iter()
            .find(|cell| cell.name == sample.candidate)
        else {
            continue;
        };
        let pass = serde_json::to_value(sample.pass).ok();
        let phases: Vec<String> = (cell.laps.iter().zip(&sample.laps_ns))
            .map(|(phase, ns)| format!("{phase}={:.3}", *ns as f64 / 1e6))
            .collect();
        let fields = [
            cell.experiment.clone(),
            cell.size.clone(),
            cell.candidate.clone(),
            pass.as_ref()
                .and_then(|pass| pass.as_str())
                .unwrap_or_default()
                .to_owned(),
            sample.round.to_string(),
            format!("{:.3}", sample.wall_ns as f64 / 1e6),
            phases.join(" "),
            sample.figure.map(|figure| figure.to_string()).unwrap_or_default(),
            megabytes(sample.idle_pss_kib),
            megabytes(sample.idle_group_kib),
            (sample.processor_ns)
                .map(|ns| format!("{:.3}", ns as f64 / 1e6))
                .unwrap_or_default(),
            sample.forks.map(|forks| forks.to_string()).unwrap_or_default(),
            quote(sample.fault.as_deref().unwrap_or_default()),
        ];
        out += &fields.join(",");
        out.push('\n');
    }
    out
}

/// Formats a number with three digits that count, or all before the point.
pub(crate) fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 || size == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::results;

    #[test]
    fn every_run_is_a_row() {
        let text = csv(&results());
        assert_eq!(text.lines().count(), 10);
        assert!(
            text.contains("hello,,slow,wall,0,40.000,start=30.000 exec=10.000,,,,,,\"\""),
            "{text}"
        );
        assert!(text.ends_with("\"did not end in time\"\n"), "{text}");
    }

    #[test]
    fn plots_are_files_by_their_names() {
        let results = results();
        let report = Report::of(&results, None).unwrap();
        let place = std::env::temp_dir().join(format!("tote-figures-{}", std::process::id()));
        fs::create_dir(&place).unwrap();
        let some = figures::write(&report, &["hello-phases".to_owned()], &place).unwrap();
        assert_eq!(some, [place.join("hello-phases.svg")]);
        let text = fs::read_to_string(&some[0]).unwrap();
        assert!(
            text.starts_with("<svg ") && text.contains("<rect") && !text.contains("currentColor"),
            "{text}"
        );
        assert_eq!(
            figures::write(&report, &["all".to_owned()], &place)
                .unwrap()
                .len(),
            3
        );
        assert!(figures::write(&report, &["hello-fazes".to_owned()], &place).is_err());
        fs::remove_dir_all(&place).unwrap();
    }

    #[test]
    fn strangers_words_are_no_markup() {
        let results = results();
        let report = Report::of(&results, None).unwrap();
        let page = html::page(&report).unwrap();
        assert!(
            page.contains("&lt;c&gt;") && !page.contains("<c>"),
            "the processor's name"
        );
        assert!(page.contains("A &amp; b."));
        let text = markdown::text(&report);
        assert!(text.contains("slow did not end in time: hello."), "{text}");
        assert!(text.contains("| fast |"), "{text}");
        assert!(text.contains("absent: needs x"), "{text}");
        for rest in ["http://", "https://"] {
            assert!(
                !page.replace("http://www.w3.org/2000/svg", "").contains(rest),
                "the page loads something"
            );
        }
    }

    #[test]
    fn the_state_of_caches_is_told() {
        let mut results = results();
        for (cold, told) in [(false, "warm: 0 rounds"), (true, "cold: those of files")] {
            results.header.cold = cold;
            let surroundings = Report::of(&results, None).unwrap().surroundings();
            let caches = surroundings.iter().find(|(name, _)| name == "caches").unwrap();
            assert!(caches.1.starts_with(told), "{caches:?}");
        }
    }

    #[test]
    fn digits() {
        assert_eq!(
            [0.01234, 1.5, 22.22, 1234.5].map(figure),
            ["0.012", "1.50", "22.2", "1234"]
        );
    }
}
