//! The images of the set: trees made by mmdebstrap(1), and the difference between a tree and the base as a layer.

use anyhow::{Context, Result};
use bench::apparatus::{seal, succeed};
use bench::stage::find_program;
use std::collections::BTreeSet;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const SUITE: &str = "bookworm";

/// Latest time of all files, so that files of one package are equal in two trees.
const EPOCH: &str = "1700000000";

/// Returns the archive of each image in `directory`; makes missing ones. Trees are removed once all archives exist.
pub(super) fn archives(directory: &Path, images: &[(&str, Option<&str>)]) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(directory).with_context(|| format!("make {}", directory.display()))?;
    let archives: Vec<PathBuf> = images
        .iter()
        .map(|(name, _)| directory.join(format!("{name}.tar")))
        .collect();
    if archives.iter().all(|archive| archive.exists()) {
        return Ok(archives);
    }
    let base = tree(directory, "base", None)?;
    for ((name, package), archive) in images.iter().zip(&archives) {
        if archive.exists() {
            continue;
        }
        let work = directory.join(format!("work-{name}"));
        fs::create_dir_all(&work).with_context(|| format!("make {}", work.display()))?;
        let mut layers = vec![work.join("base.tar")];
        pack(&base, &everything(&base)?, &layers[0], &work)?;
        if package.is_some() {
            let tree = tree(directory, name, *package)?;
            let layer = work.join("own.tar");
            difference(&base, &tree, &layer, &work)?;
            layers.push(layer);
        }
        seal(&layers, &format!("bench/{name}:1"), &work, archive)?;
        fs::remove_dir_all(&work).with_context(|| format!("remove {}", work.display()))?;
    }
    for (name, _) in images {
        let tree = directory.join(format!("tree-{name}"));
        fs::remove_dir_all(&tree).with_context(|| format!("remove {}", tree.display()))?;
    }
    Ok(archives)
}

/// Makes a root file system with `package`, from the mirror that the host uses.
fn tree(directory: &Path, name: &str, package: Option<&str>) -> Result<PathBuf> {
    let tree = directory.join(format!("tree-{name}"));
    if tree.exists() {
        return Ok(tree);
    }
    let partial = directory.join(format!("partial-{name}"));
    if partial.exists() {
        fs::remove_dir_all(&partial).with_context(|| format!("remove {}", partial.display()))?;
    }
    let mmdebstrap = find_program("mmdebstrap").context("needs mmdebstrap")?;
    let mut command = Command::new(mmdebstrap);
    command
        .env("SOURCE_DATE_EPOCH", EPOCH)
        .args([
            "--quiet",
            "--mode=root",
            "--variant=minbase",
            "--format=directory",
        ])
        .args(package.map(|package| format!("--include={package}")))
        .arg(SUITE)
        .arg(&partial);
    succeed(&mut command)?;
    fs::rename(&partial, &tree).with_context(|| format!("make {}", tree.display()))?;
    Ok(tree)
}

