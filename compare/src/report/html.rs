//! The report as one page that loads nothing: style, script and plots are in it.

use super::figures::{self, Figure};
use super::markdown::cells;
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
         <p>Made by <code>tote bench</code> on {}. Ratios are those to {}, or to what the head of their column names, of medians; \
         what failed is not compared. \
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
    figures(out, &figures::of_sizes(report, table)?);
    for block in &table.blocks {
        if !block.size.is_empty() {
            *out += &format!("<h3>{} {}</h3>\n", escape(&series.name), escape(&block.size));
        }
        measured(out, report, table, block);
        figures(out, &figures::of_block(report, table, block)?);
    }
    ratios(out, report, &series.name);
    *out += "</section>\n";
    Ok(())
}

fn figures(out: &mut String, figures: &[Figure]) {
    for figure in figures {
        *out += &format!(
            "<figure id=\"{}\"><div class=\"plot\">{}</div><figcaption>{}</figcaption></figure>\n",
            escape(&figure.name),
            figure.svg,
            escape(figure.caption)
        );
    }
}

/// Writes what the papers say about an experiment besides times.
fn ratios(out: &mut String, report: &Report<'_>, experiment: &str) {
    let told: Vec<_> = report.published.ratios(experiment).collect();
    if told.is_empty() {
        return;
    }
    *out += "<div class=\"wide\"><table><thead><tr><th>published, on other hardware</th><th>ratio</th><th>where</th></tr></thead><tbody>\n";
    for (label, ratio, source) in told {
        *out += &format!(
            "<tr class=\"published\"><td>{}</td><td>{}</td><td>{}</td></tr>\n",
            escape(label),
            figure(ratio),
            escape(source)
        );
    }
    *out += "</tbody></table></div>\n";
}

fn measured(out: &mut String, report: &Report<'_>, table: &Table, block: &Block) {
    let unit = escape(&table.series.unit);
    *out += "<div class=\"wide\"><table class=\"sortable\"><thead><tr>";
    let ratio = format!("/ {}", escape(&table.baseline));
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
