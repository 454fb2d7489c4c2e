//! Names of types and files must say what a thing is.

use super::source::{Source, is_word};
use crate::finding::Finding;

/// Words that fit everything, and so name nothing.
const BANNED: &[&str] = &[
    "Manager", "Helper", "Helpers", "Util", "Utils", "Common", "Inner", "Impl", "Handler", "Info", "Data",
];

const KEYWORDS: &[&str] = &["struct", "enum", "union", "trait", "type", "mod"];

/// Finds banned words in the path of a Rust file.
pub(super) fn of_file(path: &str) -> Option<Finding> {
    let stem = path.strip_suffix(".rs")?;
    let word = stem.split(['/', '_', '-']).find_map(banned)?;
    let message = format!("{word} in a file's name, a word that names nothing: use the field's own");
    Some(Finding::new(path, 1, message))
}

/// Finds banned words in the names of types and modules that a text defines.
pub(super) fn of_types(path: &str, source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in (1..).zip(source.code.lines()) {
        let mut words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            if !KEYWORDS.contains(&word) {
                continue;
            }
            let Some(name) = words.next() else { break };
            if let Some(word) = split(name).into_iter().find_map(banned) {
                let message = format!("{word} in {name}, a word that names nothing: use the field's own");
                findings.push(Finding::new(path, line, message));
            }
        }
    }
    findings
}

fn banned(word: &str) -> Option<&'static str> {
    BANNED
        .iter()
        .copied()
        .find(|banned| banned.eq_ignore_ascii_case(word))
}

/// Splits `CamelCase`, `HTTPServer` and `snake_case` into words.
fn split(name: &str) -> Vec<&str> {
    let bytes = name.as_bytes();
    let mut words = Vec::new();
    let mut start = 0;
    for at in 1..bytes.len() {
        let (before, here) = (bytes[at - 1], bytes[at]);
        let after = bytes.get(at + 1).copied().unwrap_or(b'A');
        let capital =
            here.is_ascii_uppercase() && (!before.is_ascii_uppercase() || after.is_ascii_lowercase());
        if capital || before == b'_' {
            words.push(name[start..at].trim_matches('_'));
            start = at;
        }
    }
    words.push(name[start..].trim_matches('_'));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn camel_case_is_split_into_words() {
        for (name, words) in [
            ("CgroupInfo", &["Cgroup", "Info"][..]),
            ("HTTPData", &["HTTP", "Data"]),
            ("mount_utils", &["mount", "utils"]),
            ("Metadata", &["Metadata"]),
            ("IO", &["IO"]),
            ("X", &["X"]),
        ] {
            assert_eq!(split(name), words);
        }
    }

    #[test]
    fn types() {
        for (text, found) in [
            ("pub struct CgroupManager;", 1),
            ("enum LayerInfo<T> {}", 1),
            ("type Data = u8; trait Handler {}", 2),
            ("mod utils { }", 1),
            ("struct Metadata; struct Information; fn info() {}", 0),
            ("// struct Helper\nlet s = \"struct Helper\";", 0),
            ("use x::FooHandler;", 0),
        ] {
            assert_eq!(of_types("a.rs", &Source::parse(text)).len(), found, "{text}");
        }
    }

    #[test]
    fn files() {
        for path in [
            "crates/x/src/utils.rs",
            "tests/common/mod.rs",
            "src/mount_helper.rs",
        ] {
            assert!(of_file(path).is_some(), "{path}");
        }
        for path in ["src/metadata.rs", "src/data.md", "src/mountinfo.rs"] {
            assert!(of_file(path).is_none(), "{path}");
        }
    }
}
