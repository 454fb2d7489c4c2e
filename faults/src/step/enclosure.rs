//! Cgroups of the stepper: every cgroup below them was made by the commands under test.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Cgroups of the stepper, one for each hierarchy in which it may make one. Drop removes them.
#[derive(Debug)]
pub(crate) struct Enclosure {
    /// Previous cgroup and own cgroup of this process, for each hierarchy.
    moved: Vec<(PathBuf, PathBuf)>,
}

impl Enclosure {
    /// Moves this process into new cgroups.
    ///
    /// # Errors
    /// Fails if the hierarchies cannot be found. A hierarchy in which no cgroup can be made is left out.
    pub(crate) fn enter() -> Result<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").context("read /proc/self/cgroup")?;
        let mounts = fs::read_to_string("/proc/self/mounts").context("read /proc/self/mounts")?;
        let mut moved = Vec::new();
        for dir in directories(&own, &mounts) {
            let group = dir.join(format!("faults-{}", std::process::id()));
            if fs::create_dir(&group).is_err() {
                continue;
            }
            for file in ["cpuset.cpus", "cpuset.mems"] {
                if let Ok(text) = fs::read_to_string(dir.join(file)) {
                    // Version 2 may lack these files; in version 1 a cpuset without their values takes no process.
                    drop(fs::write(group.join(file), text));
                }
            }
            if fs::write(group.join("cgroup.procs"), "0").is_ok() {
                moved.push((dir, group));
            } else {
                drop(fs::remove_dir(&group));
            }
        }
        Ok(Self { moved })
    }

    /// Lists the cgroups of containers that exist, sorted by path.
    pub(crate) fn containers(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for (_, group) in &self.moved {
            walk(group, &mut found);
        }
        found.sort();
        found
    }

    /// Removes the cgroups that commands have left.
    pub(crate) fn clear(&self) {
        for (_, group) in &self.moved {
            remove_below(group);
        }
    }
}

impl Drop for Enclosure {
    fn drop(&mut self) {
        self.clear();
        for (dir, group) in &self.moved {
            drop(fs::write(dir.join("cgroup.procs"), "0"));
            drop(fs::remove_dir(group));
        }
    }
}

/// Collects the directories of containers, which are named `tote-ID`.
fn walk(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            walk(&entry.path(), found);
            if entry.file_name().to_string_lossy().starts_with("tote-") {
                found.push(entry.path());
            }
        }
    }
}

fn remove_below(dir: &Path) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path());
            drop(fs::remove_dir(entry.path()));
        }
    }
}

/// Finds the directories of a process's cgroups in the texts of `/proc/PID/cgroup` and `/proc/PID/mounts`.
fn directories(own: &str, mounts: &str) -> Vec<PathBuf> {
    let mount_of = |controllers: &str| {
        mounts.lines().find_map(|line| {
            let fields: Vec<_> = line.split(' ').collect();
            let [_, point, kind, options, ..] = fields[..] else {
                return None;
            };
            let fits = match controllers {
                "" => kind == "cgroup2",
                some => {
                    kind == "cgroup"
                        && some
                            .split(',')
                            .all(|one| options.split(',').any(|option| option == one))
                }
            };
            fits.then(|| PathBuf::from(point))
        })
    };
    let lines = own.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        Some(mount_of(controllers)?.join(path.trim_start_matches('/')))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hierarchies_are_found() {
        let mounts = "\
cgroup /c/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /c/systemd cgroup rw,name=systemd 0 0
cgroup2 /c/unified cgroup2 rw 0 0
";
        let own = "3:cpu,cpuacct:/a/b\n2:pids:/gone\n1:name=systemd:/\n0::/u\n";
        let expected = ["/c/cpu,cpuacct/a/b", "/c/systemd", "/c/unified/u"];
        assert_eq!(directories(own, mounts), expected.map(PathBuf::from));
    }
}
