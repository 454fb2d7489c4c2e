//! A file system in a file, mounted in the private mount namespace only.

use super::succeed;
use crate::stage::find_program;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file system to make.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Command that makes the file system, without the file.
    mkfs: Vec<String>,
    /// Size in MiB.
    size: u64,
}

impl Disk {
    /// Describes a file system of `size` MiB.
    #[must_use]
    pub fn new(mkfs: &[&str], size: u64) -> Self {
        Disk {
            mkfs: mkfs.iter().map(|word| (*word).to_owned()).collect(),
            size,
        }
    }

    /// Makes the file system in `place`; returns its mount point.
    pub(crate) fn make(&self, place: &Path, name: &str) -> Result<PathBuf> {
        let mkfs: Vec<&str> = self.mkfs.iter().map(String::as_str).collect();
        mount_disk(place, name, &mkfs, self.size)
    }
}

/// Makes a file system of `size` MiB in a file in `place` and mounts it. The loop device disappears with the mount.
pub fn mount_disk(place: &Path, name: &str, mkfs: &[&str], size: u64) -> Result<PathBuf> {
    ensure!(rustix::process::geteuid().is_root(), "needs root");
    let (mkfs, arguments) = mkfs.split_first().context("a disk has an empty mkfs")?;
    let mkfs = find_program(mkfs).with_context(|| format!("needs {mkfs}"))?;
    let file = place.join(format!("disk-{name}.img"));
    File::create(&file)
        .and_then(|made| made.set_len(size << 20))
        .with_context(|| format!("make {}", file.display()))?;
    succeed(Command::new(mkfs).args(arguments).arg(&file))?;
    let target = place.join(format!("disk-{name}"));
    fs::create_dir(&target).with_context(|| format!("make {}", target.display()))?;
    succeed(Command::new("mount").args(["-o", "loop"]).arg(&file).arg(&target))?;
    Ok(target)
}
