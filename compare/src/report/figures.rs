//! The plots of a report, each with a name: on its page, and as files of their own.

use super::Report;
use super::plots::{self, Bar, Line};
use crate::analysis::{Block, Table};
use crate::record::Quantity;
use anyhow::{Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// A plot.
pub(super) struct Figure {
    /// The experiment, the size, and the kind: `hello-world-phases`.
    pub(super) name: String,
    pub(super) caption: &'static str,
    pub(super) svg: String,
}

/// Draws what shows all sizes of an experiment.
pub(super) fn of_sizes(report: &Report<'_>, table: &Table) -> Result<Vec<Figure>> {
    let published: Vec<Line> = (report.published.sizes(&table.series.name).into_iter())
        .map(|(label, points)| (format!("published: {label}"), points))
        .collect();
    let drawn = [
        (
            "sizes",
            "Median over size, published numbers thin",
            plots::sizes(table, &published)?,
        ),
        ("panels", "Medians of the phases over size", plots::panels(table)?),
    ];
    Ok(named(&table.series.name, drawn))
}

/// Draws what shows the runs of one size.
pub(super) fn of_block(report: &Report<'_>, table: &Table, block: &Block) -> Result<Vec<Figure>> {
    // Only the smallest and the largest size have all plots: a page of hundreds would not be looked at.
    let ends = [table.blocks.first(), table.blocks.last()];
    if table.series.honesty || !ends.into_iter().flatten().any(|end| end.size == block.size) {
        return Ok(Vec::new());
    }
    let unit = &table.series.unit;
    let (mut phases, mut beside) = (None, None);
    if table.series.quantity == Quantity::Time {
        let rows = block.rows.iter().filter(|row| row.summary.is_some());
        let mut bars: Vec<Bar> = rows
            .map(|row| (row.candidate.clone(), row.phases.clone()))
            .collect();
        bars.reverse();
        phases = plots::bars(&bars, unit)?;
        let published = report.published.phases(&table.series.name);
        if !published.is_empty() {
            bars.reverse();
            bars.extend(
                published
                    .into_iter()
                    .map(|(label, phases)| (format!("published: {label}"), phases)),
            );
            bars.reverse();
            beside = plots::bars(&bars, unit)?;
        }
    }
    let drawn = [
        ("phases", "Medians of the phases", phases),
        (
            "published",
            "The same beside what was published of other hardware",
            beside,
        ),
        (
            "boxes",
            "All runs that count: quartiles, median and ends",
            plots::boxes(block, unit)?,
        ),
        (
            "runs",
            "Share of runs that were done",
            plots::distribution(block, unit)?,
        ),
    ];
    let name = format!("{} {}", table.series.name, block.size);
    Ok(named(name.trim_end(), drawn))
}

fn named<const N: usize>(of: &str, drawn: [(&str, &'static str, Option<String>); N]) -> Vec<Figure> {
    let drawn = drawn.into_iter().filter_map(|(kind, caption, svg)| {
        Some(Figure {
            name: format!("{of}-{kind}").replace(' ', "-"),
            caption,
            svg: svg?,
        })
    });
    drawn.collect()
}

/// Writes plots as files of their own; `wanted` are their names, or `all`. Returns the paths.
pub(super) fn write(report: &Report<'_>, wanted: &[String], directory: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for table in &report.tables {
        all.extend(of_sizes(report, table)?);
        for block in &table.blocks {
            all.extend(of_block(report, table, block)?);
        }
    }
    for name in wanted.iter().filter(|name| *name != "all") {
        let names: Vec<&str> = all.iter().map(|figure| figure.name.as_str()).collect();
        ensure!(
            names.contains(&name.as_str()),
            "no plot is named {name:?}; there are: {}",
            names.join(", ")
        );
    }
    let mut written = Vec::new();
    for figure in &all {
        if wanted.iter().any(|name| name == "all" || *name == figure.name) {
            let path = directory.join(format!("{}.svg", figure.name));
            fs::write(&path, plots::alone(&figure.svg))
                .map_err(|error| anyhow::Error::new(error).context(format!("write {}", path.display())))?;
            written.push(path);
        }
    }
    Ok(written)
}
