//! The workspace as `cargo metadata` describes it.

use crate::program::{cargo, read};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;

/// The packages of this workspace and its directories.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Workspace {
    /// Directory of the root `Cargo.toml`, absolute.
    pub(crate) root: PathBuf,
    /// Directory where cargo builds, absolute.
    pub(crate) target: PathBuf,
    /// Members, sorted by directory.
    pub(crate) packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    /// Name in cargo, such as `tote-runtime`.
    pub(crate) name: String,
    /// Directory relative to the root, such as `crates/runtime`.
    pub(crate) directory: String,
    /// Dependencies of every kind, in the manifest's order.
    pub(crate) dependencies: Vec<Dependency>,
}

/// A line of a `[dependencies]` section, or of its dev and build forms.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package's name before any renaming.
    pub(crate) name: String,
    /// True if it is part of what is shipped: neither a dev nor a build dependency.
    pub(crate) normal: bool,
    /// True if it is outside the workspace.
    pub(crate) external: bool,
}

impl Workspace {
    /// Loads the workspace from `cargo metadata`.
    pub(crate) fn load() -> Result<Self> {
        let text = read(cargo().args(["metadata", "--no-deps", "--format-version", "1"]))?;
        Self::parse(&text).context("cargo metadata")
    }

    /// Parses the output of `cargo metadata --no-deps --format-version 1`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let metadata: Value = serde_json::from_str(text)?;
        let root = text_of(&metadata, "workspace_root")?;
        let mut packages = list_of(&metadata, "packages")?
            .iter()
            .map(|package| Package::read(package, &root))
            .collect::<Result<Vec<_>>>()?;
        packages.sort_by(|a, b| a.directory.cmp(&b.directory));
        Ok(Self {
            target: text_of(&metadata, "target_directory")?.into(),
            root: root.into(),
            packages,
        })
    }

    /// Finds the member of that name.
    pub(crate) fn package(&self, name: &str) -> Option<&Package> {
        self.packages.iter().find(|package| package.name == name)
    }

    /// Reads the text of a file, named relative to the root.
    pub(crate) fn text(&self, path: &str) -> Result<String> {
        std::fs::read_to_string(self.root.join(path)).with_context(|| path.to_owned())
    }
}

impl Package {
    fn read(package: &Value, root: &str) -> Result<Self> {
        let manifest = text_of(package, "manifest_path")?;
        let directory = manifest.strip_suffix("/Cargo.toml").unwrap_or(&manifest);
        let directory = directory.strip_prefix(root).unwrap_or(directory);
        Ok(Self {
            name: text_of(package, "name")?,
            directory: directory.trim_start_matches('/').to_owned(),
            dependencies: list_of(package, "dependencies")?
                .iter()
                .map(Dependency::read)
                .collect::<Result<_>>()?,
        })
    }

    /// Returns the name used in prose: that of the folder for `crates/…`, which is the package's without `tote-`.
    pub(crate) fn short_name(&self) -> &str {
        self.name.strip_prefix("tote-").unwrap_or(&self.name)
    }

    /// True for the engine's own crates, those in `crates/`.
    pub(crate) fn is_engine(&self) -> bool {
        self.directory.starts_with("crates/")
    }
}

impl Dependency {
    fn read(dependency: &Value) -> Result<Self> {
        Ok(Self {
            name: text_of(dependency, "name")?,
            normal: dependency.get("kind").is_none_or(Value::is_null),
            external: dependency.get("path").is_none_or(Value::is_null),
        })
    }

    /// Returns the name as in [`Package::short_name`].
    pub(crate) fn short_name(&self) -> &str {
        self.name.strip_prefix("tote-").unwrap_or(&self.name)
    }
}

fn text_of(value: &Value, key: &str) -> Result<String> {
    let text = value.get(key).and_then(Value::as_str);
    Ok(text.with_context(|| format!("no string {key}"))?.to_owned())
}

fn list_of<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    let list = value.get(key).and_then(Value::as_array);
    list.with_context(|| format!("no list {key}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata() {
        let text = r#"{"workspace_root":"/w","target_directory":"/t","packages":[
            {"name":"xtask","manifest_path":"/w/xtask/Cargo.toml","dependencies":[]},
            {"name":"tote-spec","manifest_path":"/w/crates/spec/Cargo.toml","dependencies":[
                {"name":"serde","kind":null,"source":"registry"},
                {"name":"tote-testkit","kind":"dev","path":"/w/crates/testkit"}]}]}"#;
        let workspace = Workspace::parse(text).unwrap();
        assert_eq!(workspace.target, PathBuf::from("/t"));
        let spec = workspace.package("tote-spec").unwrap();
        assert_eq!((spec.short_name(), &*spec.directory), ("spec", "crates/spec"));
        assert!(spec.is_engine());
        assert!(!workspace.package("xtask").unwrap().is_engine());
        assert!(spec.dependencies[0].normal && spec.dependencies[0].external);
        assert!(!spec.dependencies[1].normal && !spec.dependencies[1].external);
    }

    #[test]
    fn what_is_missing_is_named() {
        for (text, missing) in [
            ("{}", "workspace_root"),
            (r#"{"workspace_root":"/"}"#, "packages"),
        ] {
            let error = Workspace::parse(text).unwrap_err().to_string();
            assert!(error.contains(missing), "{error}");
        }
    }
}
