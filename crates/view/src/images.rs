//! Images in lists, as docker shows them.

use crate::listing::Listing;
use crate::text;
use serde_json::json;
use tote_engine::{Digest, ImageBranch, ImageRow};

/// Lists images with docker's fields; `whole` leaves their ids uncut, and `digests` adds a column.
#[must_use]
pub fn images(rows: &[ImageRow], whole: bool, digests: bool) -> Listing {
    let digest = if digests { "{{.Digest}}\t" } else { "" };
    Listing {
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
        rows: rows
            .iter()
            .map(|row| line(row, &id_of_image(row, whole)))
            .collect(),
        also: rows.iter().map(podmans).collect(),
        ..Listing::default()
    }
}

/// podman's fields of an image in a list.
fn podmans(row: &ImageRow) -> serde_json::Value {
    let created = row.created.clone().unwrap_or_default();
    json!({
        "Created": text::ago(&created),
        "CreatedTime": text::moment(&created),
        "History": [],
        "Id": row.id.to_string(),
        "Labels": row.labels,
    })
}

/// The id of an image in a list.
#[must_use]
pub fn id_of_image(row: &ImageRow, whole: bool) -> String {
    if whole { row.id.to_string() } else { row.id.short() }
}

/// Sorts by podman's `--sort`; returns whether the key is known.
#[must_use]
pub fn sort_images(rows: &mut [ImageRow], key: &str) -> bool {
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
#[must_use]
pub fn image_tree(images: &[ImageBranch]) -> String {
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
