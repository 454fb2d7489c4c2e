//! A volume as `docker volume inspect` shows it.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use tote_engine::{VolumeDetails, moment};

/// Describes a volume with docker's fields.
#[must_use]
pub fn volume_details(of: &VolumeDetails) -> Value {
    let row = &of.row;
    json!({
        "CreatedAt": moment(row.created),
        "Driver": "local",
        "Labels": or_null(&row.labels),
        "Mountpoint": row.mountpoint.display().to_string(),
        "Name": row.name,
        "Options": or_null(&of.options),
        "Scope": "local",
    })
}

fn or_null(values: &BTreeMap<String, String>) -> Value {
    if values.is_empty() {
        Value::Null
    } else {
        json!(values)
    }
}
