//! Directories of ended tests: checks of the state roots in them, and their removal.
//!
//! They go when all tests are over, and not one by one: ext4 without a journal gives no new file the inode of one that was removed within
//! the last minute, and looks at all of these for each new file. In a sample of a run that took a quarter of the processor time.

use crate::layout;
use crate::need;
use crate::neighbour;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Checks the state roots below the directory of a run, and returns how many checks have failed.
pub(crate) fn check(run: &Path) -> Result<usize> {
    let roots = neighbour::state_roots(run);
    let mut failed = 0;
    let open = neighbour::open_state_roots(&roots)?;
    if !open.is_empty() {
        failed += 1;
        println!(
            "FAILED neighbours::no_state_root_is_open\n    another user reaches:\n    {}",
            open.join("\n    ")
        );
    }
    let mut unexplained = Vec::new();
    for root in &roots {
        unexplained.extend(layout::unexplained(root)?);
    }
    if !unexplained.is_empty() {
        failed += 1;
        println!("FAILED state_files::the_map_explains_what_is_left\n    docs/state.md does not explain:");
        for path in unexplained {
            println!("    {}", path.display());
        }
    }
    Ok(failed)
}

/// Lists where file systems are mounted in this mount namespace.
fn mounts() -> Result<Vec<PathBuf>> {
    let text = fs::read_to_string("/proc/self/mountinfo").context("read the mounts of this process")?;
    Ok(text
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(PathBuf::from)
        .collect())
}

/// Removes the directory of a run, unless a file system is mounted below it. Images that a user built have files of other ids of the
/// user's range, which only root of a namespace with that range may remove.
pub(crate) fn remove(directory: &Path) -> Result<()> {
    let mounted = mounts()?.into_iter().find(|mount| mount.starts_with(directory));
    ensure!(mounted.is_none(), "{mounted:?} is a mount");
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && !need::is_root() => {}
        removed => return Ok(removed?),
    }
    let status = Command::new("unshare")
        .args(["--map-auto", "--map-root-user", "--", "rm", "-rf", "--"])
        .arg(directory)
        .status()
        .context("start unshare(1)")?;
    ensure!(
        status.success() && !directory.exists(),
        "rm in a user namespace: {status}"
    );
    Ok(())
}
