//! Networks in lists, as docker shows them.

use crate::listing::Listing;
use crate::text::{joined, moment, with_error};
use serde_json::{Value, json};
use tote_engine::NetworkRow;

/// Number of an id's digits that lists show.
const SHORT: usize = 12;

/// The id of a network in a list; the name of one that cannot be used, by which commands find it.
#[must_use]
pub fn id_of_network(row: &NetworkRow, whole: bool) -> &str {
    if row.id.is_empty() {
        return &row.name;
    }
    let length = if whole { usize::MAX } else { SHORT };
    row.id.get(..length).unwrap_or(&row.id)
}

/// Lists networks with docker's fields; `whole` leaves their ids uncut.
#[must_use]
pub fn networks(rows: &[NetworkRow], whole: bool) -> Listing {
    Listing {
        headings: &[
            ("ID", "NETWORK ID"),
            ("Name", "NAME"),
            ("Driver", "DRIVER"),
            ("Scope", "SCOPE"),
            ("IPv4", "IPV4"),
            ("IPv6", "IPV6"),
            ("Internal", "INTERNAL"),
            ("Labels", "LABELS"),
            ("CreatedAt", "CREATED AT"),
            ("Error", "ERROR"),
        ],
        columns: "{{.ID}}\t{{.Name}}\t{{.Driver}}\t{{.Scope}}".to_owned(),
        methods: rows
            .iter()
            .map(|row| json!({ "Label": row.labels, "Error": row.error }))
            .collect(),
        rows: rows.iter().map(|row| line(row, whole)).collect(),
        ..Listing::default()
    }
}

/// Formats a network with the fields of docker's `--format json`.
fn line(row: &NetworkRow, whole: bool) -> Value {
    let shown = json!({
        "CreatedAt": moment(&tote_engine::moment(row.created)),
        "Driver": row.driver,
        "ID": id_of_network(row, whole),
        "IPv4": "true",
        "IPv6": row.ipv6.to_string(),
        "Internal": row.internal.to_string(),
        "Labels": joined(&row.labels),
        "Name": row.name,
        "Scope": "local",
    });
    with_error(shown, &row.error)
}
