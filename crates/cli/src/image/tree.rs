//! `tote image tree`, podman's.

use crate::home::home;
use crate::tell::print;
use crate::words::words;
use std::process::ExitCode;
use tote_engine::{EngineError, ImageTree, LayerRow, Reference};
use tote_options::Parsed;
use tote_view::size_with;

pub(crate) fn tree(parsed: &Parsed) -> Result<ExitCode, EngineError> {
    let image = words(parsed).pop().unwrap_or_default();
    let tree = tote_engine::image_tree(&home(parsed)?, &image, parsed.flag("whatrequires"))?;
    Ok(print(&drawn(&tree)))
}

fn drawn(tree: &ImageTree) -> String {
    let what = if tree.rows.is_empty() {
        "No Image Layers"
    } else {
        "Image Layers"
    };
    let mut text = format!(
        "Image ID: {}\nTags:     {}\nSize:     {}\n{what}\n",
        tree.id.short(),
        list(&tree.names),
        size_with(tree.size, 4)
    );
    // Prefixes of a row, one for each of the rows that it hangs below.
    let mut before: Vec<&str> = Vec::new();
    for row in &tree.rows {
        before.truncate(row.depth);
        text.extend(before.iter().copied());
        text += &line(row);
        before.push(if row.is_last { "    " } else { "│   " });
    }
    text
}

fn line(row: &LayerRow) -> String {
    let branch = if row.is_last { "└── " } else { "├── " };
    let names = if row.top_of.is_empty() {
        String::new()
    } else {
        format!(" Top Layer of: {}", list(&row.top_of))
    };
    format!(
        "{branch}ID: {} Size: {:>7}{names}\n",
        row.id.short(),
        size_with(row.size, 4)
    )
}

/// Formats a list as Go prints it.
fn list(names: &[Reference]) -> String {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    format!("[{}]", names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees() {
        let name = || vec!["alpine:3".parse().expect("a name")];
        let digest = |byte: u8| {
            format!("sha256:{}", format!("{byte:02x}").repeat(32))
                .parse()
                .expect("a digest")
        };
        let row = |byte, depth, is_last, top_of| LayerRow {
            depth,
            is_last,
            id: digest(byte),
            size: u64::from(byte) * 1_000_000,
            top_of,
        };
        let mut tree = ImageTree {
            id: digest(0xaa),
            names: name(),
            size: 8_317_440,
            rows: vec![
                row(1, 0, false, Vec::new()),
                row(2, 1, false, Vec::new()),
                row(3, 2, true, name()),
                row(4, 1, true, Vec::new()),
                row(5, 0, true, Vec::new()),
            ],
        };
        let expected = "\
Image ID: aaaaaaaaaaaa
Tags:     [docker.io/library/alpine:3]
Size:     8.317MB
Image Layers
├── ID: 010101010101 Size:     1MB
│   ├── ID: 020202020202 Size:     2MB
│   │   └── ID: 030303030303 Size:     3MB Top Layer of: [docker.io/library/alpine:3]
│   └── ID: 040404040404 Size:     4MB
└── ID: 050505050505 Size:     5MB
";
        assert_eq!(drawn(&tree), expected);
        tree.rows.clear();
        assert!(drawn(&tree).ends_with("\nNo Image Layers\n"));
    }
}
