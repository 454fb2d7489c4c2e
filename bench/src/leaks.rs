//! Leaks: mounts and cgroups that the machine has only after the run. (Processes are found run by run.)

use crate::mountinfo::{self, Mount};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Mounts and cgroups at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    mounts: BTreeSet<Mount>,
    cgroups: BTreeSet<PathBuf>,
}

/// Mounts and cgroups that were left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaks {
    /// Objects that this run certainly made.
    pub certain: Vec<String>,
    /// New objects that another process on the machine may have made.
    pub suspected: Vec<String>,
}

impl Snapshot {
    /// Takes a snapshot; `hidden` are mount points that vanish with the private mount namespace.
    pub fn take(hidden: &[PathBuf]) -> Result<Self> {
        let mut cgroups = BTreeSet::new();
        walk(Path::new("/sys/fs/cgroup"), hidden, &mut cgroups);
        Ok(Snapshot {
            mounts: mountinfo::read()?.into_iter().collect(),
            cgroups,
        })
    }

    /// Lists the differences to the snapshot `before`. Everything that this run makes has `tag` in its name;
    /// `private_mounts` is true if no other process can mount anything here.
    pub fn since(&self, before: &Snapshot, tag: &str, private_mounts: bool) -> Leaks {
        let mut leaks = Leaks::default();
        for mount in self.mounts.difference(&before.mounts) {
            let certain = private_mounts || mount.target.to_string_lossy().contains(tag);
            leaks.push(
                certain,
                format!("mount of {} on {}", mount.fs_type, mount.target.display()),
            );
        }
        for cgroup in self.cgroups.difference(&before.cgroups) {
            leaks.push(
                cgroup.to_string_lossy().contains(tag),
                format!("cgroup {}", cgroup.display()),
            );
        }
        leaks
    }
}

impl Leaks {
    /// Adds a leak; `certain` says that the run made it.
    pub fn push(&mut self, certain: bool, what: String) {
        if certain {
            &mut self.certain
        } else {
            &mut self.suspected
        }
        .push(what);
    }
}

/// Lists the control groups with `tag` in their names, the innermost first.
#[must_use]
pub fn cgroups_named(tag: &str) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    walk(Path::new("/sys/fs/cgroup"), &[], &mut found);
    let mut named: Vec<PathBuf> = found
        .into_iter()
        .filter(|path| path.to_string_lossy().contains(tag))
        .collect();
    named.reverse();
    named
}

/// Collects cgroups. A cgroup that vanishes meanwhile is not a leak.
fn walk(directory: &Path, hidden: &[PathBuf], found: &mut BTreeSet<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !hidden.contains(&path) {
            walk(&path, hidden, found);
            found.insert(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(mountinfo: &str, cgroups: &[&str]) -> Snapshot {
        Snapshot {
            mounts: mountinfo::parse(mountinfo).into_iter().collect(),
            cgroups: cgroups.iter().map(PathBuf::from).collect(),
        }
    }

    #[test]
    fn only_what_is_new_leaks_and_only_the_tag_makes_it_certain() {
        let root = "23 1 254:0 / / rw - ext4 /dev/vda rw\n";
        let before = snapshot(root, &["/sys/fs/cgroup/cpu/old"]);
        let after = snapshot(
            &format!(
                "{root}90 23 0:40 / /mnt/x rw - tmpfs tmpfs rw\n91 23 0:41 / /tmp/bench-7/s rw - tmpfs t rw\n"
            ),
            &[
                "/sys/fs/cgroup/cpu/old",
                "/sys/fs/cgroup/cpu/bench-7-1",
                "/sys/fs/cgroup/cpu/other",
            ],
        );
        assert_eq!(before.since(&before, "bench-7", true), Leaks::default());
        assert_eq!(
            before.since(&after, "bench-7", true),
            Leaks::default(),
            "what went away is no leak"
        );

        let shared = after.since(&before, "bench-7", false);
        assert_eq!(
            shared.certain,
            [
                "mount of tmpfs on /tmp/bench-7/s",
                "cgroup /sys/fs/cgroup/cpu/bench-7-1"
            ]
        );
        assert_eq!(
            shared.suspected,
            ["mount of tmpfs on /mnt/x", "cgroup /sys/fs/cgroup/cpu/other"]
        );
        assert_eq!(after.since(&before, "bench-7", true).certain.len(), 3);
    }
}
