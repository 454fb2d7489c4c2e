//! The report of the set for people.

use super::{Report, Row};
use bench::clock;

/// The mean reduction that is to be reached, in percent.
const TARGET: f64 = 80.0;
/// Time that slimming may take beyond the runs, in seconds for an image of [`LARGE`] bytes.
const SECONDS: f64 = 5.0;
const LARGE: u64 = 300_000_000;
/// The ratio by which tracing may lengthen work.
const TRACED: f64 = 1.1;

/// Writes the table, the histogram and the verdicts.
pub(super) fn markdown(report: &Report) -> String {
    let mut out = format!(
        "# Benchmark: smaller images\n\nImages of Debian, built from the Dockerfiles in `bench/slim` on one base, each made smaller with the \
         probes that stand there; a smaller image passed all of them. The runs are those of both images; what the command took beyond them \
         is its own. Published figures are those of slimtoolkit's README for other images of the kind: they stand beside these, and neither says \
         anything about the other.\n\nMade by `bench slim` on {}; how it measures: [benchmarks](../benchmarks.md).\n\n",
        clock::utc(report.started)
    );
    out += "| image | probes | before, MB | after, MB | less | files before | after | runs, s | own, s | published by others |\n\
            |---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n";
    for row in &report.rows {
        out += &line(row);
    }
    let (mean, slowest) = (mean(&report.rows), slowest(&report.rows));
    let verdict = |is_met: bool| if is_met { "met" } else { "**missed**" };
    out += &format!(
        "\n| what | found | target | verdict |\n|---|--:|--:|---|\n| mean of {} images, % less | {mean:.1} | ≥ {TARGET} | {} |\n\
         | images that failed | {} | 0 | {} |\n",
        report.rows.len(),
        verdict(mean >= TARGET),
        report.failed.len(),
        verdict(report.failed.is_empty()),
    );
    if let Some(slowest) = slowest {
        out += &format!(
            "| seconds beyond the runs, for 300 MB, at most | {slowest:.1} | ≤ {SECONDS} | {} |\n",
            verdict(slowest <= SECONDS)
        );
    }
    if let Some(traced) = report.traced {
        out += &format!(
            "| work, traced / not traced | {traced:.2} | ≤ {TRACED} | {} |\n",
            verdict(traced <= TRACED)
        );
    }
    out += &histogram(&report.rows);
    if !report.failed.is_empty() {
        out += "\n## Failed\n\n";
        for (name, why) in &report.failed {
            out += &format!("* {name}: {why}\n");
        }
    }
    out
}

fn line(row: &Row) -> String {
    let published = match &row.published {
        Some((what, percent)) => format!("{percent} % ({what})"),
        None => String::new(),
    };
    let own = row.own_seconds();
    format!(
        "| {} | {} | {} | {} | {:.1} % | {} | {} | {:.1} | {own:.1} | {published} |\n",
        row.name,
        row.probes.len(),
        megabytes(row.told.size_before),
        megabytes(row.told.size_after),
        row.told.reduction,
        row.told.files_before,
        row.told.files_after,
        row.seconds - own,
    )
}

fn megabytes(bytes: u64) -> String {
    let tenths = (bytes + 50_000) / 100_000;
    format!("{}.{}", tenths / 10, tenths % 10)
}

fn mean(rows: &[Row]) -> f64 {
    let all = rows
        .iter()
        .map(|row| row.told.reduction)
        .fold(0.0, |sum, one| sum + one);
    #[expect(clippy::cast_precision_loss, reason = "a few dozen images")]
    let count = rows.len().max(1) as f64;
    all / count
}

/// The longest time beyond the runs; that of an image of more than [`LARGE`] bytes counts in proportion.
fn slowest(rows: &[Row]) -> Option<f64> {
    #[expect(clippy::cast_precision_loss, reason = "one digit is shown")]
    let part = |row: &Row| LARGE as f64 / row.told.size_before.max(LARGE) as f64;
    let times = rows.iter().map(|row| row.own_seconds() * part(row));
    times.reduce(f64::max)
}

/// Numbers of images by their reduction in steps of ten percent, as figure 5 of the paper has them.
fn histogram(rows: &[Row]) -> String {
    let mut out = "\n| less | images |\n|---|---|\n".to_owned();
    for from in (0..100).step_by(10) {
        let is_in = |row: &&Row| {
            let (least, end) = (f64::from(from), f64::from(from + 10));
            row.told.reduction >= least && (row.told.reduction < end || from == 90)
        };
        let count = rows.iter().filter(is_in).count();
        out += &format!("| {from} to {} % | {} {count} |\n", from + 10, "█".repeat(count));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::{Run, Told};
    use super::*;

    fn row(reduction: f64, seconds: f64, size: u64) -> Row {
        Row {
            name: "x".to_owned(),
            probes: vec!["--exec true".to_owned()],
            told: Told {
                size_before: size,
                size_after: 0,
                reduction,
                files_before: 2,
                files_after: 1,
                bytes_written: 0,
                runs: [(false, 1.0), (true, 2.0)]
                    .map(|(of_slim, seconds)| Run { of_slim, seconds })
                    .to_vec(),
            },
            seconds,
            published: None,
        }
    }

    #[test]
    fn a_report_has_mean_bins_and_time() {
        let report = Report {
            started: 0,
            rows: vec![
                row(0.0, 4.0, 1000),
                row(85.0, 13.0, 600_000_000),
                row(100.0, 3.5, 100),
            ],
            traced: Some(1.2),
            failed: vec![("y".to_owned(), "why".to_owned())],
        };
        let text = markdown(&report);
        for part in [
            "| mean of 3 images, % less | 61.7 | ≥ 80 | **missed** |",
            "| images that failed | 1 | 0 | **missed** |",
            "| seconds beyond the runs, for 300 MB, at most | 5.0 | ≤ 5 | met |",
            "| work, traced / not traced | 1.20 | ≤ 1.1 | **missed** |",
            "| 0 to 10 % | █ 1 |",
            "| 80 to 90 % | █ 1 |",
            "| 90 to 100 % | █ 1 |",
            "* y: why\n",
            "| x | 1 | 600.0 | 0.0 | 85.0 % | 2 | 1 | 3.0 | 10.0 |  |",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
