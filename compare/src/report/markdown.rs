//! The report as Markdown.

use super::{Report, figure};
use crate::analysis::{Block, Row, Table};
use bench::clock;

pub(crate) fn text(report: &Report<'_>) -> String {
    let kind = if report.header.quick {
        "quick comparison"
    } else {
        "comparison"
    };
    let mut out = format!(
        "# Container engines: a {kind}\n\nMade by `tote bench` on {}. Ratios are those to {}, or to what the head of \
         their column names, of medians; what failed is not compared.\n\n",
        clock::utc(report.header.started),
        report.baseline
    );
    for warning in &report.warnings {
        out += &format!("> **Warning.** {warning}\n\n");
    }
    let accusations = report.accusations();
    if !accusations.is_empty() {
        out += "## What went wrong\n\n";
        for sentence in &accusations {
            out += &format!("- {sentence}\n");
        }
        out.push('\n');
    }
    for table in &report.tables {
        experiment(&mut out, report, table);
    }
    out += "## Candidates\n\n| candidate | about | manager | runtime | driver | isolation |\n|---|---|---|---|---|---|\n";
    for one in report.header.subjects.iter().filter(|one| one.skipped.is_none()) {
        let cells = [
            &one.name,
            &one.about,
            &one.manager,
            &one.runtime,
            &one.driver,
            &one.isolation,
        ];
        out += &row(&cells.map(|cell| cell.as_str()));
    }
    let skipped = report
        .header
        .subjects
        .iter()
        .filter_map(|one| Some((&one.name, one.skipped.as_ref()?)));
    let skipped: Vec<_> = skipped.chain(&report.header.skipped).collect();
    if !skipped.is_empty() {
        out += "\nNot measured:\n\n";
        for (name, reason) in skipped {
            out += &format!("- {name}: {reason}\n");
        }
    }
    out += "\n## Machine and programs\n\n| what | value |\n|---|---|\n";
    for (name, value) in report.surroundings() {
        out += &row(&[&name, &value]);
    }
    if !report.suspected.is_empty() {
        out += "\nNew on the machine afterwards, perhaps by others:\n\n";
        for object in &report.suspected {
            out += &format!("- {object}\n");
        }
    }
    out
}

fn experiment(out: &mut String, report: &Report<'_>, table: &Table) {
    *out += &format!("## {}\n\n{}\n\n", table.series.name, table.series.about);
    for block in &table.blocks {
        if !block.size.is_empty() {
            *out += &format!("### {} {}\n\n", table.series.name, block.size);
        }
        measured(out, table, block);
    }
    let phases = report.published.phases(&table.series.name);
    let sizes = report.published.sizes(&table.series.name);
    if !(phases.is_empty() && sizes.is_empty()) {
        *out += &format!(
            "Published, on other hardware ({}), in ms:\n\n",
            report.published.source
        );
        let phases = phases.iter().map(|(label, numbers)| {
            let sum = numbers.iter().map(|number| number.1).sum::<f64>();
            (label, format!("{} ({})", figure(sum), joined(numbers)))
        });
        let sizes = sizes.iter().map(|(label, numbers)| (label, joined(numbers)));
        *out += "| configuration | ms |\n|---|---|\n";
        for (label, told) in phases.chain(sizes) {
            *out += &row(&[label, &told]);
        }
        out.push('\n');
    }
    let told: Vec<_> = report.published.ratios(&table.series.name).collect();
    if !told.is_empty() {
        *out += "| published, on other hardware | ratio | where |\n|---|--:|---|\n";
        for (label, ratio, source) in told {
            *out += &row(&[label, &figure(ratio), source]);
        }
        out.push('\n');
    }
}

fn joined<T: std::fmt::Display>(numbers: &[(T, f64)]) -> String {
    numbers
        .iter()
        .map(|(name, number)| format!("{name} {}", figure(*number)))
        .collect::<Vec<_>>()
        .join(", ")
}

fn measured(out: &mut String, table: &Table, block: &Block) {
    let unit = &table.series.unit;
    *out += &format!(
        "| candidate | n | median ({unit}) | 95% interval | IQR | best ¾ mean | / {} | phases (ms) | failed |\n\
         |---|--:|--:|--:|--:|--:|--:|---|---|\n",
        table.baseline
    );
    for one in &block.rows {
        let cells = cells(one);
        *out += &row(&cells.each_ref().map(String::as_str));
    }
    out.push('\n');
}

/// The cells of a row, in the order of the heads.
pub(super) fn cells(one: &Row) -> [String; 9] {
    let faults: Vec<String> = one
        .faults
        .iter()
        .map(|(fault, runs)| format!("{runs} × {fault}"))
        .collect();
    let phases = if one.phases.len() > 1 {
        joined(&one.phases)
    } else {
        String::new()
    };
    let [n, median, interval, iqr, best] = match &one.summary {
        None => [const { String::new() }; 5],
        Some(found) => [
            found.n.to_string(),
            format!("{}{}", figure(found.median), if one.noisy { " ~" } else { "" }),
            format!(
                "{} to {}",
                figure(found.median_interval.low),
                figure(found.median_interval.high)
            ),
            figure(found.iqr),
            figure(found.best_three_quarters_mean),
        ],
    };
    let ratio = one
        .ratio
        .map(|ratio| figure(ratio.of_medians))
        .unwrap_or_default();
    [
        one.candidate.clone(),
        n,
        median,
        interval,
        iqr,
        best,
        ratio,
        phases,
        faults.join("; "),
    ]
}

fn row(cells: &[&str]) -> String {
    let cells: Vec<String> = cells
        .iter()
        .map(|cell| cell.replace('|', "\\|").replace('\n', " "))
        .collect();
    format!("| {} |\n", cells.join(" | "))
}
