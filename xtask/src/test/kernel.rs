//! Kernel of the tests' virtual machines: out of the distribution's package, which is fetched and unpacked but not
//! installed, so that the machine boots what it has always booted.

use super::is_root;
use crate::program::{program, read, succeed};
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the directory beside the runner.
const NAME: &str = "guest-kernel";

/// File in it with the modules that were asked for.
const LIST: &str = "modules";

/// Package of Debian that depends on the newest kernel for virtual machines.
const PACKAGE: &str = "linux-image-cloud-amd64";

/// Modules, and directories of them, that guests may need; all others would only be copied.
const MODULES: [&str; 15] = [
    "drivers/virtio",
    "drivers/block",
    "drivers/char",
    "drivers/net/net_failover.ko",
    "drivers/net/virtio_net.ko",
    "drivers/scsi/scsi_common.ko",
    "drivers/scsi/scsi_mod.ko",
    "drivers/scsi/sd_mod.ko",
    "drivers/scsi/virtio_scsi.ko",
    "net/core",
    "fs/erofs",
    "fs/fuse",
    "fs/overlayfs",
    "lib",
    "crypto",
];

/// Returns the directory with the kernel; `None` where it cannot be had, which is said: the tests that need it are skipped
/// then, or fail.
///
/// # Errors
/// A directory of the build cannot be used.
pub(super) fn beside(runner: &Path) -> Result<Option<PathBuf>> {
    let place = runner.with_file_name(NAME);
    if fs::read_to_string(place.join(LIST)).is_ok_and(|list| list == MODULES.join("\n")) {
        return Ok(Some(place));
    }
    if !is_root()? || !Path::new("/usr/bin/apt-get").try_exists()? {
        println!("missing: {NAME}, which root's tests unpack from Debian's package {PACKAGE}");
        return Ok(None);
    }
    match fetch(&place) {
        Ok(()) => Ok(Some(place)),
        Err(error) => {
            eprintln!("xtask: no kernel for virtual machines: {error:#}");
            Ok(None)
        }
    }
}

fn fetch(place: &Path) -> Result<()> {
    let work = place.with_file_name(format!("{NAME}.new"));
    if work.try_exists()? {
        fs::remove_dir_all(&work)?;
    }
    fs::create_dir_all(&work)?;
    let depends = read(program("apt-cache").args(["depends", PACKAGE]))?;
    let package = depends
        .lines()
        .find_map(|line| line.trim().strip_prefix("Depends: linux-image-"));
    let package = package.with_context(|| format!("apt knows no {PACKAGE}"))?;
    println!("fetching Debian's package linux-image-{package}");
    succeed(
        program("apt-get")
            .args(["--quiet", "--quiet", "download"])
            .arg(format!("linux-image-{package}"))
            .current_dir(&work),
    )?;
    let whole = work.join("whole");
    for entry in fs::read_dir(&work)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "deb") {
            succeed(program("dpkg-deb").arg("-x").arg(path).arg(&whole))?;
        }
    }
    let part = work.join("part");
    let modules = format!("lib/modules/{package}");
    for directory in MODULES {
        let path = format!("{modules}/kernel/{directory}");
        if whole.join(&path).try_exists()? {
            copy(&whole, &path, &part)?;
        }
    }
    copy(&whole, &format!("{modules}/modules.builtin"), &part)?;
    copy(&whole, &format!("boot/vmlinuz-{package}"), &part)?;
    fs::write(part.join(LIST), MODULES.join("\n"))?;
    if place.try_exists()? {
        // It has what an older list asked for.
        fs::remove_dir_all(place)?;
    }
    fs::rename(&part, place).context("name the kernel")?;
    fs::remove_dir_all(&work)?;
    Ok(())
}

/// Copies a file or directory to the same place in another root.
fn copy(from: &Path, path: &str, to: &Path) -> Result<()> {
    let place = to.join(path);
    fs::create_dir_all(place.parent().context("a path with a directory")?)?;
    succeed(program("cp").arg("-r").arg(from.join(path)).arg(place))
}
