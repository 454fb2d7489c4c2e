//! `cargo xtask hot`: which functions lie beside each other in the binary that is shipped.
//!
//! Of the binary's code, a start of a container needs less than a tenth, and if that lies scattered, a start maps half
//! of the binary. So the linker is told what a start goes through: a script for it, `crates/cli/hot.ld`, written from what
//! the commands did, one instruction at a time. To write it again after larger changes saves memory; nothing else
//! depends on it.

mod map;
mod order;
mod scene;

use crate::build::{ENGINE, SHIPPED, executables};
use crate::program::{cargo, program, read, succeed};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use scene::Scene;
use std::path::{Path, PathBuf};

/// What is written, relative to the workspace.
const SCRIPT: &str = "crates/cli/hot.ld";

/// What runs a program in steps.
const STEP: &str = include_str!("hot/step.c");

/// # Errors
/// Where something cannot be built or run; the old script stays then.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let dir = workspace.target.join("hot");
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let map = dir.join("tote.map");
    let tote = build(&map)?;
    let step = compile(&dir)?;
    let (traces, bundles) = Scene::set(&dir, tote, step)?.play()?;
    let map = std::fs::read_to_string(&map).with_context(|| format!("read {}", map.display()))?;
    let pieces = map::pieces(&map);
    if pieces.is_empty() {
        bail!("the linker's map names no code: it is not one of lld's");
    }
    let script = order::script(&pieces, &traces, bundles);
    let path = workspace.root.join(SCRIPT);
    std::fs::write(&path, &script).with_context(|| format!("write {}", path.display()))?;
    println!("{SCRIPT}: {} lines", script.lines().count());
    Ok(())
}

/// The shipped binary with a map of it. What is missing in it against the usual one is at no other address.
fn build(map: &Path) -> Result<PathBuf> {
    let messages = read(
        cargo()
            .args([
                "rustc",
                "--profile",
                SHIPPED,
                "--package",
                ENGINE,
                "--bin",
                "tote",
            ])
            .arg("--message-format=json-render-diagnostics")
            .args(["--", "-C"])
            .arg(format!("link-arg=-Wl,-Map={}", map.display())),
    )?;
    match executables(&messages)?.as_slice() {
        [path] => Ok(path.clone()),
        _ => bail!("package {ENGINE} has not exactly one executable"),
    }
}

fn compile(dir: &Path) -> Result<PathBuf> {
    let (source, step) = (dir.join("step.c"), dir.join("step"));
    std::fs::write(&source, STEP).with_context(|| format!("write {}", source.display()))?;
    succeed(program("cc").args(["-O2", "-o"]).arg(&step).arg(&source))?;
    Ok(step)
}
