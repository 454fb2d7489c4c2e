//! The files of a run, all in memory: only the output of the cases is written to the host's file systems.
//!
//! ```text
//! SCRATCH/work/           a tmpfs of this mount namespace
//!   rootfs.tar            busybox as a root file system
//!   oci.tar               the same as an image of the OCI
//!   seccomp.json          a profile that forbids mkdir(2)
//!   volume/               for cases that bind something
//!   etc/, var/            what engines write to /etc and /var
//!   logs/                 target/dropin, seen from here
//!   ENGINE-SIDE/          storage and configuration of one session
//! ```

use super::image;
use crate::enclosure::{mount, path};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// A seccomp profile whose effect differs from that of the engines' own.
const NO_MKDIR: &str = r#"{"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
    {"names": ["mkdir", "mkdirat"], "action": "SCMP_ACT_ERRNO", "errnoRet": 28}]}"#;

#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) work: PathBuf,
}

impl Place {
    /// Prepares the files; may only be called in an enclosure.
    pub(crate) fn furnish(scratch: &Path, logs: &Path) -> Result<Self> {
        let work = scratch.join("work");
        make(&work)?;
        mount(&["-t", "tmpfs", "-o", "mode=755"], "tmpfs", path(&work)?)?;
        // For podman's locks; the host's tmpfs must not be used.
        mount(&["-t", "tmpfs", "-o", "mode=1777"], "tmpfs", "/dev/shm")?;
        let place = Place { work };
        for name in [
            "logs",
            "home",
            "tmp",
            "volume",
            "etc/upper",
            "etc/work",
            "var/upper",
            "var/work",
        ] {
            make(&place.work.join(name))?;
        }
        // Bound before /var is covered, because the build directory may be below it.
        mount(&["--bind"], path(logs)?, path(&place.work.join("logs"))?)?;
        for name in ["etc", "var"] {
            let upper = place.work.join(name);
            let options = format!(
                "lowerdir=/{name},upperdir={0}/upper,workdir={0}/work",
                path(&upper)?
            );
            mount(&["-t", "overlay", "-o", &options], "overlay", &format!("/{name}"))?;
        }
        write(&place.work.join("seccomp.json"), NO_MKDIR)?;
        image::make(&place.work)?;
        Ok(place)
    }
}

pub(super) fn make(directory: &Path) -> Result<()> {
    std::fs::create_dir_all(directory).with_context(|| format!("create {}", directory.display()))
}

pub(super) fn write(file: &Path, text: &str) -> Result<()> {
    std::fs::write(file, text).with_context(|| format!("write {}", file.display()))
}
