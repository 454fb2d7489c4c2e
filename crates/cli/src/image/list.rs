//! `tote images`.

use crate::{home, print, text};
use serde_json::json;
use std::process::ExitCode;
use tote_engine::{EngineError, ImageRow, ImageSelection};
use tote_options::Parsed;

pub(super) fn images(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let selection = ImageSelection {
        reference: super::words(parsed).pop(),
        filters: parsed
            .all("filter")
            .map(|filter| filter.to_string_lossy().into_owned())
            .collect(),
        all: parsed.flag("all"),
    };
    let rows = tote_engine::images(&home(parsed)?, &selection)?;
    let id = |row: &ImageRow| {
        if parsed.flag("no-trunc") {
            row.id.to_string()
        } else {
            row.id.short()
        }
    };
    if parsed.flag("quiet") {
        let mut ids: Vec<String> = rows.iter().map(id).collect();
        ids.dedup();
        return Ok(print(&ids.iter().map(|id| format!("{id}\n")).collect::<String>()));
    }
    if parsed.value("format").is_some_and(|format| format == "json") {
        let lines = rows.iter().map(|row| format!("{}\n", line(row, &id(row))));
        return Ok(print(&lines.collect::<String>()));
    }
    let digests = parsed.flag("digests");
    let mut columns = vec!["REPOSITORY", "TAG", "IMAGE ID", "CREATED", "SIZE"];
    if digests {
        columns.insert(2, "DIGEST");
    }
    let mut table = vec![columns.into_iter().map(ToOwned::to_owned).collect::<Vec<_>>()];
    for row in &rows {
        let created = text::ago(row.created.as_deref().unwrap_or_default());
        let mut cells = vec![
            or_none(row.repository.clone()),
            or_none(row.tag.clone()),
            id(row),
            created,
            text::size(row.size),
        ];
        if digests {
            cells.insert(2, or_none(row.digest.map(|digest| digest.to_string())));
        }
        table.push(cells);
    }
    Ok(print(&text::table(&table)))
}

fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "<none>".to_owned())
}

/// One image as docker's `--format json` has it.
fn line(row: &ImageRow, id: &str) -> serde_json::Value {
    let created = row.created.clone().unwrap_or_default();
    json!({
        "Containers": "N/A",
        "CreatedAt": created,
        "CreatedSince": text::ago(&created),
        "Digest": or_none(row.digest.map(|digest| digest.to_string())),
        "ID": id,
        "Repository": or_none(row.repository.clone()),
        "SharedSize": "N/A",
        "Size": text::size(row.size),
        "Tag": or_none(row.tag.clone()),
        "UniqueSize": "N/A",
        "VirtualSize": text::size(row.size),
    })
}
