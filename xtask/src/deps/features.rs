//! Features of external packages: the same for the engine alone as for the tests of the workspace.
//!
//! Cargo compiles a package once for each set of its features, and everything above it too. If the tests of another crate
//! ask for one feature more of a package, then a build of the engine for the end-to-end tests compiles nearly all crates
//! a second time, which takes minutes.

use crate::build::ENGINE;
use crate::finding::Finding;
use crate::program::{cargo, read};
use anyhow::Result;
use std::collections::BTreeMap;

const PATH: &str = "Cargo.toml";

/// Lists the external packages that the engine alone has with other features than the tests of the workspace.
///
/// # Errors
/// cargo cannot list the packages.
pub(super) fn check(runner: &str) -> Result<Vec<Finding>> {
    let alone = tree(&["--package", ENGINE, "--edges", "normal"])?;
    let tests = tree(&["--workspace", "--exclude", runner, "--edges", "normal,dev"])?;
    Ok(compare(&features(&alone), &features(&tests)))
}

fn tree(which: &[&str]) -> Result<String> {
    read(
        cargo()
            .args(["tree", "--prefix", "none", "--format", "{p}|{f}"])
            .args(which),
    )
}

/// Parses lines of a package and its features. A package that is listed several times has several sets.
fn features(tree: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut packages: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (package, features) in tree.lines().filter_map(|line| line.split_once('|')) {
        let features = features.trim_end_matches(" (*)");
        let sets = packages.entry(package).or_default();
        // The packages of the workspace have a directory behind their version.
        if !package.contains('/') && !sets.contains(&features) {
            sets.push(features);
        }
    }
    packages
}

fn compare(alone: &BTreeMap<&str, Vec<&str>>, tests: &BTreeMap<&str, Vec<&str>>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (package, sets) in alone {
        let known = tests.get(package).map_or(&[][..], Vec::as_slice);
        for set in sets.iter().filter(|set| !known.contains(set)) {
            let message = format!(
                "the engine has {package} with the features [{set}], the tests have it with [{}], so both compile it \
                 and all crates above it: name the tests' features in workspace.dependencies",
                known.join("] or [")
            );
            findings.push(Finding::new(PATH, 1, message));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_feature_more_is_found() {
        let alone = features("tote-sys v0.1.0 (/src/sys)|\nlibc v0.2|default,std\nsha2 v0.11|\n");
        let tests = features("libc v0.2|default,extra,std (*)\nsha2 v0.11|\n");
        let findings = compare(&alone, &tests);
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(
            findings[0]
                .message
                .contains("libc v0.2 with the features [default,std]")
        );
        assert_eq!(compare(&alone, &alone), []);
    }
}
