//! `cargo xtask dist`: builds the shipped binary, tries it, and builds `tote-bench` to be beside it.

use crate::build::{COMPARISON, ENGINE, release, shipped};
use crate::elf;
use crate::musl;
use crate::program::{program, read};
use crate::test;
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    test::prepare_shipped()?;
    musl::prepare()?;
    let shipped = engine(workspace)?;
    let bytes = std::fs::read(&shipped).with_context(|| format!("read {}", shipped.display()))?;
    if let Some(linker) = elf::interpreter(&bytes).with_context(|| shipped.display().to_string())? {
        bail!("{} is not static: it asks for {linker}", shipped.display());
    }
    test::of_shipped(workspace, &shipped)?.verdict()?;
    // The comparison waits for the programs that it measures, so nothing is gained by optimising it as a whole.
    let comparison = release(workspace, COMPARISON)?;
    let beside = directory(workspace, "")?.join("tote-bench");
    std::fs::copy(&comparison, &beside).with_context(|| format!("copy {}", comparison.display()))?;
    let sum = read(program("sha256sum").arg("--").arg(&shipped))?;
    let sum = sum.split_whitespace().next().unwrap_or_default();
    println!("{}", shipped.display());
    println!("size    {} bytes", bytes.len());
    println!(
        "linkage static, with {}",
        musl::target()?.map_or("glibc", |_| "musl")
    );
    println!("sha256  {sum}");
    Ok(())
}

/// Builds the shipped binary, and returns the path of a copy of it in `target/dist`.
///
/// Only the copy is measured. The linker writes its file through a mapping of it, by which the kernel has that file in single pages; a
/// copied one, as users have it, is there in larger pieces, and starts sooner.
pub(crate) fn engine(workspace: &Workspace) -> Result<PathBuf> {
    let built = shipped(workspace, ENGINE)?;
    let copy = directory(workspace, "")?.join("tote");
    std::fs::copy(&built, &copy).with_context(|| format!("copy {}", built.display()))?;
    Ok(copy)
}

/// Returns a directory below `target/dist`, and creates it if it is missing.
pub(crate) fn directory(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let path = workspace.target.join("dist").join(name);
    std::fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
    Ok(path)
}
