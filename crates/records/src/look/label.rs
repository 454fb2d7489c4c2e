//! Labels, as filters ask for them.

use std::collections::BTreeMap;

/// `KEY` or `KEY=VALUE`.
pub fn label(text: &str) -> (String, Option<String>) {
    match text.split_once('=') {
        Some((key, value)) => (key.to_owned(), Some(value.to_owned())),
        None => (text.to_owned(), None),
    }
}

/// Whether labels have that one.
pub fn has_label(labels: &BTreeMap<String, String>, key: &str, value: Option<&str>) -> bool {
    let found = labels.get(key);
    found.is_some_and(|found| value.is_none_or(|value| found == value))
}
