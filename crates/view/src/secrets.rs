//! Secrets in lists, as podman shows them.

use crate::listing::Listing;
use crate::text::{ago, joined, with_error};
use serde_json::json;
use tote_engine::SecretRow;

/// Lists secrets with podman's fields.
#[must_use]
pub fn secrets(rows: &[SecretRow]) -> Listing {
    let line = |row: &SecretRow| {
        let shown = json!({
            "ID": row.id,
            "Name": row.name,
            "Driver": if row.error.is_empty() { "file" } else { "damaged" },
            "CreatedAt": ago(&row.created),
            "UpdatedAt": ago(&row.updated),
            "Labels": joined(&row.labels),
        });
        with_error(shown, &row.error)
    };
    Listing {
        headings: &[
            ("ID", "ID"),
            ("Name", "NAME"),
            ("Driver", "DRIVER"),
            ("CreatedAt", "CREATED"),
            ("UpdatedAt", "UPDATED"),
            ("Labels", "LABELS"),
            ("Error", "ERROR"),
        ],
        columns: "{{.ID}}\t{{.Name}}\t{{.Driver}}\t{{.CreatedAt}}\t{{.UpdatedAt}}".to_owned(),
        rows: rows.iter().map(line).collect(),
        methods: rows.iter().map(|row| json!({ "Error": row.error })).collect(),
        ..Listing::default()
    }
}
