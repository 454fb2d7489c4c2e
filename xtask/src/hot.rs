//! `cargo xtask hot`: decides which functions lie beside each other in the shipped binary.
//!
//! A start of a container needs less than a tenth of the binary's code, and if that lies scattered, a start maps
//! half of the binary. So a linker script, `crates/cli/hot.ld`, lists the functions of a start. This command writes
//! it from traces of commands, made one instruction at a time. Writing it again after larger changes saves memory;
//! nothing else depends on it.

mod map;
mod order;
mod scene;

use crate::build::{ENGINE, SHIPPED, executables, libc};
use crate::musl;
use crate::program::{cargo, program, read, succeed};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
use order::Traced;
use scene::Scene;
use std::path::{Path, PathBuf};

/// Path of the script, relative to the workspace.
const SCRIPT: &str = "crates/cli/hot.ld";

/// Source of the program that runs another one in single steps.
const STEP: &str = include_str!("hot/step.c");

/// # Errors
/// A program cannot be built or run; the old script is kept then.
pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let dir = workspace.target.join("hot");
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let step = compile(&dir)?;
    let target = musl::target()?;
    let traced = |profile, libc: &[&str], play: &dyn Fn(&Scene) -> Result<_>| {
        let map = dir.join(format!("{profile}.map"));
        let tote = build(&map, profile, libc)?;
        let (traces, bundles) = play(&Scene::set(&dir, tote, step.clone())?)?;
        let map = std::fs::read_to_string(&map).with_context(|| format!("read {}", map.display()))?;
        let pieces = map::pieces(&map);
        if pieces.is_empty() {
            bail!("the linker's map names no code: it is not one of lld's");
        }
        Ok(Traced {
            pieces,
            traces,
            bundles,
        })
    };
    // The release build has more functions: those that the shipped one has inlined. Its memory is tested for bundles.
    let builds = [
        traced(SHIPPED, &libc(target.as_deref()), &Scene::play)?,
        traced("release", &[], &|scene| {
            let traces = scene.play_bundles()?;
            let bundles = traces.len();
            Ok((traces, bundles))
        })?,
    ];
    let script = order::script(&builds);
    let path = workspace.root.join(SCRIPT);
    std::fs::write(&path, &script).with_context(|| format!("write {}", path.display()))?;
    println!("{SCRIPT}: {} lines", script.lines().count());
    Ok(())
}

/// Builds the binary in that profile with a linker map. Sections that are missing in it, compared with the usual one, do
/// not change addresses.
fn build(map: &Path, profile: &str, libc: &[&str]) -> Result<PathBuf> {
    let messages = read(
        cargo()
            .args([
                "rustc",
                "--profile",
                profile,
                "--package",
                ENGINE,
                "--bin",
                "tote",
            ])
            .args(libc)
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
