//! Results of several measurements of one directory, beside one another.

use crate::analysis::{Row, tables};
use crate::record::{Results, files};
use crate::report::{figure, plots};
use anyhow::{Context, Result, ensure};
use bench::clock;
use bench::stats::Summary;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Summaries of a cell: number of the measurement, from 0, and summary.
type Trend = Vec<(usize, Summary)>;

/// Compares the last measurement with the one before, and writes `history.md` and a plot for each experiment. Returns the
/// text and the paths.
pub(crate) fn write(place: &Path) -> Result<(String, Vec<PathBuf>)> {
    let mut all = Vec::new();
    for path in files(place)? {
        let results = Results::read(&path)?;
        if results.header.origin == "measured" {
            all.push(results);
        }
    }
    ensure!(
        all.len() > 1,
        "{} has {} measurements: a history needs two",
        place.display(),
        all.len()
    );
    let trends = trends(&all);
    let text = text(&all, &trends);
    let mut written = vec![place.join("history.md")];
    fs::write(&written[0], &text).with_context(|| format!("write {}", written[0].display()))?;
    let mut blocks: BTreeMap<String, Vec<plots::Line>> = BTreeMap::new();
    for ((block, candidate), trend) in &trends {
        let points = trend
            .iter()
            .map(|(number, summary)| ((number + 1) as f64, summary.median))
            .collect();
        blocks
            .entry(block.clone())
            .or_default()
            .push((candidate.clone(), points));
    }
    for (block, lines) in blocks {
        if let Some(svg) = plots::curves(&lines, &[], "measurement, 1 is the oldest", "median")? {
            let path = place.join(format!("history-{}.svg", block.replace(' ', "-")));
            fs::write(&path, plots::alone(&svg)).with_context(|| format!("write {}", path.display()))?;
            written.push(path);
        }
    }
    Ok((text, written))
}

fn trends(all: &[Results]) -> BTreeMap<(String, String), Trend> {
    let mut trends: BTreeMap<(String, String), Trend> = BTreeMap::new();
    for (number, results) in all.iter().enumerate() {
        for table in tables(results, "") {
            for block in &table.blocks {
                let name = format!("{} {}", table.series.name, block.size)
                    .trim_end()
                    .to_owned();
                for Row {
                    candidate, summary, ..
                } in &block.rows
                {
                    if let Some(summary) = summary {
                        let trend = trends.entry((name.clone(), candidate.clone())).or_default();
                        trend.push((number, summary.clone()));
                    }
                }
            }
        }
    }
    trends
}

fn text(all: &[Results], trends: &BTreeMap<(String, String), Trend>) -> String {
    let mut out = "# History\n\nMeasurements, the oldest first:\n\n".to_owned();
    for results in all {
        let revision = results.header.tote["revision"].as_str().unwrap_or("unknown");
        let name = results.path.file_name().unwrap_or_default().to_string_lossy();
        out += &format!(
            "1. {}, revision {revision} ({name})\n",
            clock::utc(results.header.started)
        );
    }
    out += "\nA change is one where the intervals of both medians lie apart. Both measurements must have been made on one \
            machine; load and noise count as changes too.\n\n| experiment | candidate | before | last | last / before | |\n\
            |---|---|--:|--:|--:|---|\n";
    for ((block, candidate), trend) in trends {
        let [.., (_, before), (number, last)] = trend.as_slice() else {
            continue;
        };
        if *number + 1 != all.len() {
            continue;
        }
        let (old, new) = (before.median_interval, last.median_interval);
        let verdict = if new.low > old.high {
            "higher"
        } else if new.high < old.low {
            "lower"
        } else {
            ""
        };
        out += &format!(
            "| {block} | {candidate} | {} | {} | {} | {verdict} |\n",
            figure(before.median),
            figure(last.median),
            figure(last.median / before.median)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::results;

    #[test]
    fn what_lies_apart_has_changed() {
        let old = results();
        let mut new = results();
        for sample in &mut new.samples {
            if sample.candidate == "hello/fast" {
                sample.wall_ns *= 3;
            }
        }
        let all = [old, new];
        let text = text(&all, &trends(&all));
        assert!(
            text.contains("| hello | fast | 4.00 | 12.0 | 3.00 | higher |"),
            "{text}"
        );
        assert!(
            text.contains("| hello | slow | 41.5 | 41.5 | 1.00 |  |"),
            "{text}"
        );
    }
}
