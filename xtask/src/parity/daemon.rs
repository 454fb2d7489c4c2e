//! docker's daemons for a run.

use crate::dropin::{Engine, Networks, PATH, Place, containerd, dockerd, find};
use crate::enclosure::path;
use crate::program::{program, read, succeed};
use anyhow::{Context, Result, bail};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// Finds docker's client as a shell does: a newer one than the distribution's may be installed.
pub(super) fn client() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from(PATH));
    let directories = path.as_bytes().split(|&byte| byte == b':');
    let candidates =
        directories.map(|directory| Path::new(std::ffi::OsStr::from_bytes(directory)).join("docker"));
    let mut found = candidates.filter(|path| path.metadata().is_ok_and(|found| found.is_file()));
    found.next().context("parity: needs docker")
}

/// # Errors
/// A program of the daemon is missing.
pub(super) fn check() -> Result<()> {
    match Engine::Docker.missing() {
        Some(missing) => bail!("parity: needs {missing}"),
        None => Ok(()),
    }
}

#[derive(Debug)]
pub(super) struct Daemons(Vec<Child>);

/// Starts the daemons with their own files, runc, and networks of this network namespace.
pub(super) fn start(place: &Place, client: &Path) -> Result<Daemons> {
    let directory = place.work.join("docker");
    let runc = find("runc").context("parity: needs runc")?;
    std::fs::create_dir_all(&directory).with_context(|| format!("create {}", directory.display()))?;
    let mut daemons = Daemons(Vec::new());
    for (mut daemon, answers) in [
        (containerd(place, &directory)?, "ctr version"),
        (dockerd(place, &directory, &runc, Networks::All)?, "E version"),
    ] {
        let name = daemon.get_program().to_string_lossy().into_owned();
        let log = place.work.join("logs").join(format!("{name}.log"));
        let log = super::side::emptied(&log)?;
        let errors = log.try_clone().context("duplicate a descriptor")?;
        let child = daemon.stdin(Stdio::null()).stdout(log).stderr(errors).spawn();
        daemons.0.push(child.with_context(|| format!("start {name}"))?);
        let script = format!(
            "E() {{ {} \"$@\"; }}\ntries=0\nuntil {answers} >/dev/null 2>&1; do\n\
             tries=$((tries + 1)); [ $tries -lt 200 ] || exit 1; sleep 0.1\ndone",
            path(client)?
        );
        let mut wait = program("sh");
        wait.args(["-c", &script])
            .env("PATH", PATH)
            .envs(Engine::Docker.environment(&directory));
        succeed(&mut wait).with_context(|| format!("{name} does not answer"))?;
    }
    println!("{}", read(program(client).arg("--version"))?.trim());
    println!("{}", Engine::Docker.version()?);
    Ok(daemons)
}

impl Daemons {
    pub(super) fn end(mut self) -> Result<()> {
        while let Some(mut daemon) = self.0.pop() {
            // A daemon that has ended by itself is not reaped, so the number is still its own.
            succeed(program("kill").arg(daemon.id().to_string()))?;
            daemon.wait().context("wait for a daemon")?;
        }
        Ok(())
    }
}
