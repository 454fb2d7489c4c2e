//! Import cycles of many files are refused: a reader of one file in such a cycle has to read them all.
//!
//! The crates that had a larger cycle before this check existed are listed in a block of ARCHITECTURE.md with its
//! size. A row can only shrink: a crate whose cycle is smaller than its row fails as well.

use super::modules::{Arrows, Module, Modules};
use crate::architecture::{Cycle, PATH};
use crate::finding::Finding;
use crate::workspace::{Package, Workspace};
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Largest cycle that needs no row: a type, its error and its constructor may know one another.
const MOST_FILES: usize = 3;

/// Maximum number of file names in a message about a cycle.
const MOST_NAMES: usize = 12;

/// Compares the cycles of all crates in `crates/` with the rows.
///
/// # Errors
/// A directory or a file cannot be read.
pub(crate) fn check(rows: &[Cycle], workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut cycles = BTreeMap::new();
    for package in workspace.packages.iter().filter(|package| package.is_engine()) {
        let files = sources(&workspace.root.join(&package.directory).join("src"))?;
        let files = files.iter().map(|(path, text)| (&**path, &**text));
        cycles.insert(short_name(package), largest(&Modules::read(files).arrows()));
    }
    Ok(compare(rows, &cycles))
}

fn short_name(package: &Package) -> String {
    package.short_name().to_owned()
}

/// Reads the Rust files below a directory: their paths in it, and their texts.
fn sources(src: &Path) -> Result<Vec<(String, String)>> {
    let mut files = Vec::new();
    let mut directories = vec![src.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = std::fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
                let below = path.strip_prefix(src).unwrap_or(&path);
                files.push((below.display().to_string(), text));
            }
        }
    }
    Ok(files)
}

fn compare(rows: &[Cycle], cycles: &BTreeMap<String, Vec<Module>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let known = |name: &str| rows.iter().find(|row| row.name == name);
    for row in rows.iter().filter(|row| !cycles.contains_key(&row.name)) {
        let message = format!(
            "{0} has a row of cycles, but there is no crates/{0}: remove the row",
            row.name
        );
        findings.push(Finding::new(PATH, row.line, message));
    }
    for (name, cycle) in cycles {
        let (size, row) = (cycle.len(), known(name));
        let allowed = row.map_or(MOST_FILES, |row| row.files);
        if size > allowed {
            let message = format!(
                "{size} files of crates/{name} import one another in a cycle, and {allowed} may: cut one of its arrows \
                 ({})",
                listed(cycle)
            );
            findings.push(Finding::new(&format!("crates/{name}/src"), 1, message));
        } else if let Some(row) = row.filter(|_| size < allowed) {
            let message = match size {
                0..=MOST_FILES => format!("the largest cycle of {name} has {size} files: remove the row"),
                _ => format!("the largest cycle of {name} has {size} files: lower the row to that"),
            };
            findings.push(Finding::new(PATH, row.line, message));
        } else if let Some(row) = row.filter(|row| row.files <= MOST_FILES) {
            let message = format!("{name} needs no row: a cycle of {MOST_FILES} files is allowed anywhere");
            findings.push(Finding::new(PATH, row.line, message));
        }
    }
    findings
}

fn listed(cycle: &[Module]) -> String {
    let names: Vec<_> = (cycle.iter().take(MOST_NAMES))
        .map(|module| {
            if module.is_empty() {
                "the root".to_owned()
            } else {
                module.join("::")
            }
        })
        .collect();
    let more = if cycle.len() > MOST_NAMES { ", …" } else { "" };
    format!("{}{more}", names.join(", "))
}

/// Finds the largest set of modules in which each one leads to all others; empty without a cycle.
fn largest(arrows: &Arrows) -> Vec<Module> {
    let mut rest: BTreeSet<&Module> = arrows.keys().collect();
    let back = reversed(arrows);
    let mut largest = BTreeSet::new();
    while let Some(first) = rest.first().copied() {
        let to = |module: &Module| arrows.get(module).into_iter().flatten().collect::<Vec<_>>();
        let from = |module: &Module| back.get(module).cloned().unwrap_or_default();
        let ahead = reached(first, to);
        let behind = reached(first, from);
        let cycle: BTreeSet<_> = ahead.intersection(&behind).copied().collect();
        rest.retain(|module| !cycle.contains(module));
        if cycle.len() > 1 && cycle.len() > largest.len() {
            largest = cycle;
        }
    }
    largest.into_iter().cloned().collect()
}

fn reversed(arrows: &Arrows) -> BTreeMap<&Module, Vec<&Module>> {
    let mut back: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (from, to) in arrows {
        for to in to {
            back.entry(to).or_default().push(from);
        }
    }
    back
}

/// Returns a module and all modules that it leads to.
fn reached<'a>(first: &'a Module, next: impl Fn(&Module) -> Vec<&'a Module>) -> BTreeSet<&'a Module> {
    let mut seen = BTreeSet::from([first]);
    let mut open = vec![first];
    while let Some(module) = open.pop() {
        open.extend(next(module).into_iter().filter(|module| seen.insert(module)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds arrows from `ab`, `bc`: one letter for each module.
    fn arrows(pairs: &[&str]) -> Arrows {
        let mut arrows = Arrows::new();
        for pair in pairs {
            let (from, to) = pair.split_at(1);
            arrows.entry(vec![to.to_owned()]).or_default();
            arrows
                .entry(vec![from.to_owned()])
                .or_default()
                .insert(vec![to.to_owned()]);
        }
        arrows
    }

    fn names(cycle: &[Module]) -> String {
        cycle.iter().map(|module| module.join("::")).collect()
    }

    #[test]
    fn the_largest_cycle_is_found() {
        assert_eq!(names(&largest(&arrows(&["ab", "bc", "cd", "ad"]))), "");
        assert_eq!(
            names(&largest(&arrows(&["ab", "ba", "bc", "cd", "de", "ec", "ef"]))),
            "cde"
        );
        assert_eq!(names(&largest(&arrows(&["ab", "bc", "ca", "cd", "da"]))), "abcd");
    }

    #[test]
    fn a_row_can_only_shrink() {
        let cycle = |files| (0..files).map(|n| vec![format!("m{n}")]).collect::<Vec<Module>>();
        let found = |rows: &[(&str, usize)], files| {
            let row = |(name, files): &(&str, usize)| Cycle {
                name: (*name).to_owned(),
                files: *files,
                line: 7,
            };
            let rows: Vec<_> = rows.iter().map(row).collect();
            let cycles = BTreeMap::from([("engine".to_owned(), cycle(files))]);
            let findings = compare(&rows, &cycles);
            findings
                .iter()
                .map(Finding::to_string)
                .collect::<Vec<_>>()
                .join("\n")
        };
        assert_eq!(found(&[], 3), "");
        assert_eq!(found(&[("engine", 9)], 9), "");
        for (rows, files, words) in [
            (
                vec![],
                4,
                "crates/engine/src:1: 4 files of crates/engine import one another in a cycle, and 3 may",
            ),
            (
                vec![("engine", 9)],
                10,
                "and 9 may: cut one of its arrows (m0, m1",
            ),
            (
                vec![("engine", 9)],
                8,
                "ARCHITECTURE.md:7: the largest cycle of engine has 8 files: lower the row",
            ),
            (vec![("engine", 9)], 2, "has 2 files: remove the row"),
            (vec![("engine", 2)], 2, "engine needs no row"),
            (vec![("vm", 9)], 0, "there is no crates/vm: remove the row"),
        ] {
            let findings = found(&rows, files);
            assert!(findings.contains(words), "{findings}");
        }
    }
}
