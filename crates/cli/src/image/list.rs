//! `tote images`.

use crate::home::home;
use crate::listing::{Listing, only_ids};
use crate::tell::{failure, print};
use crate::text;
use serde_json::json;
use std::process::ExitCode;
use tote_engine::{Digest, EngineError, ImageBranch, ImageRow, ImageSelection};
use tote_options::Parsed;

/// Options that docker refuses together with `--tree`.
const NOT_WITH_TREE: [&str; 4] = ["quiet", "no-trunc", "digests", "format"];

pub(crate) fn images(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let selection = ImageSelection {
        reference: crate::words::words(parsed).pop(),
        filters: parsed
            .all("filter")
            .map(|filter| filter.to_string_lossy().into_owned())
            .collect(),
        all: parsed.flag("all"),
    };
    if parsed.flag("tree") {
        return match NOT_WITH_TREE.iter().find(|option| parsed.value(option).is_some()) {
            Some(option) => {
                let text = format!("--{option} is not yet supported with --tree");
                Ok(failure(&text, None, 1))
            }
            None => Ok(print(&tree(&tote_engine::image_branches(
                &home(parsed)?,
                &selection,
            )?))),
        };
    }
    let mut rows = tote_engine::images(&home(parsed)?, &selection)?;
    if let Some(key) = parsed.value("sort")
        && !sort(&mut rows, &key.to_string_lossy())
    {
        let text = format!("--sort {}: there is no such key", key.display());
        return Ok(failure(
            &text,
            Some("give created, id, repository, size or tag"),
            125,
        ));
    }
    let id = |row: &ImageRow| {
        if parsed.flag("no-trunc") {
            row.id.to_string()
        } else {
            row.id.short()
        }
    };
    if only_ids(parsed) {
        let ids: Vec<String> = rows.iter().map(id).collect();
        return Ok(print(&ids.iter().map(|id| format!("{id}\n")).collect::<String>()));
    }
    let digest = if parsed.flag("digests") {
        "{{.Digest}}\t"
    } else {
        ""
    };
    let listing = Listing {
        headings: &[
            ("Repository", "REPOSITORY"),
            ("Tag", "TAG"),
            ("Digest", "DIGEST"),
            ("ID", "IMAGE ID"),
            ("CreatedAt", "CREATED AT"),
            ("CreatedSince", "CREATED"),
            ("Size", "SIZE"),
            ("VirtualSize", "SIZE"),
            ("SharedSize", "SHARED SIZE"),
            ("UniqueSize", "UNIQUE SIZE"),
            ("Containers", "CONTAINERS"),
        ],
        columns: format!(
            "{{{{.Repository}}}}\t{{{{.Tag}}}}\t{digest}{{{{.ID}}}}\t{{{{.CreatedSince}}}}\t{{{{.Size}}}}"
        ),
        rows: rows.iter().map(|row| line(row, &id(row))).collect(),
        no_heading: parsed.flag("noheading"),
        ..Listing::default()
    };
    Ok(listing.print(parsed))
}

/// Sorts by podman's `--sort`; returns whether the key is known.
fn sort(rows: &mut [ImageRow], key: &str) -> bool {
    match key {
        "created" => rows.sort_by(|a, b| b.created.cmp(&a.created)),
        "id" => rows.sort_by_key(|row| row.id.to_string()),
        "repository" => rows.sort_by(|a, b| a.repository.cmp(&b.repository)),
        "size" => rows.sort_by_key(|row| row.size),
        "tag" => rows.sort_by(|a, b| a.tag.cmp(&b.tag)),
        _ => return false,
    }
    true
}

/// Formats docker's tree: an image with all its names, and a line for each of its platforms.
fn tree(images: &[ImageBranch]) -> String {
    let mut lines = vec![["IMAGE", "ID", "DISK USAGE", "CONTENT SIZE", "USED"].map(str::to_owned)];
    for (index, image) in images.iter().enumerate() {
        if index > 0 {
            lines.push(Default::default());
        }
        let (last, others) = match image.names.split_last() {
            Some((last, others)) => (last.as_str(), others),
            None => ("<untagged>", &[][..]),
        };
        for name in others {
            lines.push([
                name.clone(),
                String::new(),
                String::new(),
                String::new(),
                String::new(),
            ]);
        }
        let line = |name: String, id: &Digest, (disk, content), is_used| {
            let used = if is_used { " ✔" } else { "" };
            [
                name,
                id.short(),
                text::size(disk),
                text::size(content),
                used.to_owned(),
            ]
        };
        let sizes = (image.disk, image.content);
        lines.push(line(last.to_owned(), &image.id, sizes, image.is_used));
        for (index, part) in image.platforms.iter().enumerate() {
            let is_last = index + 1 == image.platforms.len();
            let name = format!("{} {}", if is_last { "└─" } else { "├─" }, part.platform);
            lines.push(line(name, &part.id, (part.disk, part.content), part.is_used));
        }
    }
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let [name, id, disk, content] = [0, 1, 2, 3].map(|column| width(column).unwrap_or_default());
    let mut text = String::new();
    for line in &lines {
        let line = format!(
            "{:name$}   {:id$}   {:>disk$}   {:>content$}   {}",
            line[0], line[1], line[2], line[3], line[4]
        );
        text += line.trim_end();
        text.push('\n');
    }
    text
}

fn or_none(text: Option<String>) -> String {
    text.unwrap_or_else(|| "<none>".to_owned())
}

/// Formats an image with the fields of docker's `--format json`.
fn line(row: &ImageRow, id: &str) -> serde_json::Value {
    let created = row.created.clone().unwrap_or_default();
    json!({
        "Containers": "N/A",
        "CreatedAt": text::moment(&created),
        "CreatedSince": text::ago(&created),
        "Digest": or_none(row.digest.map(|digest| digest.to_string())),
        "ID": id,
        "Repository": or_none(row.repository.clone()),
        "SharedSize": "N/A",
        "Size": text::size(row.size),
        "Tag": or_none(row.tag.clone()),
        "UniqueSize": "N/A",
        "VirtualSize": text::size(row.size),
    })
}
