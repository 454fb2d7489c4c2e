//! The report as one page that loads nothing: style, script and plots are in it.

use super::markdown::cells;
use super::plots::{self, Bar, Line};
use super::{Report, figure};
use crate::analysis::{Block, Table};
use anyhow::Result;
use bench::clock;

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

pub(crate) fn page(report: &Report<'_>) -> Result<String> {
    let title = if report.header.quick {
        "Container engines: a quick comparison"
    } else {
        "Container engines: a comparison"
    };
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title}</title><style>{STYLE}</style></head><body><main>\n<h1>{title}</h1>\n\
         <p>Made by <code>tote bench</code> on {}. Ratios are those to {}, of medians; what failed is not compared. \
         Published numbers come from other hardware ({}). A click on the head of a column sorts by it. ~ marks rows whose quartiles are far apart.</p>\n",
        clock::utc(report.header.started),
        escape(&report.baseline),
        escape(&report.published.source)
    );
    for warning in &report.warnings {
        out += &format!(
            "<p class=\"warning\"><strong>Warning.</strong> {}</p>\n",
            escape(warning)
        );
    }
    let accusations = report.accusations();
    if !accusations.is_empty() {
        out += "<h2>What went wrong</h2>\n<ul>";
        for sentence in &accusations {
            out += &format!("<li>{}</li>\n", escape(sentence));
        }
        out += "</ul>\n";
    }
    out += "<nav><ul>";
    for table in &report.tables {
        out += &format!("<li><a href=\"#{0}\">{0}</a></li>", escape(&table.series.name));
    }
    out += "</ul></nav>\n";
    for table in &report.tables {
        experiment(&mut out, report, table)?;
    }
    candidates(&mut out, report);
    out += "<h2>Machine and programs</h2>\n<div class=\"wide\"><table><tbody>";
    for (name, value) in report.surroundings() {
        out += &format!("<tr><th>{}</th><td>{}</td></tr>\n", escape(&name), escape(&value));
    }
    out += "</tbody></table></div>\n";
    out += &format!("</main><script>{SCRIPT}</script></body></html>\n");
    Ok(out)
}

fn experiment(out: &mut String, report: &Report<'_>, table: &Table) -> Result<()> {
    let series = &table.series;
    *out += &format!(
        "<section id=\"{0}\"><h2>{0}</h2>\n<p>{1}</p>\n",
        escape(&series.name),
        escape(&series.about)
    );
    let published: Vec<Line> = (report.published.sizes(&series.name).into_iter())
        .map(|(label, points)| (format!("published: {label}"), points))
        .collect();
    plot(
        out,
        plots::sizes(table, &published)?,
        "Median over size, published numbers thin",
    );
    for block in &table.blocks {
        if !block.size.is_empty() {
            *out += &format!("<h3>{} {}</h3>\n", escape(&series.name), escape(&block.size));
        }
        measured(out, report, table, block);
        if !series.honesty {
            drawn(out, report, table, block)?;
        }
    }
    *out += "</section>\n";
    Ok(())
}

fn drawn(out: &mut String, report: &Report<'_>, table: &Table, block: &Block) -> Result<()> {
    let unit = &table.series.unit;
    // Only the smallest and the largest size have all plots: a page of hundreds would not be looked at.
    let ends = [table.blocks.first(), table.blocks.last()];
    if !ends.into_iter().flatten().any(|end| end.size == block.size) {
        return Ok(());
    }
    if unit == "ms" {
        let rows = block.rows.iter().filter(|row| row.summary.is_some());
        let mut bars: Vec<Bar> = rows
            .map(|row| (row.candidate.clone(), row.phases.clone()))
            .collect();
        let published = report.published.phases(&table.series.name);
        bars.extend(
            published
                .into_iter()
                .map(|(label, phases)| (format!("published: {label}"), phases)),
        );
        bars.reverse();
        plot(out, plots::bars(&bars, unit)?, "Medians of the phases");
    }
    plot(out, plots::boxes(block, unit)?, "All runs that count");
    plot(
        out,
        plots::distribution(block, unit)?,
        "Share of runs that were done",
    );
    Ok(())
}

fn plot(out: &mut String, svg: Option<String>, caption: &str) {
    if let Some(svg) = svg {
        *out += &format!(
            "<figure><div class=\"plot\">{svg}</div><figcaption>{}</figcaption></figure>\n",
            escape(caption)
        );
    }
}

fn measured(out: &mut String, report: &Report<'_>, table: &Table, block: &Block) {
    let unit = escape(&table.series.unit);
    *out += "<div class=\"wide\"><table class=\"sortable\"><thead><tr>";
    let ratio = format!("/ {}", escape(&report.baseline));
    let median = format!("median ({unit})");
    let heads = [
        "candidate",
        "n",
        &median,
        "95% interval",
        "IQR",
        "best ¾ mean",
        &ratio,
        "phases (ms)",
        "failed",
    ];
    for head in heads {
        *out += &format!("<th><button type=\"button\">{head}</button></th>");
    }
    *out += "</tr></thead><tbody>\n";
    for row in &block.rows {
        let own = if row.candidate.starts_with("tote") {
            " class=\"own\""
        } else {
            ""
        };
        *out += &format!("<tr{own}>");
        for cell in cells(row) {
            *out += &format!("<td>{}</td>", escape(&cell));
        }
        *out += "</tr>\n";
    }
    for (label, phases) in report.published.phases(&table.series.name) {
        let sum: f64 = phases.iter().map(|phase| phase.1).sum();
        let told: Vec<String> = phases
            .iter()
            .map(|(name, ms)| format!("{name} {}", figure(*ms)))
            .collect();
        let empty = "<td></td>".repeat(4);
        *out += &format!(
            "<tr class=\"published\"><td>published: {}</td><td></td><td>{}</td>{empty}<td>{}</td><td></td></tr>\n",
            escape(&label),
            figure(sum),
            escape(&told.join(", "))
        );
    }
    *out += "</tbody></table></div>\n";
}

fn candidates(out: &mut String, report: &Report<'_>) {
    *out += "<h2>Candidates</h2>\n<div class=\"wide\"><table class=\"sortable\"><thead><tr>";
    for head in [
        "candidate",
        "about",
        "manager",
        "runtime",
        "driver",
        "isolation",
        "not measured because",
    ] {
        *out += &format!("<th><button type=\"button\">{head}</button></th>");
    }
    *out += "</tr></thead><tbody>\n";
    for one in &report.header.subjects {
        let skipped = one.skipped.clone().unwrap_or_default();
        let cells = [
            &one.name,
            &one.about,
            &one.manager,
            &one.runtime,
            &one.driver,
            &one.isolation,
            &skipped,
        ];
        *out += "<tr>";
        for cell in cells {
            *out += &format!("<td>{}</td>", escape(cell));
        }
        *out += "</tr>\n";
    }
    *out += "</tbody></table></div>\n";
}

/// Makes a text harmless in HTML, also in attributes.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            other => out.push(other),
        }
    }
    out
}
