//! Secrets in lists, as podman shows them.

use crate::listing::Listing;
use crate::text::{ago, joined};
use serde_json::{Value, json};
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

/// Describes a secret for people, by what `inspect` says of it.
#[must_use]
pub fn secret(found: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let labels = found["Spec"]["Labels"].as_object().into_iter().flatten();
    let labels: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", text(value)))
        .collect();
    let mut lines = vec![
        ("ID", text(&found["ID"])),
        ("Name", text(&found["Spec"]["Name"])),
        ("Labels", labels.join(",")),
        ("Driver", text(&found["Spec"]["Driver"]["Name"])),
        ("Created at", text(&found["CreatedAt"])),
        ("Updated at", text(&found["UpdatedAt"])),
    ];
    if let Some(data) = found.get("SecretData") {
        lines.push(("Secret", text(data)));
    }
    let lines = lines
        .into_iter()
        .map(|(name, value)| format!("{:<17}{value}", format!("{name}:")));
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}