/// Lists all paths below `root`, except those of the kernel, relative and sorted by name.
fn everything(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        let failed = || format!("read {}", directory.display());
        for entry in fs::read_dir(&directory).with_context(failed)? {
            let path = entry.with_context(failed)?.path();
            let inside = path.strip_prefix(root).context("stay below the root")?;
            let is_kernels = ["dev", "proc", "sys"]
                .iter()
                .any(|top| inside.starts_with(top) && inside != Path::new(top));
            if is_kernels {
                continue;
            }
            found.insert(inside.to_owned());
            if look(&path)?.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(found)
}

/// Writes a layer with the paths that `tree` has but `base` lacks or has otherwise, and whiteouts for paths that
/// only `base` has.
fn difference(base: &Path, tree: &Path, layer: &Path, work: &Path) -> Result<()> {
    let (before, after) = (everything(base)?, everything(tree)?);
    let mut changed = BTreeSet::new();
    for path in &after {
        if !before.contains(path) || is_other(&base.join(path), &tree.join(path))? {
            changed.insert(path.clone());
        }
    }
    pack(tree, &changed, layer, work)?;
    let gone: BTreeSet<&PathBuf> = before.difference(&after).collect();
    let marks = work.join("marks");
    let mut names = BTreeSet::new();
    for path in gone {
        let parent = path.parent().unwrap_or(Path::new(""));
        if !after.contains(parent) && parent != Path::new("") {
            continue;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mark = parent.join(format!(".wh.{name}"));
        fs::create_dir_all(marks.join(parent)).with_context(|| format!("make {}", marks.display()))?;
        fs::write(marks.join(&mark), "").with_context(|| format!("make {}", mark.display()))?;
        names.insert(mark);
    }
    if names.is_empty() {
        return Ok(());
    }
    tar("--append", &marks, &names, layer, work)
}

fn is_other(one: &Path, other: &Path) -> Result<bool> {
    let (a, b) = (look(one)?, look(other)?);
    let kind = |file: &Metadata| (file.mode(), file.uid(), file.gid(), file.rdev());
    if kind(&a) != kind(&b) {
        return Ok(true);
    }
    if a.is_symlink() {
        let target = |path: &Path| fs::read_link(path).with_context(|| format!("read {}", path.display()));
        return Ok(target(one)? != target(other)?);
    }
    if !a.is_file() {
        return Ok(false);
    }
    let read = |path: &Path| fs::read(path).with_context(|| format!("read {}", path.display()));
    Ok(a.size() != b.size() || a.mtime() != b.mtime() || read(one)? != read(other)?)
}

fn look(path: &Path) -> Result<Metadata> {
    fs::symlink_metadata(path).with_context(|| format!("look at {}", path.display()))
}

fn pack(root: &Path, paths: &BTreeSet<PathBuf>, layer: &Path, work: &Path) -> Result<()> {
    tar("--create", root, paths, layer, work)
}

fn tar(mode: &str, root: &Path, paths: &BTreeSet<PathBuf>, layer: &Path, work: &Path) -> Result<()> {
    let list = work.join("list");
    let mut text = Vec::new();
    for path in paths {
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(0);
    }
    fs::write(&list, text).with_context(|| format!("write {}", list.display()))?;
    let mut command = Command::new("tar");
    command
        .args([mode, "--numeric-owner", "--no-recursion", "--null", "--file"])
        .arg(layer)
        .arg("--directory")
        .arg(root)
        .arg("--files-from")
        .arg(&list);
    succeed(&mut command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_has_what_differs_and_marks_what_is_gone() {
        let scratch = std::env::temp_dir().join(format!("tote-bench-tree-{}", std::process::id()));
        let (base, tree) = (scratch.join("base"), scratch.join("tree"));
        for root in [&base, &tree] {
            fs::create_dir_all(root.join("etc")).unwrap();
            fs::create_dir_all(root.join("proc/self")).unwrap();
            fs::write(root.join("etc/same"), "x").unwrap();
        }
        fs::write(base.join("etc/changed"), "old").unwrap();
        fs::write(tree.join("etc/changed"), "newer").unwrap();
        fs::write(base.join("etc/gone"), "").unwrap();
        fs::create_dir(tree.join("new")).unwrap();
        let times = Command::new("touch")
            .args(["-d", "@5"])
            .args([base.join("etc/same"), tree.join("etc/same")])
            .status();
        assert!(times.unwrap().success());
        let layer = scratch.join("layer.tar");
        difference(&base, &tree, &layer, &scratch).unwrap();
        let listed = Command::new("tar").arg("-tf").arg(&layer).output().unwrap();
        assert_eq!(
            String::from_utf8_lossy(&listed.stdout),
            "etc/changed\nnew/\netc/.wh.gone\n"
        );
        fs::remove_dir_all(&scratch).unwrap();
    }
}
