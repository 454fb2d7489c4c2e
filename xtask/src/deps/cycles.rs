//! Import cycles of many files are refused: a reader of one file in such a cycle has to read them all.

use super::modules::{Arrows, Module, Modules};
use crate::finding::Finding;
use crate::workspace::Workspace;
use anyhow::{Context as _, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Largest cycle that is allowed: a type, its error and its constructor may know one another.
const MOST_FILES: usize = 3;

/// Maximum number of file names in a message about a cycle.
const MOST_NAMES: usize = 12;

/// Looks for cycles in all crates in `crates/`.
///
/// # Errors
/// A directory or a file cannot be read.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for package in workspace.packages.iter().filter(|package| package.is_engine()) {
        let files = sources(&workspace.root.join(&package.directory).join("src"))?;
        let files = files.iter().map(|(path, text)| (&**path, &**text));
        findings.extend(too_large(
            package.short_name(),
            &largest(&Modules::read(files).arrows()),
        ));
    }
    Ok(findings)
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

fn too_large(name: &str, cycle: &[Module]) -> Option<Finding> {
    let size = cycle.len();
    let message = format!(
        "{size} files of crates/{name} import one another in a cycle, and {MOST_FILES} may: cut one of its arrows ({})",
        listed(cycle)
    );
    (size > MOST_FILES).then(|| Finding::new(&format!("crates/{name}/src"), 1, message))
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
    fn a_cycle_of_four_files_is_refused() {
        let cycle = |files| (0..files).map(|n| vec![format!("m{n}")]).collect::<Vec<Module>>();
        assert!(too_large("engine", &cycle(3)).is_none());
        assert_eq!(
            too_large("engine", &cycle(4)).unwrap().to_string(),
            "crates/engine/src:1: 4 files of crates/engine import one another in a cycle, and 3 may: cut one of its arrows \
             (m0, m1, m2, m3)"
        );
    }
}
