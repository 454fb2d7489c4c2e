//! Comparison of state roots with the map of their files in `docs/state.md`.

use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Document with the map, the block that begins with [`BEGIN`].
const DOCUMENT: &str = include_str!("../../../docs/state.md");

const BEGIN: &str = "```layout\n";

fn block() -> &'static str {
    let block = DOCUMENT.split_once(BEGIN).map_or("", |(_, rest)| rest);
    block.split_once("```").map_or("", |(block, _)| block)
}

/// Returns the patterns of the map. Further lines of a description are indented.
fn patterns() -> impl Iterator<Item = &'static str> {
    block()
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
}

/// How a map explains a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Explained {
    No,
    /// A line names the path.
    Itself,
    /// A line names the path and all below it.
    WithAllBelow,
}

/// Line of the map: the names of its path, and what the line explains.
type Line = (Vec<&'static str>, Explained);

/// Returns the lines of the map, which are taken apart once: a run asks for many thousands of paths.
fn lines() -> &'static [Line] {
    static LINES: OnceLock<Vec<Line>> = OnceLock::new();
    LINES.get_or_init(|| {
        let line = |pattern: &'static str| match pattern.strip_suffix("/**") {
            Some(own) => (own.split('/').collect(), Explained::WithAllBelow),
            None => (
                pattern.trim_end_matches('/').split('/').collect(),
                Explained::Itself,
            ),
        };
        patterns().map(line).collect()
    })
}

fn explained(path: &str) -> Explained {
    let names: Vec<&str> = path.split('/').collect();
    let mut found = Explained::No;
    for (patterns, seen) in lines() {
        if patterns.len() == names.len()
            && found != Explained::WithAllBelow
            && patterns
                .iter()
                .zip(&names)
                .all(|(pattern, name)| fits(pattern, name))
        {
            found = *seen;
        }
    }
    found
}

/// True if the name is the pattern with a text for each word in capitals.
fn fits(pattern: &str, name: &str) -> bool {
    let is_word = |letter: char| letter.is_ascii_uppercase();
    let Some(start) = pattern.find(is_word) else {
        return pattern == name;
    };
    let (before, rest) = pattern.split_at(start);
    let Some(name) = name.strip_prefix(before) else {
        return false;
    };
    let length = rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
    let (word, after) = rest.split_at(length);
    (1..=name.len())
        .filter_map(|length| name.split_at_checked(length))
        .any(|(text, rest)| stands_for(word, text) && fits(after, rest))
}

/// True if a word in capitals can stand for the text.
fn stands_for(word: &str, text: &str) -> bool {
    let has_digits = |count: usize| {
        text.len() == count && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    match word {
        "ID" | "DIGEST" => has_digits(64),
        "TOOLS" => has_digits(64) || text == "host",
        "CHAIN" => has_digits(64) || text == "empty",
        "SHORT" => has_digits(12),
        "AB" => has_digits(2),
        "N" | "PID" => text.bytes().all(|byte| byte.is_ascii_digit()),
        "NAME" => !text.starts_with('.'),
        _ => true,
    }
}

/// Lists the patterns of the files that only their owner may read and write, which have mode 0600 in the map.
#[cfg(test)]
pub(crate) fn files_of_the_owner() -> impl Iterator<Item = &'static str> {
    block()
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            let pattern = words.next()?;
            (words.next() == Some("0600")).then_some(pattern)
        })
}

/// Lists the files and directories of a state root that fit a pattern of the map, which has to be in it.
pub(crate) fn matching(root: &Path, pattern: &str) -> Result<Vec<PathBuf>> {
    ensure!(
        patterns().any(|other| other == pattern),
        "the map has no {pattern}"
    );
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        let mut below = Vec::new();
        for dir in found {
            let entries = match fs::read_dir(&dir) {
                Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    continue;
                }
                entries => entries.with_context(|| format!("list {}", dir.display()))?,
            };
            for entry in entries {
                let entry = entry?;
                if fits(part, &entry.file_name().to_string_lossy()) {
                    below.push(entry.path());
                }
            }
        }
        found = below;
    }
    found.sort();
    Ok(found)
}

/// Lists the files and directories of a state root that no line of the map explains.
pub(crate) fn unexplained(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    walk(root, "", &mut found)?;
    found.sort();
    Ok(found)
}

fn walk(dir: &Path, path: &str, found: &mut Vec<PathBuf>) -> Result<()> {
    let fail = || format!("list {}", dir.display());
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.with_context(fail)?,
    };
    for entry in entries {
        let entry = entry.with_context(fail)?;
        let name = entry.file_name();
        let path = if path.is_empty() {
            name.to_string_lossy().into_owned()
        } else {
            format!("{path}/{}", name.to_string_lossy())
        };
        match explained(&path) {
            Explained::No => found.push(entry.path()),
            Explained::Itself if entry.file_type().is_ok_and(|kind| kind.is_dir()) => {
                walk(&entry.path(), &path, found)?;
            }
            Explained::Itself | Explained::WithAllBelow => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Explained, explained, fits, patterns, unexplained};
    use std::fs;

    #[test]
    fn words_in_capitals_stand_for_texts() {
        let id = "0123456789abcdef".repeat(4);
        for (pattern, name, does_fit) in [
            ("mnt", "mnt", true),
            ("mnt", "mnt2", false),
            ("ID", &*id, true),
            ("ID", "0123", false),
            ("ID.socket", &*format!("{id}.socket"), true),
            ("log.json.N", "log.json.12", true),
            ("log.json.N", "log.json.", false),
            ("log.json.N", "log.json.x", false),
            (".adding-PID-N", ".adding-12-3", true),
            (".adding-PID-N", ".adding-12", false),
            ("NAME", ".hidden", false),
            ("NAME.network", "a.b.network", true),
            ("NAME", "ä", true),
            ("CHAIN.erofs", "empty.erofs", true),
        ] {
            assert_eq!(fits(pattern, name), does_fit, "{pattern} {name}");
        }
    }

    #[test]
    fn the_map_has_each_path_once() {
        let mut all: Vec<_> = patterns().collect();
        assert!(all.len() > 100, "{all:?}");
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
    }

    #[test]
    fn paths() {
        let id = "a".repeat(64);
        for (path, expected) in [
            ("containers", Explained::Itself),
            (&*format!("containers/{id}"), Explained::Itself),
            (&*format!("containers/{id}/upper"), Explained::WithAllBelow),
            (&*format!("containers/{id}/nonsense"), Explained::No),
            ("containers/abc", Explained::No),
            ("nonsense", Explained::No),
        ] {
            assert_eq!(explained(path), expected, "{path}");
        }
    }

    #[test]
    fn a_foreign_file_is_found() {
        let root = tempfile::tempdir().unwrap();
        let container = root.path().join("containers").join("b".repeat(64));
        fs::create_dir_all(container.join("upper/anything")).unwrap();
        assert!(unexplained(root.path()).unwrap().is_empty());
        fs::write(container.join("nonsense"), "").unwrap();
        assert_eq!(unexplained(root.path()).unwrap(), [container.join("nonsense")]);
    }
}
