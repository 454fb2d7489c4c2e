//! `cargo xtask bench`: the shipped build of the engine and a release build of its benchmark harness, and off it goes.

use crate::build::{ENGINE, release, shipped};
use crate::program::program;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;

/// The package of the harness.
const HARNESS: &str = "bench";

/// Replaces this process by the harness, so that nothing of ours is left to disturb the measurement.
pub(crate) fn run(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let tote = shipped(workspace, ENGINE)?;
    let harness = release(workspace, HARNESS)?;
    let mut command = program(&harness);
    let error = command.arg("--tote").arg(tote).args(arguments).exec();
    Err(error).with_context(|| format!("execute {}", harness.display()))
}
