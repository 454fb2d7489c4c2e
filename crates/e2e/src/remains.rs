//! Directories of ended tests: checks of the state roots in them, and their removal.
//!
//! They go while other tests run, before the kernel has written most of their files to the disk: a run writes gigabytes, and where the
//! file system tells the disk of each block that becomes free, to remove all of them at the end takes longer than the slowest test.

use crate::layout;
use crate::need;
use crate::neighbour;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Number of directories that are checked and removed together: a check starts programs.
const BATCH: usize = 16;

/// Directories of passed tests that are still there, and the number of failed checks.
#[derive(Debug, Default)]
pub(crate) struct Remains {
    waiting: Vec<PathBuf>,
    failed: usize,
}

impl Remains {
    /// Takes the directory of a passed test, and removes the directories of a whole batch.
    pub(crate) fn add(&mut self, directory: PathBuf) -> Result<()> {
        self.waiting.push(directory);
        if self.waiting.len() < BATCH {
            return Ok(());
        }
        let batch = std::mem::take(&mut self.waiting);
        self.check(&batch)?;
        let mounts = mounts()?;
        let free = |directory: &PathBuf| !mounts.iter().any(|mount| mount.starts_with(directory));
        // The others stay for the check of what is left on the host.
        remove(&batch.into_iter().filter(free).collect::<Vec<_>>())
    }

    /// Checks what is left below the directory of the whole run, and returns how many checks have failed in all.
    pub(crate) fn check_all(mut self, run: &Path) -> Result<usize> {
        self.check(&[run.to_owned()])?;
        Ok(self.failed)
    }

    fn check(&mut self, directories: &[PathBuf]) -> Result<()> {
        let roots: Vec<PathBuf> = directories
            .iter()
            .flat_map(|one| neighbour::state_roots(one))
            .collect();
        let open = neighbour::open_state_roots(&roots)?;
        if !open.is_empty() {
            self.failed += 1;
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
            self.failed += 1;
            println!(
                "FAILED state_files::the_map_explains_what_is_left\n    docs/state.md does not explain:"
            );
            for path in unexplained {
                println!("    {}", path.display());
            }
        }
        Ok(())
    }
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

/// Removes the directory of the whole run, unless a file system is mounted below it.
pub(crate) fn remove_run(directory: PathBuf) -> Result<()> {
    let mounted = mounts()?.into_iter().find(|mount| mount.starts_with(&directory));
    ensure!(mounted.is_none(), "{mounted:?} is a mount");
    remove(&[directory])
}

/// Removes directories. Images that a user built have files of other ids of the user's range, which only root of a namespace with that
/// range may remove.
fn remove(directories: &[PathBuf]) -> Result<()> {
    let mut denied = Vec::new();
    for directory in directories {
        match fs::remove_dir_all(directory) {
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && !need::is_root() => {
                denied.push(directory);
            }
            removed => removed.with_context(|| format!("remove {}", directory.display()))?,
        }
    }
    if denied.is_empty() {
        return Ok(());
    }
    let status = Command::new("unshare")
        .args(["--map-auto", "--map-root-user", "--", "rm", "-rf", "--"])
        .args(&denied)
        .status()
        .context("start unshare(1)")?;
    ensure!(
        status.success() && denied.iter().all(|directory| !directory.exists()),
        "rm in a user namespace: {status}"
    );
    Ok(())
}
