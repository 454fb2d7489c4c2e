//! State of the host before and after a run, to find leaks.
//!
//! Processes are not compared here: the runner sees every process that its tests leave (see [`crate::runner`]), and
//! without processes a namespace persists only if it is mounted, which the mounts show.

use crate::cgroup;
use crate::need;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Compared entries of the host, one line each.
#[derive(Debug)]
pub(crate) struct Host(BTreeSet<String>);

impl Host {
    /// Reads the state of the host.
    pub(crate) fn now() -> Self {
        let mut seen = BTreeSet::new();
        seen.extend(mounts(
            &fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
        ));
        seen.extend(
            cgroup::unpopulated()
                .iter()
                .map(|dir| format!("cgroup {}", dir.display())),
        );
        seen.extend(names(Path::new("/sys/class/net")).map(|name| format!("network link {name}")));
        seen.extend(loop_devices());
        seen.extend(rules("nft", &["list", "ruleset"]));
        seen.extend(rules("iptables-save", &[]));
        Self(seen)
    }

    /// Lists the entries that are new since `before`.
    pub(crate) fn leaked_since(&self, before: &Self) -> Vec<String> {
        self.0.difference(&before.0).cloned().collect()
    }
}

/// Lists mount points, without the ids, which differ between two looks.
fn mounts(mountinfo: &str) -> impl Iterator<Item = String> {
    mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?;
        Some(format!("mount {point} ({})", right.split(' ').next()?))
    })
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned())
}

fn loop_devices() -> impl Iterator<Item = String> {
    names(Path::new("/sys/block")).filter_map(|name| {
        let backing = fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
        Some(format!("loop device {name} of {}", backing.trim()))
    })
}

/// Lists a firewall's rules without counters; none if the program is missing.
fn rules(program: &str, args: &[&str]) -> Vec<String> {
    let Some(path) = need::program(program) else {
        return Vec::new();
    };
    let Ok(listed) = Command::new(path).args(args).output() else {
        return Vec::new();
    };
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    let lines = text.lines().filter(|line| !line.starts_with(['#', ':']));
    lines
        .map(|line| line.split(" counter").next().unwrap_or(line).trim())
        .filter(|line| !line.is_empty())
        .map(|line| format!("{program} rule {line}"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Host, mounts};

    #[test]
    fn a_new_mount_is_a_leak() {
        let line = "36 35 98:0 /mnt1 /mnt/p rw,noatime master:1 - ext3 /dev/root rw,errors=continue";
        let before = Host(mounts("").collect());
        let after = Host(mounts(line).collect());
        assert_eq!(after.leaked_since(&before), ["mount /mnt/p (ext3)"]);
        assert!(before.leaked_since(&after).is_empty());
    }
}
