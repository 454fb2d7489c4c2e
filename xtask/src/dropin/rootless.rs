//! The ordinary user who runs podman without root.
//!
//! The user exists only in the enclosure, whose `/etc` is covered: with a range of subordinate ids, a home and an
//! `$XDG_RUNTIME_DIR` of its own, and no right to any cgroup but where there is only version 2: the run's group is
//! delegated to it there, as systemd does.

use super::place::{Place, make};
use crate::enclosure::path;
use crate::program::{program, succeed};
use anyhow::{Context, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

const NAME: &str = "tote-dropin";
/// Id of the user and of its group, below those that systemd assigns.
const ID: &str = "60123";
/// First subordinate id, and their number.
const RANGE: &str = "2000000:65536";

/// Creates the user, and gives it the directory of the session and those that the cases write to.
///
/// # Errors
/// A file cannot be written, or chown(1) fails.
pub(super) fn furnish(place: &Place, directory: &Path, runtime: &Path) -> Result<()> {
    let home = path(directory)?;
    append("/etc/passwd", &format!("{NAME}:x:{ID}:{ID}::{home}:/bin/sh\n"))?;
    append("/etc/group", &format!("{NAME}:x:{ID}:\n"))?;
    for file in ["/etc/subuid", "/etc/subgid"] {
        append(file, &format!("{NAME}:{RANGE}\n"))?;
    }
    make(&runtime_directory(directory))?;
    // The build directory may be in a home that other users cannot enter.
    let own = own_runtime(directory, runtime);
    std::fs::copy(runtime, &own).with_context(|| format!("copy {}", runtime.display()))?;
    succeed(
        program("chown")
            .args(["--recursive", &format!("{ID}:{ID}")])
            .args([directory, &place.work.join("volume"), &place.work.join("tmp")]),
    )?;
    succeed(program("chmod").arg("0700").arg(runtime_directory(directory)))?;
    delegate()
}

/// Gives the user the run's cgroup of version 2 where version 1 is absent: cgroups(7), delegation.
fn delegate() -> Result<()> {
    let group = Path::new("/sys/fs/cgroup");
    let files = ["cgroup.procs", "cgroup.subtree_control", "cgroup.threads"].map(|name| group.join(name));
    if !files[0].try_exists().context("look for cgroups of version 2")? {
        return Ok(());
    }
    succeed(program("chown").arg(format!("{ID}:{ID}")).arg(group).args(files))
}

/// Returns the path of the user's copy of the runtime, which keeps the runtime's name.
pub(super) fn own_runtime(directory: &Path, runtime: &Path) -> PathBuf {
    directory.join(runtime.file_name().unwrap_or_default())
}

/// Returns the path of the user's `$XDG_RUNTIME_DIR`.
pub(super) fn runtime_directory(directory: &Path) -> PathBuf {
    directory.join("xdg")
}

/// Builds a command run by the user; the caller adds the program and its arguments.
pub(super) fn command() -> Command {
    let mut command = program("setpriv");
    command.args([
        "--reuid",
        ID,
        "--regid",
        ID,
        "--clear-groups",
        "--inh-caps=-all",
        "--",
    ]);
    command
}

/// Appends lines that the file does not have yet: the reference's session uses the same user.
fn append(file: &str, lines: &str) -> Result<()> {
    let known = std::fs::read_to_string(file).with_context(|| format!("read {file}"))?;
    let others: String = known
        .lines()
        .filter(|line| !line.starts_with(&format!("{NAME}:")))
        .flat_map(|line| [line, "\n"])
        .collect();
    let options = std::fs::OpenOptions::new().write(true).truncate(true).open(file);
    let mut to = options.with_context(|| format!("open {file}"))?;
    to.write_all((others + lines).as_bytes())
        .with_context(|| format!("write {file}"))
}
