//! Maps of a user namespace that its own process may not write.

use crate::{ErrandError, RuntimeError};
use rustix::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;
use tote_spec::IdMapping;
use tote_sys::Wait;

/// Time in which the helpers write a map.
const PATIENCE: Duration = Duration::from_secs(60);

/// Both maps, and which program writes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maps {
    /// `uid_map`.
    pub uid: Vec<IdMapping>,
    /// `gid_map`.
    pub gid: Vec<IdMapping>,
    /// True if this process may write them itself; otherwise newuidmap(1) and newgidmap(1) do. This is the only place
    /// where a helper program is run: these are setuid, and an unprivileged user can get a range in no other way.
    pub privileged: bool,
}

impl Maps {
    /// Writes the maps of a process.
    pub(crate) fn write(&self, pid: u32) -> Result<(), RuntimeError> {
        if self.privileged {
            for (file, lines) in [("uid_map", &self.uid), ("gid_map", &self.gid)] {
                std::fs::write(format!("/proc/{pid}/{file}"), text(lines))
                    .map_err(|source| RuntimeError::Errand(ErrandError::Map { file, source }))?;
            }
            return Ok(());
        }
        // Both run at once: each is a whole program to start.
        let uid = spawn("newuidmap", "uid_map", pid, &self.uid)?;
        let gid = spawn("newgidmap", "gid_map", pid, &self.gid)?;
        finish("newuidmap", "uid_map", (uid, Wait::within(PATIENCE)))?;
        finish("newgidmap", "gid_map", (gid, Wait::within(PATIENCE)))
    }
}

/// Makes a user namespace with these maps, for this process to enter or to pass on.
///
/// # Errors
/// [`RuntimeError::Clone`], and those of the maps.
pub fn user_namespace(maps: &Maps) -> Result<OwnedFd, RuntimeError> {
    // process: errand
    let namespace = tote_sys::NewUserNamespace::make().map_err(RuntimeError::Clone)?;
    maps.write(namespace.pid())?;
    namespace.open().map_err(RuntimeError::Clone)
}

fn text(lines: &[IdMapping]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[expect(
    clippy::disallowed_methods,
    reason = "the setuid helpers are the only way to a range of ids without privilege"
)]
fn spawn(
    program: &'static str,
    file: &'static str,
    pid: u32,
    lines: &[IdMapping],
) -> Result<std::process::Child, RuntimeError> {
    let numbers = lines
        .iter()
        .flat_map(|line| [line.container_id, line.host_id, line.size])
        .map(|number| number.to_string());
    // process: programs of the host
    Command::new(program)
        .arg(pid.to_string())
        .args(numbers)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|source| RuntimeError::Errand(ErrandError::Map { file, source }))
}

fn finish(
    program: &'static str,
    file: &'static str,
    (child, wait): (std::process::Child, Wait),
) -> Result<(), RuntimeError> {
    let output = wait
        .collect(child)
        .map_err(|source| RuntimeError::Errand(ErrandError::Map { file, source }))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().replace('\n', ", ");
    Err(RuntimeError::Errand(ErrandError::MapProgram { program, said }))
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;
    use std::time::{Duration, Instant};
    use tote_spec::IdMapping;
    use tote_sys::Wait;

    #[test]
    fn a_helper_that_does_not_end_is_given_up() {
        #[expect(clippy::disallowed_methods, reason = "it stands for a helper")]
        let mut helper = std::process::Command::new("/bin/sleep");
        let helper = helper.arg("1000").stderr(Stdio::piped()).spawn().unwrap();
        let begin = Instant::now();
        let wait = Wait::within(Duration::from_millis(50));
        let late = super::finish("newuidmap", "uid_map", (helper, wait)).unwrap_err();
        assert!(tote_sys::chain(&late).contains("timed out"), "{late:?}");
        assert!(begin.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn map_text() {
        assert_eq!(
            super::text(&[IdMapping::new(0, 1000, 1), IdMapping::new(1, 100_000, 65536)]),
            "0 1000 1\n1 100000 65536\n"
        );
    }
}
