//! Leaks: mounts and cgroups that the machine has only after the run. (Processes are found run by run.)

use crate::mountinfo::{self, Mount};
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Place of the control groups.
const GROUPS: &str = "/sys/fs/cgroup";

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
    /// Control groups that runs left until the end of the measurement, which removed them.
    #[serde(default)]
    pub removed: Vec<String>,
}

impl Snapshot {
    /// Takes a snapshot; `hidden` are mount points that vanish with the private mount namespace.
    pub fn take(hidden: &[PathBuf]) -> Result<Self> {
        let mut cgroups = BTreeSet::new();
        walk(Path::new(GROUPS), hidden, &mut cgroups);
        Ok(Snapshot {
            mounts: mountinfo::read()?.into_iter().collect(),
            cgroups,
        })
    }

    /// Lists the differences to the snapshot `before`. Everything that this run makes has `tag` in its name;
    /// `private_mounts` is true if no other process can mount anything here; `first` names the candidate after whose run a
    /// control group was there first.
    pub fn since(
        &self,
        before: &Snapshot,
        tag: &str,
        private_mounts: bool,
        first: &BTreeMap<PathBuf, String>,
    ) -> Leaks {
        let mut leaks = Leaks::default();
        for mount in self.mounts.difference(&before.mounts) {
            let certain = private_mounts || mount.target.to_string_lossy().contains(tag);
            leaks.push(
                certain,
                format!("mount of {} on {}", mount.fs_type, mount.target.display()),
            );
        }
        for cgroup in self.cgroups.difference(&before.cgroups) {
            let after = first
                .get(cgroup)
                .map(|run| format!(", there since a run of {run}"));
            leaks.push(
                cgroup.to_string_lossy().contains(tag),
                format!("cgroup {}{}", cgroup.display(), after.unwrap_or_default()),
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

/// The control groups of one moment.
#[derive(Clone, Debug, Default)]
pub struct Groups(BTreeSet<PathBuf>);

impl Groups {
    /// Lists the groups of now.
    #[must_use]
    pub fn now() -> Self {
        let mut found = BTreeSet::new();
        walk(Path::new(GROUPS), &[], &mut found);
        Groups(found)
    }

    /// Iterates over the groups that `before` lacks, an outer one before those in it.
    pub fn beyond<'a>(&'a self, before: &'a Groups) -> impl Iterator<Item = &'a Path> {
        self.0.difference(&before.0).map(PathBuf::as_path)
    }

    /// Sums up the memory in KiB of the groups that were made since; `None` if none of them accounts for memory.
    #[must_use]
    pub fn memory_since(&self) -> Option<f64> {
        let now = Groups::now();
        let mut counted: Vec<&Path> = Vec::new();
        let mut sum = 0.0;
        for group in now.beyond(self) {
            // The memory of a group has that of those in it.
            if counted.iter().any(|outer| group.starts_with(outer)) {
                continue;
            }
            let read = |name: &str| {
                fs::read_to_string(group.join(name))
                    .ok()?
                    .trim()
                    .parse::<f64>()
                    .ok()
            };
            if let Some(bytes) = read("memory.usage_in_bytes").or_else(|| read("memory.current")) {
                sum += bytes / 1024.0;
                counted.push(group);
            }
        }
        (!counted.is_empty()).then_some(sum)
    }
}

/// Lists the control groups with `tag` in their names, the innermost first.
#[must_use]
pub fn cgroups_named(tag: &str) -> Vec<PathBuf> {
    let mut found = BTreeSet::new();
    walk(Path::new(GROUPS), &[], &mut found);
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
        let first = BTreeMap::from([(PathBuf::from("/sys/fs/cgroup/cpu/other"), "run/x".to_owned())]);
        assert_eq!(before.since(&before, "bench-7", true, &first), Leaks::default());
        assert_eq!(
            before.since(&after, "bench-7", true, &first),
            Leaks::default(),
            "what went away is no leak"
        );

        let shared = after.since(&before, "bench-7", false, &first);
        assert_eq!(
            shared.certain,
            [
                "mount of tmpfs on /tmp/bench-7/s",
                "cgroup /sys/fs/cgroup/cpu/bench-7-1"
            ]
        );
        assert_eq!(
            shared.suspected,
            [
                "mount of tmpfs on /mnt/x",
                "cgroup /sys/fs/cgroup/cpu/other, there since a run of run/x"
            ]
        );
        assert_eq!(after.since(&before, "bench-7", true, &first).certain.len(), 3);
    }
}
