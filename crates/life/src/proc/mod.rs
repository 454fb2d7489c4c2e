//! The processes of a container, as `/proc` has them.

mod stat;

pub use stat::{Stat, Status};

use std::collections::BTreeSet;
use std::path::Path;
use tote_cgroup::Cgroup;

/// The most processes that are looked at: a container without a cgroup may have any number.
const MOST: usize = 10_000;

/// The processes of a container, by the host's numbers, in ascending order: those of its cgroup or, where it has none,
/// those of its PID namespace or, where that is not its own, those that descend from its first.
pub fn members(first: u32, cgroup: &Cgroup, own_pids: bool) -> Vec<u32> {
    let of_cgroup = if cgroup.is_empty() {
        Vec::new()
    } else {
        cgroup.pids().unwrap_or_default()
    };
    let mut found: BTreeSet<u32> = of_cgroup
        .into_iter()
        .filter_map(|pid| u32::try_from(pid).ok())
        .collect();
    if found.is_empty() {
        found = if own_pids {
            of_namespace(first)
        } else {
            descendants(first)
        };
    }
    found.into_iter().collect()
}

fn of_namespace(first: u32) -> BTreeSet<u32> {
    // absence: the process has ended
    let namespace = |pid: u32| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
    let Some(wanted) = namespace(first) else {
        return BTreeSet::new();
    };
    // absence: a list for people
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| namespace(*pid).as_ref() == Some(&wanted))
        .take(MOST)
        .collect()
}

fn descendants(first: u32) -> BTreeSet<u32> {
    let (mut found, mut left) = (BTreeSet::new(), vec![first]);
    while let Some(pid) = left.pop() {
        if found.len() == MOST {
            break;
        }
        let is_there = Path::new(&format!("/proc/{pid}")).try_exists();
        if is_there.unwrap_or(false) && found.insert(pid) {
            let children = read(pid, &format!("task/{pid}/children"));
            left.extend(
                children
                    .split_whitespace()
                    .filter_map(|child| child.parse::<u32>().ok()),
            );
        }
    }
    found
}

/// A file of a process's directory; empty if it does not exist or may not be read.
pub fn read(pid: u32, name: &str) -> String {
    // absence: the process has ended
    let bytes = std::fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A number of a file of `Name:  number kB` lines.
pub fn field(text: &str, name: &str) -> Option<u64> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_among_its_own() {
        let own = std::process::id();
        let none = Cgroup::open("").unwrap();
        for own_pids in [true, false] {
            assert!(members(own, &none, own_pids).contains(&own));
        }
        assert!(members(u32::MAX, &none, true).is_empty());
    }

    #[test]
    fn fields() {
        let text = "MemTotal:       8048 kB\nMemFree: x\n";
        assert_eq!(field(text, "MemTotal"), Some(8048));
        assert_eq!(field(text, "Mem"), None);
        assert_eq!(field(text, "MemFree"), None);
    }
}
