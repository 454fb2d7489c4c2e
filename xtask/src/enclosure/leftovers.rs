//! Processes, cgroups and mounts that a test left behind. They are removed, so that all tests start alike.

use super::hierarchy;
use crate::program::program;
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Time for orphaned processes to end by themselves, and then for killed ones to end.
const GRACE: Duration = Duration::from_millis(300);
const DEATH: Duration = Duration::from_secs(10);

/// Mounts and groups before the first test.
#[derive(Debug)]
pub(crate) struct Before {
    mounts: BTreeSet<String>,
    /// Names of groups that the runtime does not have to remove.
    others: &'static [&'static str],
}

impl Before {
    /// Records the present state. Groups with a name in `others` will be removed without being reported.
    pub(crate) fn look(others: &'static [&'static str]) -> Result<Self> {
        Ok(Self {
            mounts: mounts()?,
            others,
        })
    }

    /// Removes new objects, and returns a line for each.
    pub(crate) fn restore(&self) -> Result<Vec<String>> {
        let mut left = Vec::new();
        let deadline = Instant::now() + GRACE;
        while !processes()?.is_empty() && Instant::now() < deadline {
            pause();
        }
        left.extend(end_processes()?);
        left.extend(remove_groups(self.others)?);
        left.extend(self.unmount()?);
        Ok(left)
    }

    fn unmount(&self) -> Result<Vec<String>> {
        let mut left: Vec<String> = mounts()?.difference(&self.mounts).cloned().collect();
        left.reverse();
        for point in &left {
            let status = program("umount")
                .args(["--lazy", point])
                .stderr(Stdio::null())
                .status();
            status.context("umount")?;
        }
        Ok(left.iter().map(|point| format!("mount {point}")).collect())
    }
}

/// Kills all processes of this PID namespace except the first and this one.
fn end_processes() -> Result<Vec<String>> {
    let mut left = BTreeSet::new();
    let deadline = Instant::now() + DEATH;
    loop {
        let processes = processes()?;
        if processes.is_empty() {
            return Ok(left.into_iter().collect());
        }
        if Instant::now() > deadline {
            bail!("processes do not die: {processes:?}");
        }
        // A frozen process of v1 does not die.
        thaw();
        let mut kill = program("kill");
        kill.arg("-KILL")
            .args(processes.iter().map(|(pid, _)| pid.to_string()));
        kill.stderr(Stdio::null()).status().context("kill")?;
        left.extend(processes.into_iter().map(|(_, name)| format!("process {name}")));
        pause();
    }
}

/// Waits a little: a process that is not a child cannot be waited for, only be checked again.
#[expect(
    clippy::disallowed_methods,
    reason = "the standard library has no pidfd, and nothing of the engine waits for this"
)]
fn pause() {
    std::thread::sleep(Duration::from_millis(10));
}

/// Lists the other running processes of this PID namespace, by id and command.
fn processes() -> Result<Vec<(u32, String)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").context("read /proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else {
            continue; // The process ended meanwhile.
        };
        if let Some((name, state)) = name_and_state(&stat)
            && pid != 1
            && pid != std::process::id()
            && !matches!(state, 'Z' | 'X')
        {
            found.push((pid, name.to_owned()));
        }
    }
    Ok(found)
}

/// Parses proc_pid_stat(5); a command may contain blanks and parentheses.
fn name_and_state(stat: &str) -> Option<(&str, char)> {
    let (left, right) = stat.rsplit_once(") ")?;
    Some((left.split_once(" (")?.1, right.chars().next()?))
}

/// Lists all groups that were created below this run's.
fn groups() -> Vec<PathBuf> {
    let hierarchies = hierarchy::all().unwrap_or_default();
    let mut roots: Vec<PathBuf> = hierarchies.into_iter().map(|hierarchy| hierarchy.mount).collect();
    roots.sort();
    roots.dedup();
    roots.iter().flat_map(|root| hierarchy::below(root)).collect()
}

/// Thaws all groups. Failures are ignored: a group that is not frozen, or vanishes meanwhile, needs no thawing.
fn thaw() {
    for group in groups() {
        for (file, value) in [("freezer.state", "THAWED"), ("cgroup.freeze", "0")] {
            let path = group.join(file);
            if path.try_exists().unwrap_or(false) {
                drop(std::fs::write(path, value));
            }
        }
    }
}

fn remove_groups(others: &[&str]) -> Result<BTreeSet<String>> {
    let mut left = BTreeSet::new();
    for group in groups() {
        let mut tries = 0;
        while let Err(error) = std::fs::remove_dir(&group) {
            // The last process of a group may not have ended completely yet.
            if tries == 100 {
                return Err(error).with_context(|| format!("remove {}", group.display()));
            }
            tries += 1;
            pause();
        }
        let name = group.file_name().and_then(|name| name.to_str());
        if !name.is_some_and(|name| others.contains(&name)) {
            left.insert(format!("cgroup {}", without_hierarchy(&group).display()));
        }
    }
    Ok(left)
}

/// Returns a group's path without its hierarchy: a group has the same path in each hierarchy of v1.
fn without_hierarchy(group: &Path) -> PathBuf {
    let below = group.strip_prefix(hierarchy::ROOT).unwrap_or(group);
    below.components().skip(1).collect()
}

fn mounts() -> Result<BTreeSet<String>> {
    let path = "/proc/self/mountinfo";
    let text = std::fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    let points = text.lines().filter_map(|line| line.split(' ').nth(4));
    Ok(points.map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_with_odd_names() {
        assert_eq!(name_and_state("7 (sleep) S 1 7"), Some(("sleep", 'S')));
        assert_eq!(name_and_state("7 (a (b) c) Z 1"), Some(("a (b) c", 'Z')));
        assert_eq!(name_and_state("7"), None);
    }

    #[test]
    fn groups_of_all_hierarchies_are_one() {
        let group = Path::new("/sys/fs/cgroup/memory/a/b");
        assert_eq!(without_hierarchy(group), Path::new("a/b"));
    }
}
