//! Building a package, and finding the executable that cargo made.

use crate::musl;
use crate::program::{cargo, read};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Package of the engine's only binary.
pub(crate) const ENGINE: &str = "tote-cli";

/// Package of the comparison for everyone, which is shipped beside the engine.
pub(crate) const COMPARISON: &str = "compare";

/// Profile of the shipped binary.
pub(crate) const SHIPPED: &str = "dist";

/// Builds a package in the shipped profile, with [`musl`] if it is there, and returns the path of its executable.
///
/// The compiler optimises the whole program, which takes minutes: `dist`, `hot` and everything that is measured or
/// compared use it.
///
/// # Errors
/// The package is not in the workspace, does not compile, or does not have exactly one executable.
pub(crate) fn shipped(workspace: &Workspace, package: &str) -> Result<PathBuf> {
    executable(
        workspace,
        package,
        &[&["--profile", SHIPPED][..], &libc(musl::target()?.as_deref())].concat(),
    )
}

/// Returns the options of cargo for that target, or for the host.
pub(crate) fn libc(target: Option<&str>) -> Vec<&str> {
    target
        .into_iter()
        .flat_map(|target| ["--target", target])
        .collect()
}

/// Builds a package in the release profile, which `cargo run --release` uses.
///
/// # Errors
/// Those of [`shipped`].
pub(crate) fn release(workspace: &Workspace, package: &str) -> Result<PathBuf> {
    executable(workspace, package, &["--profile", "release"])
}

/// Builds a package in the development profile, which the tests use, and which has the points at which they let tote die.
///
/// # Errors
/// Those of [`shipped`].
pub(crate) fn development(workspace: &Workspace, package: &str) -> Result<PathBuf> {
    executable(workspace, package, &["--profile", "dev"])
}

fn executable(workspace: &Workspace, package: &str, profile: &[&str]) -> Result<PathBuf> {
    if workspace.package(package).is_none() {
        bail!("the workspace has no package {package}: nothing to build");
    }
    let messages = read(
        cargo()
            .arg("build")
            .args(profile)
            .args(["--package", package, "--bins"])
            .arg("--message-format=json-render-diagnostics"),
    )?;
    match executables(&messages)?.as_slice() {
        [path] => Ok(path.clone()),
        [] => bail!("package {package} has no executable"),
        several => bail!("package {package} has {} executables, not one", several.len()),
    }
}

/// Parses the messages of `cargo build --message-format=json`; returns the executables that they name.
pub(crate) fn executables(messages: &str) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for message in parsed(messages) {
        if let Some(path) = message?.get("executable").and_then(Value::as_str) {
            paths.push(path.into());
        }
    }
    Ok(paths)
}

/// Parses the messages of cargo, which are lines of JSON.
fn parsed(messages: &str) -> impl Iterator<Item = Result<Value>> {
    messages
        .lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("message of cargo: {line}")))
}

/// A program of unit tests or of a crate's integration tests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TestProgram {
    /// Crate and kind, for people.
    pub(crate) name: String,
    pub(crate) executable: PathBuf,
    /// The package's directory, in which cargo runs its tests.
    pub(crate) directory: PathBuf,
}

/// Parses the messages of `cargo test --no-run --message-format=json`; returns the programs that have tests.
pub(crate) fn test_programs(messages: &str) -> Result<Vec<TestProgram>> {
    let mut programs = Vec::new();
    for message in parsed(messages) {
        let message = message?;
        let text = |path: &str| message.pointer(path).and_then(Value::as_str);
        // Programs that integration tests start are built with them.
        if message.pointer("/profile/test") != Some(&Value::Bool(true)) {
            continue;
        }
        if let (Some(executable), Some(manifest)) = (text("/executable"), text("/manifest_path")) {
            let directory = Path::new(manifest).parent().unwrap_or(Path::new("/"));
            let source = Path::new(text("/target/src_path").unwrap_or(executable));
            programs.push(TestProgram {
                name: format!(
                    "{} of {}",
                    source.strip_prefix(directory).unwrap_or(source).display(),
                    directory.display()
                ),
                executable: executable.into(),
                directory: directory.into(),
            });
        }
    }
    Ok(programs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executables_count() {
        let messages = r#"{"reason":"compiler-artifact","executable":null}
{"reason":"compiler-artifact","executable":"/t/release/tote"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executables(messages).unwrap(), [PathBuf::from("/t/release/tote")]);
        executables("not json").unwrap_err();
    }

    #[test]
    fn the_shipped_build_optimises_what_the_release_build_leaves_out() {
        let manifest = include_str!("../../Cargo.toml");
        let (release, shipped) = manifest.split_once("[profile.dist.package]").unwrap();
        let left_out: Vec<_> = release
            .lines()
            .filter_map(|line| line.strip_suffix(".opt-level = 0"))
            .collect();
        assert!(!left_out.is_empty());
        for package in left_out {
            assert!(
                shipped
                    .lines()
                    .any(|line| line == format!("{package}.opt-level = 3")),
                "{package}: a profile has the settings of that which it inherits from"
            );
        }
    }

    #[test]
    fn programs_without_tests_are_left_out() {
        let messages = r#"{"reason":"compiler-artifact","profile":{"test":false},"executable":"/t/debug/a","manifest_path":"/w/a/Cargo.toml"}
{"reason":"compiler-artifact","profile":{"test":true},"executable":"/t/debug/deps/a-1","manifest_path":"/w/a/Cargo.toml","target":{"src_path":"/w/a/tests/b.rs"}}
{"reason":"compiler-artifact","profile":{"test":true},"executable":null,"manifest_path":"/w/a/Cargo.toml"}
{"reason":"build-finished","success":true}"#;
        let found = TestProgram {
            name: "tests/b.rs of /w/a".to_owned(),
            executable: "/t/debug/deps/a-1".into(),
            directory: "/w/a".into(),
        };
        assert_eq!(test_programs(messages).unwrap(), [found]);
        test_programs("not json").unwrap_err();
    }
}
