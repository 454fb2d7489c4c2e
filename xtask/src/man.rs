//! `cargo xtask man`: the manual pages, which the engine writes from its own options.

use crate::build::{ENGINE, release};
use crate::dist::directory;
use crate::program::{program, succeed};
use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let tote = release(workspace, ENGINE)?;
    let pages = directory(workspace, "man")?;
    // Remove pages of an earlier run, which would hide that this one wrote none.
    for page in std::fs::read_dir(&pages)? {
        std::fs::remove_file(page?.path())?;
    }
    succeed(program(tote).arg("__man").arg(&pages))?;
    let written = std::fs::read_dir(&pages).with_context(|| format!("read {}", pages.display()))?;
    match written.count() {
        0 => bail!("tote __man wrote nothing to {}", pages.display()),
        count => println!("{}: {count} pages", pages.display()),
    }
    Ok(())
}
