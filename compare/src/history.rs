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

/// Summaries of an experiment of one size with one candidate.
struct Trend {
    unit: String,
    more_is_better: bool,
    /// Number of the measurement, from 0, and summary.
    points: Vec<(usize, Summary)>,
}

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
    let mut text = text(&all, &trends);
    let mut written = vec![place.join("history.md")];
    let mut blocks: BTreeMap<(&str, &str), Vec<plots::Line>> = BTreeMap::new();
    for ((block, candidate), trend) in &trends {
        let points = (trend.points.iter())
            .map(|(number, summary)| ((number + 1) as f64, summary.median))
            .collect();
        let lines = blocks.entry((block, &trend.unit)).or_default();
        lines.push((candidate.clone(), points));
    }
    for ((block, unit), lines) in blocks {
        if let Some(svg) = plots::trend(&lines, unit)? {
            let name = format!("history-{}.svg", block.replace(' ', "-"));
            let path = place.join(&name);
            fs::write(&path, plots::alone(&svg)).with_context(|| format!("write {}", path.display()))?;
            text += &format!("\n![medians of {block}]({name})\n");
            written.push(path);
        }
    }
    fs::write(&written[0], &text).with_context(|| format!("write {}", written[0].display()))?;
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
                        let trend = trends.entry((name.clone(), candidate.clone()));
                        let trend = trend.or_insert_with(|| Trend {
                            unit: table.series.unit.clone(),
                            more_is_better: table.series.more_is_better,
                            points: Vec::new(),
                        });
                        trend.points.push((number, summary.clone()));
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
        let [.., (_, before), (number, last)] = trend.points.as_slice() else {
            continue;
        };
        if *number + 1 != all.len() {
            continue;
        }
        let (old, new) = (before.median_interval, last.median_interval);
        let verdict = match (new.low > old.high, new.high < old.low) {
            (false, false) => "",
            (higher, _) if higher == trend.more_is_better => "better",
            _ => "worse",
        };
        out += &format!(
            "| {block} ({}) | {candidate} | {} | {} | {} | {verdict} |\n",
            trend.unit,
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
        let mut all = [old, new];
        let text = text(&all, &trends(&all));
        assert!(
            text.contains("| hello (ms) | fast | 4.00 | 12.0 | 3.00 | worse |"),
            "{text}"
        );
        assert!(
            text.contains("| hello (ms) | slow | 41.5 | 41.5 | 1.00 |  |"),
            "{text}"
        );
        for results in &mut all {
            results.header.series[0].more_is_better = true;
        }
        let text = super::text(&all, &trends(&all));
        assert!(text.contains("| 12.0 | 3.00 | better |"), "{text}");
    }
}
