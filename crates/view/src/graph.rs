//! Nodes, closures and what they take, in lists.

use crate::listing::Listing;
use crate::text::{size, with_error};
use serde_json::{Value, json};
use tote_engine::{ClosureUsage, GraphNodeRow, GraphProfile, GraphRoot, Records, StoreReport};

/// Lists nodes.
#[must_use]
pub fn nodes(rows: &[GraphNodeRow]) -> Listing {
    let line = |row: &GraphNodeRow| -> Value {
        json!({
            "ID": row.id.map(|id| id.short()).unwrap_or_default(),
            "Digest": row.id.map(|id| id.to_string()).unwrap_or_default(),
            "Name": row.name,
            "Version": row.version,
            "Kind": row.kind,
            "Files": row.files,
            "Size": size(row.size),
            "Bytes": row.size,
            "References": row.references,
            "Roots": row.roots.join(", "),
        })
    };
    Listing {
        headings: &[
            ("ID", "ID"),
            ("Digest", "DIGEST"),
            ("Name", "NAME"),
            ("Version", "VERSION"),
            ("Kind", "KIND"),
            ("Files", "FILES"),
            ("Size", "SIZE"),
            ("Bytes", "BYTES"),
            ("References", "REFERENCES"),
            ("Roots", "ROOTS"),
        ],
        columns: "{{.ID}}\t{{.Name}}\t{{.Version}}\t{{.Kind}}\t{{.References}}\t{{.Files}}\t{{.Size}}"
            .to_owned(),
        rows: rows.iter().map(line).collect(),
        ..Listing::default()
    }
}

/// Lists what was imported.
#[must_use]
pub fn graph_roots(roots: &Records<GraphRoot>) -> Listing {
    let whole = roots.whole.iter();
    let mut rows: Vec<Value> = whole
        .map(|(_, row)| json!({ "Name": row.name, "Nodes": row.nodes.len() }))
        .collect();
    rows.extend(roots.damaged.iter().map(|damaged| {
        let row = json!({ "Name": damaged.name, "Nodes": "damaged" });
        with_error(row, &damaged.told())
    }));
    Listing {
        headings: &[("Name", "NAME"), ("Nodes", "NODES")],
        columns: "{{.Name}}\t{{.Nodes}}".to_owned(),
        rows,
        ..Listing::default()
    }
}

/// Lists the generations of profiles.
#[must_use]
pub fn graph_profiles(profiles: &Records<GraphProfile>) -> Listing {
    let damaged = profiles.damaged.iter().map(|damaged| {
        let row =
            json!({ "Name": damaged.name, "Generation": "damaged", "Current": "", "Image": "", "Nodes": "" });
        with_error(row, &damaged.told())
    });
    let lines = profiles.whole.iter().flat_map(|(name, profile)| {
        profile.generations.iter().map(move |generation| {
            json!({
                "Name": name,
                "Generation": generation.number,
                "Current": if generation.number == profile.current { "*" } else { "" },
                "Image": generation.image.short(),
                "Nodes": generation.nodes.iter().map(|id| id.short()).collect::<Vec<_>>().join(" "),
            })
        })
    });
    Listing {
        headings: &[
            ("Name", "NAME"),
            ("Generation", "GENERATION"),
            ("Current", "CURRENT"),
            ("Image", "IMAGE"),
            ("Nodes", "NODES"),
        ],
        columns: "{{.Name}}\t{{.Generation}}\t{{.Current}}\t{{.Image}}\t{{.Nodes}}".to_owned(),
        rows: lines.chain(damaged).collect(),
        ..Listing::default()
    }
}

/// Lists what closures and images take, in the columns of Masoumi's Tables 4.5 and 4.6.
#[must_use]
pub fn closure_usage(rows: &[ClosureUsage]) -> Listing {
    let line = |row: &ClosureUsage| -> Value {
        json!({
            "Name": row.name,
            "Kind": row.kind,
            "Image": row.image,
            "Total": size(row.total),
            "Base": if row.kind == "image" { size(row.base) } else { "-".to_owned() },
            "Unique": size(row.unique),
            "BesideHost": size(row.beside_host),
            "Own": size(row.own),
            "UniquePercent": percent(row.unique, row.total),
            "BesideHostPercent": percent(row.beside_host, row.total),
            "OwnPercent": percent(row.own, row.total),
            "TotalBytes": row.total,
            "BaseBytes": row.base,
            "UniqueBytes": row.unique,
            "BesideHostBytes": row.beside_host,
            "OwnBytes": row.own,
        })
    };
    Listing {
        headings: &[
            ("Name", "NAME"),
            ("Kind", "KIND"),
            ("Image", "IMAGE"),
            ("Total", "TOTAL"),
            ("Base", "BASE"),
            ("Unique", "UNIQUE"),
            ("BesideHost", "NOT ON HOST"),
            ("Own", "OWN"),
            ("UniquePercent", "UNIQUE %"),
            ("BesideHostPercent", "NOT ON HOST %"),
            ("OwnPercent", "OWN %"),
        ],
        columns:
            "{{.Name}}\t{{.Kind}}\t{{.Total}}\t{{.Base}}\t{{.Unique}}\t{{.UniquePercent}}\t{{.BesideHost}}\t\
                  {{.BesideHostPercent}}\t{{.Own}}\t{{.OwnPercent}}"
                .to_owned(),
        rows: rows.iter().map(line).collect(),
        ..Listing::default()
    }
}

/// Lists what a report of the store says of each image.
#[must_use]
pub fn store_report(report: &StoreReport) -> Listing {
    let lines = report.images.iter().map(|row| {
        json!({
            "Name": row.name,
            "Image": row.id,
            "Size": size(row.size),
            "UnusedLibraries": row.unused_libraries.len(),
            "Unused": size(row.unused_bytes),
            "Duplicate": size(row.duplicate),
            "Host": size(row.host),
            "Slim": size(row.slim),
        })
    });
    Listing {
        headings: &[
            ("Name", "NAME"),
            ("Image", "IMAGE"),
            ("Size", "SIZE"),
            ("UnusedLibraries", "UNUSED LIBRARIES"),
            ("Unused", "THEIR SIZE"),
            ("Duplicate", "ALSO IN OTHERS"),
            ("Host", "ALSO ON HOST"),
            ("Slim", "SLIM WOULD SAVE"),
        ],
        columns:
            "{{.Name}}\t{{.Size}}\t{{.UnusedLibraries}}\t{{.Unused}}\t{{.Duplicate}}\t{{.Host}}\t{{.Slim}}"
                .to_owned(),
        rows: lines.collect(),
        ..Listing::default()
    }
}

fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        // Display only: bytes of a closure have fewer digits than a float keeps.
        _ => format!("{:.1}", part as f64 * 100.0 / whole as f64),
    }
}
