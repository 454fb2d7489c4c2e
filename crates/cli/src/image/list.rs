//! `tote images`.

use crate::listing::{Listing, only_ids};
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
    if only_ids(parsed) {
        let mut ids: Vec<String> = rows.iter().map(id).collect();
        ids.dedup();
        return Ok(print(&ids.iter().map(|id| format!("{id}\n")).collect::<String>()));
    }
    let digest = if parsed.flag("digests") {
        "{{.Digest}}\t"
    } else {
        ""
    };
    let listing = Listing {
        headings: &[
            ("Repository", "REPOSITORY"),
            ("Tag", "TAG"),
            ("Digest", "DIGEST"),
            ("ID", "IMAGE ID"),
            ("CreatedAt", "CREATED AT"),
            ("CreatedSince", "CREATED"),
            ("Size", "SIZE"),
            ("VirtualSize", "SIZE"),
            ("SharedSize", "SHARED SIZE"),
            ("UniqueSize", "UNIQUE SIZE"),
            ("Containers", "CONTAINERS"),
        ],
        columns: format!(
            "{{{{.Repository}}}}\t{{{{.Tag}}}}\t{digest}{{{{.ID}}}}\t{{{{.CreatedSince}}}}\t{{{{.Size}}}}"
        ),
        rows: rows.iter().map(|row| line(row, &id(row))).collect(),
        ..Listing::default()
    };
    Ok(listing.print(parsed))
}

fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "<none>".to_owned())
}

/// One image as docker's `--format json` has it.
fn line(row: &ImageRow, id: &str) -> serde_json::Value {
    let created = row.created.clone().unwrap_or_default();
    json!({
        "Containers": "N/A",
        "CreatedAt": text::moment(&created),
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
