//! A secret as `podman secret inspect` shows it.

use crate::text::joined;
use serde_json::{Value, json};
use tote_engine::SecretDetails;

/// Describes a secret with podman's fields.
#[must_use]
pub fn secret_details(of: &SecretDetails) -> Value {
    let row = &of.row;
    let mut description = json!({
        "ID": row.id,
        "CreatedAt": row.created,
        "UpdatedAt": row.updated,
        "Spec": {
            "Name": row.name,
            "Driver": { "Name": "file", "Options": {} },
            "Labels": row.labels,
        },
    });
    if let Some(bytes) = &of.bytes {
        description["SecretData"] = String::from_utf8_lossy(bytes).into_owned().into();
    }
    description
}

/// Describes a secret for people.
#[must_use]
pub fn secret(of: &SecretDetails) -> String {
    let row = &of.row;
    let mut lines = vec![
        ("ID", row.id.clone()),
        ("Name", row.name.clone()),
        ("Labels", joined(&row.labels)),
        ("Driver", "file".to_owned()),
        ("Created at", row.created.clone()),
        ("Updated at", row.updated.clone()),
    ];
    if let Some(bytes) = &of.bytes {
        lines.push(("Secret", String::from_utf8_lossy(bytes).into_owned()));
    }
    let lines = lines
        .into_iter()
        .map(|(name, value)| format!("{:<17}{value}", format!("{name}:")));
    lines.map(|line| line.trim_end().to_owned() + "\n").collect()
}
