//! The lists of a report.

use std::collections::BTreeMap;
use tote_needs::{Needs, Node, Tree};
use tote_slim::{FileFate, Report};

/// Sizes of regular files in bytes; further names of a file have 0.
pub(super) type Sizes = BTreeMap<Box<[u8]>, u64>;

/// Makes the report of what stays and what does not.
pub(super) fn removed(tree: &Tree, sizes: &Sizes, found: &Needs) -> Report {
    let mut report = Report::default();
    let shown = |path: &[u8]| format!("/{}", String::from_utf8_lossy(path));
    for (path, node) in tree.iter() {
        let size = sizes.get(path).copied().unwrap_or(0);
        let is_file = matches!(node, Node::File(_));
        let link = match node {
            Node::Link(target) => String::from_utf8_lossy(target).into_owned(),
            _ => String::new(),
        };
        report.files_before += u64::from(is_file);
        if let Some(reason) = found.kept.get(path) {
            report.files_after += u64::from(is_file);
            report.kept.push(FileFate {
                path: shown(path),
                size,
                link,
                kind: reason.word().to_owned(),
                reason: reason.to_string(),
            });
        } else if *node != Node::Directory {
            report.removed.push(FileFate {
                path: shown(path),
                size,
                link,
                ..FileFate::default()
            });
        }
    }
    let missing = found.missing.iter();
    report.missing = missing
        .map(|(name, by)| (String::from_utf8_lossy(name).into_owned(), shown(by)))
        .collect();
    report
}
