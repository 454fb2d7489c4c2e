//! Secrets in lists, as podman shows them.

use crate::listing::Listing;
use crate::text::{ago, joined};
use serde_json::json;
use tote_engine::SecretRow;

/// Lists secrets with podman's fields.
#[must_use]
pub fn secrets(rows: &[SecretRow]) -> Listing {
    let line = |row: &SecretRow| {
        json!({
            "ID": row.id,
            "Name": row.name,
            "Driver": "file",
            "CreatedAt": ago(&row.created),
            "UpdatedAt": ago(&row.updated),
            "Labels": joined(&row.labels),
        })
    };
    Listing {
        headings: &[
            ("ID", "ID"),
            ("Name", "NAME"),
            ("Driver", "DRIVER"),
            ("CreatedAt", "CREATED"),
            ("UpdatedAt", "UPDATED"),
            ("Labels", "LABELS"),
        ],
        columns: "{{.ID}}\t{{.Name}}\t{{.Driver}}\t{{.CreatedAt}}\t{{.UpdatedAt}}".to_owned(),
        rows: rows.iter().map(line).collect(),
        ..Listing::default()
    }
}
