//! Disk in a file, and pictures of it.

use super::{Kind, attempt, program, word};
use anyhow::{Result, ensure};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Size of the disk in bytes: enough for XFS and for the files of the commands.
const SIZE: u64 = 1 << 30;

/// Mounted place of all disks: a file system in memory that can share blocks.
#[derive(Debug)]
pub(super) struct Scratch {
    dir: PathBuf,
}

impl Scratch {
    /// Mounts the place. The mounts go with the namespace; the directory is empty then.
    pub(super) fn new() -> Result<Self> {
        let dir = std::env::temp_dir().join(format!("faults-cuts-{}", std::process::id()));
        fs::create_dir(&dir)?;
        program([
            "mount",
            "-t",
            "tmpfs",
            "-o",
            "size=80%,mode=700",
            "cuts",
            word(&dir),
        ])?;
        let below = dir.join("shares");
        File::create_new(&below)?.set_len(16 << 30)?;
        program(["mkfs.xfs", "-q", "-m", "reflink=1", word(&below)])?;
        for name in ["disks", "at"] {
            fs::create_dir(dir.join(name))?;
        }
        program(["mount", "-o", "loop", word(&below), word(&dir.join("disks"))])?;
        Ok(Self { dir })
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Makes a new disk with an empty file system.
    pub(super) fn disk(&self, kind: Kind) -> Result<Disk> {
        let file = self.dir.join("disks/disk");
        drop(fs::remove_file(&file));
        File::create_new(&file)?.set_len(SIZE)?;
        program(kind.make.iter().copied().chain([word(&file)]))?;
        Ok(Disk {
            kind,
            file,
            at: self.dir.join("at"),
        })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        for below in ["at", "disks", ""] {
            drop(attempt(&["umount", "-l", word(&self.dir.join(below))]));
        }
        drop(fs::remove_dir(&self.dir));
    }
}

/// Disk, or a picture of one.
#[derive(Clone, Debug)]
pub(super) struct Disk {
    kind: Kind,
    file: PathBuf,
    at: PathBuf,
}

impl Disk {
    pub(super) fn at(&self) -> &Path {
        &self.at
    }

    pub(super) fn mount(&self) -> Result<()> {
        if self.kind.name.starts_with("btrfs") {
            // All pictures have the same id, and the kernel remembers devices by id.
            drop(attempt(&["btrfs", "device", "scan", "--forget"]));
        }
        program(["mount", "-o", self.kind.options, word(&self.file), word(&self.at)])
    }

    /// Unmounts the disk. A process that has just ended may hold the mount for a moment, so this retries for 60 s.
    pub(super) fn unmount(&self) -> Result<()> {
        let until = Instant::now() + Duration::from_secs(60);
        while !attempt(&["umount", word(&self.at)])?.success() {
            ensure!(
                Instant::now() < until,
                "somebody is still in {}",
                self.at.display()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<()> {
        program(["sync", "-f", word(&self.at)])
    }

    /// Takes a picture of the disk at this moment; its file system does not notice.
    pub(super) fn picture(&self, name: &str) -> Result<Self> {
        let file = self.file.with_file_name(name);
        program(["cp", "--reflink=always", word(&self.file), word(&file)])?;
        Ok(Self { file, ..self.clone() })
    }

    /// Repairs the disk as a boot does before it mounts.
    pub(super) fn mend(&self) -> Result<()> {
        if self.kind.is_ext4 {
            let status = attempt(&["e2fsck", "-fy", word(&self.file)])?;
            ensure!(status.code().is_some_and(|code| code < 4), "e2fsck: {status}");
        }
        Ok(())
    }

    /// Copies the disk for a later look by a person.
    pub(super) fn keep(&self, as_name: &Path) -> Result<()> {
        program(["cp", "--sparse=always", word(&self.file), word(as_name)])
    }

    pub(super) fn remove(self) -> Result<()> {
        Ok(fs::remove_file(self.file)?)
    }
}
