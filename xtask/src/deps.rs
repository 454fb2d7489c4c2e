//! `cargo xtask deps`: checks the dependencies among crates against ARCHITECTURE.md.
//!
//! Arrows are compared in both directions, so neither the document nor the manifests can change alone. The same
//! file's table of external packages is compared with the manifests. `unsafe` and async are confined to their
//! crates. Within a crate, the files that import one another in a cycle are counted. The features of external packages are
//! compared, so that no package is compiled twice for the tests.

mod cycles;
mod features;
mod modules;
mod tokens;

use crate::architecture::{self, Arrow, PATH, Row};
use crate::finding::{Finding, report};
use crate::test::RUNNER;
use crate::workspace::{Package, Workspace};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};

/// The only crate that may contain `unsafe`, and so has lint tables of its own.
const UNSAFE_CRATE: &str = "sys";

/// The crates that may use async.
const ASYNC_CRATES: &[&str] = &["api", "registry"];

/// Packages that contain an async runtime, or are useless without one.
const ASYNC_PACKAGES: &[&str] = &[
    "async-std",
    "axum",
    "futures",
    "hyper",
    "reqwest",
    "smol",
    "tokio",
    "tokio-util",
];

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let markdown = workspace.text(PATH)?;
    let mut findings = compare_arrows(&architecture::arrows(&markdown)?, workspace);
    findings.extend(compare_packages(
        &architecture::dependencies(&markdown)?,
        workspace,
    ));
    findings.extend(cycles::check(workspace)?);
    findings.extend(features::check(RUNNER)?);
    findings.extend(misplaced_async(workspace));
    findings.extend(misplaced_lints(
        "Cargo.toml",
        &workspace.text("Cargo.toml")?,
        None,
    ));
    for package in &workspace.packages {
        let path = manifest(package);
        let text = workspace.text(&path)?;
        findings.extend(misplaced_lints(&path, &text, Some(package.short_name())));
    }
    report("deps", findings)
}

fn manifest(package: &Package) -> String {
    format!("{}/Cargo.toml", package.directory)
}

/// Compares the drawn arrows with the normal dependencies among the crates in `crates/`.
fn compare_arrows(drawn: &[Arrow], workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let real: BTreeMap<_, _> = (workspace.packages.iter())
        .filter(|package| package.is_engine())
        .map(|package| (package.short_name(), neighbours(package)))
        .collect();
    let block = drawn.first().map_or(1, |arrow| arrow.line);
    let rank: BTreeMap<_, _> = (0..).zip(drawn).map(|(n, arrow)| (&*arrow.from, n)).collect();
    for name in real.keys().filter(|name| !rank.contains_key(*name)) {
        let message = format!("crate {name} is not drawn: add `{name} -> …` to the deps block");
        findings.push(Finding::new(PATH, block, message));
    }
    for arrow in drawn {
        let from = &*arrow.from;
        let mut found = |message: String| findings.push(Finding::new(PATH, arrow.line, message));
        let Some(real) = real.get(from) else {
            found(format!(
                "{from} is drawn, but there is no crates/{from}: remove the line"
            ));
            continue;
        };
        let to: BTreeSet<_> = arrow.to.iter().map(String::as_str).collect();
        for extra in to.difference(real) {
            found(format!(
                "{from} -> {extra} is drawn, but not in crates/{from}/Cargo.toml: remove {extra} here"
            ));
        }
        for missing in real.difference(&to) {
            found(format!(
                "{from} -> {missing} is in crates/{from}/Cargo.toml, but not drawn: add {missing} here, if it may be"
            ));
        }
        for above in to.iter().filter(|to| rank.get(*to) < rank.get(from)) {
            if rank.contains_key(above) {
                found(format!(
                    "{from} -> {above} points up: arrows point down only, move the line of {above} below"
                ));
            }
        }
    }
    findings
}

/// Returns the crates of this workspace that a package depends on when it is shipped.
fn neighbours(package: &Package) -> BTreeSet<&str> {
    (package.dependencies.iter())
        .filter(|dependency| dependency.normal && !dependency.external)
        .map(|dependency| dependency.short_name())
        .collect()
}

/// Compares the table of external packages with the manifests of all members, dev and build dependencies included.
fn compare_packages(table: &[Row], workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    let first = table.first().map_or(1, |row| row.line);
    let mut used = BTreeSet::new();
    for (package, dependency) in external(workspace) {
        used.insert(dependency);
        let user = package.short_name();
        match table.iter().find(|row| row.name == dependency) {
            None => findings.push(Finding::new(
                PATH,
                first,
                format!(
                    "{dependency}, used by {user}, is not in the table: add a row that says why it is needed"
                ),
            )),
            Some(row) if !row.users.iter().any(|name| name == user) => findings.push(Finding::new(
                PATH,
                row.line,
                format!("{user} uses {dependency}, but is not in its \"where\": add it, if it may be"),
            )),
            Some(_) => {}
        }
    }
    for row in table.iter().filter(|row| !used.contains(&*row.name)) {
        let message = format!(
            "{} is in the table, but no member depends on it: remove it here",
            row.name
        );
        findings.push(Finding::new(PATH, row.line, message));
    }
    findings
}

/// Iterates over every use of an external package, as (user, name).
fn external(workspace: &Workspace) -> impl Iterator<Item = (&Package, &str)> {
    workspace.packages.iter().flat_map(|package| {
        (package.dependencies.iter())
            .filter(|dependency| dependency.external)
            .map(move |dependency| (package, &*dependency.name))
    })
}

