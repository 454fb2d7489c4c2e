//! Network namespace of the stepper: every link and rule in it was made by the commands under test.

use anyhow::{Context, Result};
use nix::sched::{CloneFlags, unshare};
use std::fs;
use std::process::Command;

/// Moves this process, and with it all commands that it starts, into a new network namespace.
///
/// # Errors
/// Fails if the kernel refuses it.
pub(crate) fn enter() -> Result<()> {
    unshare(CloneFlags::CLONE_NEWNET).context("make a network namespace")
}

/// Lists the names of all links.
///
/// # Errors
/// Fails if `/proc/thread-self/net/dev` cannot be read.
pub(crate) fn links() -> Result<Vec<String>> {
    let text = fs::read_to_string("/proc/thread-self/net/dev").context("list the links")?;
    let names = text.lines().filter_map(|line| line.split_once(':'));
    Ok(names.map(|(name, _)| name.trim().to_owned()).collect())
}

/// Whether the packet filter has tote's table; false without nft(8).
pub(crate) fn has_table() -> bool {
    let asked = Command::new("nft")
        .args(["list", "table", "inet", "tote"])
        .output();
    asked.is_ok_and(|answer| answer.status.success())
}
