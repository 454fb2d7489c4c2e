//! Building a package and learning where cargo put its executable.

use crate::program::{cargo, read};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;

/// The package of the engine's one binary.
pub(crate) const ENGINE: &str = "tote-cli";

/// The profile of what is shipped.
pub(crate) const SHIPPED: &str = "dist";

/// Builds the profile of a package that is shipped, and returns the path of its executable.
///
/// The compiler optimises it as a whole, which takes minutes: `dist`, `hot` and everything that is measured or compared use it.
///
/// # Errors
/// Where the package is not in the workspace, does not compile, or has not exactly one executable.
pub(crate) fn shipped(workspace: &Workspace, package: &str) -> Result<PathBuf> {
    executable(workspace, package, SHIPPED)
}

/// Builds the release profile of a package, which is the one of `cargo run --release` and of the end-to-end tests.
///
/// # Errors
/// As [`shipped`].
pub(crate) fn release(workspace: &Workspace, package: &str) -> Result<PathBuf> {
    executable(workspace, package, "release")
}

/// Builds the development profile of a package, which has the points at which tests let tote die.
///
/// # Errors
/// As [`shipped`].
pub(crate) fn development(workspace: &Workspace, package: &str) -> Result<PathBuf> {
    executable(workspace, package, "dev")
}

fn executable(workspace: &Workspace, package: &str, profile: &str) -> Result<PathBuf> {
    if workspace.package(package).is_none() {
        bail!("the workspace has no package {package}: nothing to build");
    }
    let messages = read(
        cargo()
            .args(["build", "--profile", profile, "--package", package, "--bins"])
            .arg("--message-format=json-render-diagnostics"),
    )?;
    match executables(&messages)?.as_slice() {
        [path] => Ok(path.clone()),
        [] => bail!("package {package} has no executable"),
        several => bail!("package {package} has {} executables, not one", several.len()),
    }
}

/// The executables named by the messages of `cargo build --message-format=json`.
pub(crate) fn executables(messages: &str) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for line in messages.lines() {
        let message: Value =
            serde_json::from_str(line).with_context(|| format!("message of cargo build: {line}"))?;
        if let Some(path) = message.get("executable").and_then(Value::as_str) {
            paths.push(path.into());
        }
    }
    Ok(paths)
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
}
