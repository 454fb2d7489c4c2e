//! The command `ps`.

use crate::status;
use crate::{ContainerError, Id, OciError, Store};
use std::process::{Command, Stdio};
use tote_cgroup::Cgroup;
use tote_sys::{Endless, Wait};

/// Returns the pids of a container's processes in the caller's PID namespace.
///
/// # Errors
/// The container does not exist, or its cgroup cannot be read.
pub fn ps(store: &Store, id: &Id) -> Result<Vec<i32>, OciError> {
    let place = store.open(id)?;
    let (record, _) = place
        .read()?
        .ok_or(OciError::Container(ContainerError::NotFound))?;
    let cgroup = Cgroup::open(&record.cgroup)?;
    if cgroup.is_empty() {
        let pid = record.pid.filter(|_| status::is_alive(&record));
        return Ok(pid.and_then(|pid| i32::try_from(pid).ok()).into_iter().collect());
    }
    Ok(cgroup.pids()?)
}

/// Returns the output of ps(1) for these processes, run with these options, or with `-ef`.
///
/// # Errors
/// ps(1) cannot be run, fails, or shows no process ids.
#[expect(
    clippy::disallowed_methods,
    reason = "what to show of a process is ps(1)'s to decide"
)]
pub fn ps_table(pids: &[i32], options: &[String]) -> Result<String, OciError> {
    // process: programs of the host
    let mut command = Command::new("ps");
    if options.is_empty() {
        command.arg("-ef");
    }
    command.args(options).stdin(Stdio::null());
    let output = Wait::endless(Endless::Program)
        .output(&mut command)
        .map_err(OciError::Ps)?;
    if !output.status.success() {
        return Err(OciError::PsOutput(
            String::from_utf8_lossy(&output.stderr).trim().to_owned(),
        ));
    }
    filter(&String::from_utf8_lossy(&output.stdout), pids)
}

/// Returns the heading, and the lines of these processes.
fn filter(text: &str, pids: &[i32]) -> Result<String, OciError> {
    let mut lines = text.lines();
    let heading = lines.next().unwrap_or_default();
    let column = heading
        .split_whitespace()
        .position(|name| name == "PID")
        .ok_or_else(|| OciError::PsOutput("couldn't find PID field in ps output".to_owned()))?;
    let ours = |line: &&str| {
        let pid = line
            .split_whitespace()
            .nth(column)
            .and_then(|pid| pid.parse().ok());
        pid.is_some_and(|pid| pids.contains(&pid))
    };
    let chosen = std::iter::once(heading).chain(lines.filter(ours));
    Ok(chosen.flat_map(|line| [line, "\n"]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_containers_own() {
        let text = "UID  PID CMD\nroot   1 init\nroot 42 sleep 7\nroot   7 x\n";
        assert_eq!(filter(text, &[42]).unwrap(), "UID  PID CMD\nroot 42 sleep 7\n");
        assert!(filter("CMD\nx\n", &[1]).is_err());
        assert!(filter("", &[1]).is_err());
    }
}