fn misplaced_async(workspace: &Workspace) -> Vec<Finding> {
    external(workspace)
        .filter(|(package, name)| {
            ASYNC_PACKAGES.contains(name) && !ASYNC_CRATES.contains(&package.short_name())
        })
        .map(|(package, name)| {
            let allowed = ASYNC_CRATES.join(" and ");
            let message = format!("{name}: async lives in {allowed} only, the core is synchronous");
            Finding::new(&manifest(package), 1, message)
        })
        .collect()
}

/// Checks the lints of a manifest. `None` as the crate's name means the workspace's own manifest, which must forbid
/// what the members inherit.
fn misplaced_lints(path: &str, manifest: &str, name: Option<&str>) -> Option<Finding> {
    let (section, entry) = match name {
        None => ("[workspace.lints.rust]", "unsafe_code = \"forbid\""),
        Some(_) => ("[lints]", "workspace = true"),
    };
    let found = (manifest.lines().skip_while(|line| line.trim() != section))
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .any(|line| line.starts_with(entry));
    let message = match (name, found) {
        (Some(UNSAFE_CRATE), true) => {
            format!("{UNSAFE_CRATE} inherits the workspace's lints, which forbid unsafe: write its own")
        }
        (Some(UNSAFE_CRATE), false) | (_, true) => return None,
        (_, false) => format!("no `{entry}` in {section}: only {UNSAFE_CRATE} may contain unsafe"),
    };
    Some(Finding::new(path, 1, message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::Dependency;

    fn package(name: &str, dependencies: &[&str]) -> Package {
        let dependency = |name: &&str| Dependency {
            name: (*name).to_owned(),
            normal: true,
            external: !name.starts_with("tote-"),
        };
        Package {
            name: format!("tote-{name}"),
            directory: format!("crates/{name}"),
            dependencies: dependencies.iter().map(dependency).collect(),
        }
    }

    fn workspace(packages: Vec<Package>) -> Workspace {
        Workspace {
            root: "/".into(),
            target: "/".into(),
            packages,
        }
    }

    fn arrows(block: &str, workspace: &Workspace) -> Vec<String> {
        let drawn = architecture::arrows(&format!("```deps\n{block}\n```")).unwrap();
        compare_arrows(&drawn, workspace)
            .iter()
            .map(Finding::to_string)
            .collect()
    }

    #[test]
    fn arrows_must_agree_in_both_directions() {
        let workspace = workspace(vec![package("cli", &["tote-sys", "serde"]), package("sys", &[])]);
        assert!(arrows("cli -> sys\nsys ->", &workspace).is_empty());
        for (block, expected) in [
            ("cli ->\nsys ->", "ARCHITECTURE.md:2: cli -> sys is in crates/cli"),
            (
                "cli -> sys\nsys -> cli",
                "ARCHITECTURE.md:3: sys -> cli is drawn, but not in",
            ),
            (
                "cli -> sys spec\nsys ->",
                "ARCHITECTURE.md:2: cli -> spec is drawn, but not in",
            ),
            ("cli -> sys", "ARCHITECTURE.md:2: crate sys is not drawn"),
            (
                "cli -> sys\nsys ->\nvm -> sys",
                "ARCHITECTURE.md:4: vm is drawn, but there is no",
            ),
            ("sys ->\ncli -> sys", "ARCHITECTURE.md:3: cli -> sys points up"),
        ] {
            let findings = arrows(block, &workspace);
            assert!(
                findings.iter().any(|line| line.starts_with(expected)),
                "{findings:?}"
            );
        }
    }

    #[test]
    fn the_table_must_agree_with_the_manifests() {
        let workspace = workspace(vec![package("spec", &["serde", "tote-sys"])]);
        let row = |name: &str, user: &str| Row {
            name: name.to_owned(),
            users: vec![user.to_owned()],
            line: 9,
        };
        let findings = |table: &[Row]| -> Vec<_> {
            let findings = compare_packages(table, &workspace);
            findings.iter().map(Finding::to_string).collect()
        };
        assert!(findings(&[row("serde", "spec")]).is_empty());
        let wrong = findings(&[row("serde", "cli"), row("tokio", "api")]).join("\n");
        assert!(wrong.contains("spec uses serde, but is not in its"), "{wrong}");
        assert!(wrong.contains("tokio is in the table, but no member"), "{wrong}");
        let missing = findings(&[]).join("\n");
        assert!(
            missing.contains("serde, used by spec, is not in the table"),
            "{missing}"
        );
    }

    #[test]
    fn async_stays_at_the_edges() {
        let workspace = workspace(vec![
            package("api", &["tokio"]),
            package("runtime", &["serde", "tokio"]),
        ]);
        let findings = misplaced_async(&workspace);
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].path, "crates/runtime/Cargo.toml");
    }

    #[test]
    fn only_sys_has_lints_of_its_own() {
        let inheriting = "[package]\n\n[lints]\nworkspace = true\n";
        let own = "[lints.rust]\nunsafe_op_in_unsafe_fn = \"deny\"\n";
        for (name, manifest, fine) in [
            ("spec", inheriting, true),
            ("spec", own, false),
            ("sys", own, true),
            ("sys", inheriting, false),
            ("spec", "[lints]\n[x]\nworkspace = true\n", false),
        ] {
            assert_eq!(
                misplaced_lints("p", manifest, Some(name)).is_none(),
                fine,
                "{name} {manifest}"
            );
        }
        let forbids = "[workspace.lints.rust]\nunsafe_code = \"forbid\" # why\n";
        assert_eq!(misplaced_lints("Cargo.toml", forbids, None), None);
        assert!(misplaced_lints("Cargo.toml", "[workspace]\n", None).is_some());
    }
}
