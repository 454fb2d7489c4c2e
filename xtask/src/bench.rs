//! `cargo xtask bench`: builds the engine as it is shipped and the benchmark harness for release, and runs the
//! harness.

use crate::build::release;
use crate::dist;
use crate::program::program;
use crate::workspace::Workspace;
use anyhow::{Context, Result};
use std::os::unix::process::CommandExt;

/// Package of the harness.
const HARNESS: &str = "bench";

/// Replaces this process by the harness, so that it does not disturb the measurement.
pub(crate) fn run(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let tote = dist::engine(workspace)?;
    let harness = release(workspace, HARNESS)?;
    let mut command = program(&harness);
    let error = command.arg("--tote").arg(tote).args(arguments).exec();
    Err(error).with_context(|| format!("execute {}", harness.display()))
}
