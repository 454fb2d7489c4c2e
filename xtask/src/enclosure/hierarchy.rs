//! The cgroup hierarchies of the host, and the one group in each below which a run stays.
//!
//! Nothing is written outside of these groups: a process enters them, and the groups end when the run does.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Where the hierarchies are mounted.
pub(super) const ROOT: &str = "/sys/fs/cgroup";

/// One mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// `cgroup` for v1, `cgroup2`.
    pub(super) kind: String,
    /// Of the whole hierarchy or of what is visible of it.
    pub(super) mount: PathBuf,
    /// Which group is at the mount point.
    root: String,
    /// The controllers of v1, as given to mount(8); `name=systemd` for one without any.
    pub(super) controllers: String,
}

impl Hierarchy {
    pub(super) fn is_v2(&self) -> bool {
        self.kind == "cgroup2"
    }

    /// The group that /proc/self/cgroup names for this hierarchy, as a directory.
    fn own(&self, own: &str) -> Option<PathBuf> {
        let path = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            (controllers == self.controllers).then_some(path)
        })?;
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        Some(self.mount.join(below.trim_start_matches('/')))
    }
}

/// The hierarchies below [`ROOT`] in proc_pid_mountinfo(5).
fn parse(mountinfo: &str) -> Vec<Hierarchy> {
    let hierarchy = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, mount) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        let controllers = match kind {
            "cgroup" => controllers(options),
            "cgroup2" => String::new(),
            _ => return None,
        };
        mount.starts_with(ROOT).then(|| Hierarchy {
            kind: kind.to_owned(),
            mount: mount.into(),
            root: root.to_owned(),
            controllers,
        })
    };
    mountinfo.lines().filter_map(hierarchy).collect()
}

/// `rw,cpu,cpuacct` → `cpu,cpuacct`.
fn controllers(options: &str) -> String {
    const OTHERS: &[&str] = &[
        "rw",
        "ro",
        "clone_children",
        "noprefix",
        "xattr",
        "cpuset_v2_mode",
    ];
    let mine = |option: &&str| !OTHERS.contains(option) && !option.starts_with("release_agent=");
    let options: Vec<&str> = options.split(',').filter(mine).collect();
    options.join(",")
}

/// # Errors
/// Where there is none: no runtime would run.
pub(super) fn all() -> Result<Vec<Hierarchy>> {
    let path = "/proc/self/mountinfo";
    let hierarchies = parse(&std::fs::read_to_string(path).with_context(|| format!("read {path}"))?);
    if hierarchies.is_empty() {
        bail!("no cgroup hierarchy is mounted below {ROOT}");
    }
    Ok(hierarchies)
}

/// Where a group of this name is or would be, below our own in each hierarchy.
fn groups(name: &str) -> Result<Vec<PathBuf>> {
    let path = "/proc/self/cgroup";
    let own = std::fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    let hierarchies = all()?;
    let groups = hierarchies.iter().filter_map(|hierarchy| hierarchy.own(&own));
    Ok(groups.map(|group| group.join(name)).collect())
}

/// Makes the groups, without those that a killed run left behind.
pub(super) fn make_groups(name: &str) -> Result<Vec<PathBuf>> {
    let groups = groups(name)?;
    remove_groups(&groups)?;
    for group in &groups {
        std::fs::create_dir(group).with_context(|| format!("create {}", group.display()))?;
        // cpuset of v1 takes no process into a group without processors.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let path = group.join(file);
            if matches!(std::fs::read_to_string(&path), Ok(text) if text.trim().is_empty()) {
                let from = group.with_file_name(file);
                std::fs::copy(&from, &path).with_context(|| format!("copy {}", from.display()))?;
            }
        }
        // What a test may hand on of the real-time scheduler is what its surroundings have; others may have it all.
        let runtime = group.join("cpu.rt_runtime_us");
        if runtime.try_exists().unwrap_or(false) {
            _ = std::fs::copy(group.with_file_name("cpu.rt_runtime_us"), &runtime);
        }
    }
    Ok(groups)
}

/// Moves this process into the groups.
pub(super) fn join_groups(name: &str) -> Result<()> {
    for group in groups(name)? {
        let path = group.join("cgroup.procs");
        std::fs::write(&path, "0").with_context(|| format!("write {}", path.display()))?;
    }
    Ok(())
}

/// Removes the groups and those below them.
pub(super) fn remove_groups(groups: &[PathBuf]) -> Result<()> {
    for group in groups
        .iter()
        .filter(|group| group.metadata().is_ok_and(|found| found.is_dir()))
    {
        for below in below(group) {
            std::fs::remove_dir(&below).with_context(|| format!("remove {}", below.display()))?;
        }
        std::fs::remove_dir(group).with_context(|| format!("remove {}", group.display()))?;
    }
    Ok(())
}

/// The groups below a group, the deepest first. One that vanishes meanwhile is none.
pub(super) fn below(group: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&entry.path()));
            found.push(entry.path());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
30 1 0:24 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:25 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct
32 30 0:26 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd
33 30 0:27 /a /sys/fs/cgroup/memory rw shared:4 - cgroup cgroup rw,memory
34 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
35 30 0:25 / /elsewhere rw - cgroup cgroup rw,cpu,cpuacct
";

    #[test]
    fn own_groups() {
        let own = "4:memory:/a/b\n2:cpu,cpuacct:/\n1:name=systemd:/x\n0::/y\n";
        let groups: Vec<_> = parse(HYBRID).iter().map(|h| h.own(own).unwrap()).collect();
        let expected = ["cpu", "systemd/x", "memory/b", "unified/y"];
        assert_eq!(groups, expected.map(|group| Path::new(ROOT).join(group)));
        assert!(parse(HYBRID)[3].is_v2());
        assert_eq!(parse(HYBRID)[0].own("2:cpu:/\n"), None);
    }
}
