//! Pools in lists, and one pool in JSON.

use crate::listing::Listing;
use serde_json::{Value, json};
use tote_engine::PoolRow;

/// Lists pools.
#[must_use]
pub fn pools(rows: &[PoolRow]) -> Listing {
    Listing {
        headings: &[
            ("Name", "NAME"),
            ("Image", "IMAGE"),
            ("Ready", "READY"),
            ("Size", "SIZE"),
            ("Command", "COMMAND"),
            ("Error", "ERROR"),
        ],
        columns: "{{.Name}}\t{{.Image}}\t{{.Ready}}\t{{.Size}}\t{{.Error}}".to_owned(),
        rows: rows.iter().map(line).collect(),
        ..Listing::default()
    }
}

fn line(row: &PoolRow) -> Value {
    json!({
        "Name": row.pool.name.as_str(),
        "Image": row.pool.template.image,
        "Ready": if row.damaged { "damaged".to_owned() } else { row.ready.len().to_string() },
        "Size": row.pool.size.to_string(),
        "Command": row.pool.template.path_and_args.join(" "),
        "Error": row.error,
    })
}

/// Describes a pool.
#[must_use]
pub fn pool(row: &PoolRow) -> Value {
    let template = &row.pool.template;
    let options = template.options.iter();
    let options = options.map(|(option, value)| json!([option, value]));
    json!({
        "Name": row.pool.name.as_str(),
        "Created": tote_engine::moment(template.created),
        "Image": template.image,
        "ImageID": template.image_id,
        "Size": row.pool.size,
        "Ready": row.ready.len(),
        "Sandboxes": row.ready.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "Options": options.collect::<Vec<_>>(),
        "Command": template.path_and_args,
        "Labels": template.labels,
        "Error": row.error,
    })
}
