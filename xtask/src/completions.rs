//! `cargo xtask completions`: the completion scripts of shells, as the engine prints them.

use crate::build::{ENGINE, release};
use crate::dist::directory;
use crate::program::{program, read};
use crate::workspace::Workspace;
use anyhow::{Context, Result};

/// Shells, with the file name under which each finds a command's completion.
const SHELLS: &[(&str, &str)] = &[("bash", "tote"), ("zsh", "_tote"), ("fish", "tote.fish")];

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let tote = release(workspace, ENGINE)?;
    let directory = directory(workspace, "completions")?;
    for (shell, name) in SHELLS {
        let path = directory.join(name);
        let script = read(program(&tote).args(["completion", shell]))?;
        std::fs::write(&path, script).with_context(|| format!("write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}
