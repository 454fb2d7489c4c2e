//! Mounted containers in lists, as podman shows them.

use crate::listing::Listing;
use serde_json::json;
use tote_engine::MountRow;

/// Lists mounted containers; like podman's table it has no headings, because scripts read it. `whole` shows whole ids.
#[must_use]
pub fn mounts(rows: &[MountRow], whole: bool) -> Listing {
    let line = |row: &MountRow| {
        json!({
            "ID": if whole { row.id.as_str() } else { row.id.short() },
            "Name": row.name,
            "Mountpoint": row.path.display().to_string(),
        })
    };
    Listing {
        headings: &[
            ("ID", "CONTAINER ID"),
            ("Name", "NAME"),
            ("Mountpoint", "MOUNTPOINT"),
        ],
        columns: "{{.ID}}\t{{.Mountpoint}}".to_owned(),
        rows: rows.iter().map(line).collect(),
        no_heading: true,
        ..Listing::default()
    }
}
