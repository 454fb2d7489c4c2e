//! Volumes in lists, as docker shows them.

use crate::listing::Listing;
use crate::text::{joined, with_error};
use serde_json::{Value, json};
use tote_engine::VolumeRow;

/// Lists volumes with docker's fields.
#[must_use]
pub fn volumes(rows: &[VolumeRow]) -> Listing {
    Listing {
        headings: &[
            ("Driver", "DRIVER"),
            ("Name", "VOLUME NAME"),
            ("Scope", "SCOPE"),
            ("Mountpoint", "MOUNTPOINT"),
            ("Labels", "LABELS"),
            ("Links", "LINKS"),
            ("Size", "SIZE"),
            ("Availability", "AVAILABILITY"),
            ("Group", "GROUP"),
            ("Status", "STATUS"),
            ("Error", "ERROR"),
        ],
        columns: "{{.Driver}}\t{{.Name}}".to_owned(),
        rows: rows.iter().map(line).collect(),
        methods: rows
            .iter()
            .map(|row| json!({ "Label": row.labels, "Error": row.error }))
            .collect(),
        ..Listing::default()
    }
}

/// Formats a volume with the fields of docker's `--format json`.
fn line(row: &VolumeRow) -> Value {
    let shown = json!({
        "Availability": "N/A",
        "Driver": "local",
        "Group": "N/A",
        "Labels": joined(&row.labels),
        "Links": "N/A",
        "Mountpoint": row.mountpoint.display().to_string(),
        "Name": row.name,
        "Scope": "local",
        "Size": "N/A",
        "Status": if row.error.is_empty() { "N/A" } else { "damaged" },
    });
    with_error(shown, &row.error)
}
