//! The cgroup hierarchies of the host, and the group in each one that a run stays in.
//!
//! The run writes nothing outside of these groups: a process enters them, and they are removed when the run ends.

use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};

/// Directory below which the hierarchies are mounted.
pub(super) const ROOT: &str = "/sys/fs/cgroup";

/// A mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hierarchy {
    /// File system type: `cgroup` for v1, or `cgroup2`.
    pub(super) kind: String,
    /// Mount point of the hierarchy, or of the visible part of it.
    pub(super) mount: PathBuf,
    /// Path of the group at the mount point.
    root: String,
    /// Controllers of v1, as given to mount(8); `name=systemd` for a hierarchy without controllers.
    pub(super) controllers: String,
}

impl Hierarchy {
    pub(super) fn is_v2(&self) -> bool {
        self.kind == "cgroup2"
    }

    /// Returns the directory of the group that /proc/self/cgroup names for this hierarchy.
    fn own(&self, own: &str) -> Option<PathBuf> {
        let path = own.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            (controllers == self.controllers).then_some(path)
        })?;
        let below = path.strip_prefix(&self.root).unwrap_or(path);
        Some(self.mount.join(below.trim_start_matches('/')))
    }
}

/// Parses the hierarchies below [`ROOT`] out of proc_pid_mountinfo(5).
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

/// Extracts the controllers: `rw,cpu,cpuacct` → `cpu,cpuacct`.
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
/// Lists the hierarchies; an error without any, because no runtime would run.
pub(super) fn all() -> Result<Vec<Hierarchy>> {
    let path = "/proc/self/mountinfo";
    let hierarchies = parse(&std::fs::read_to_string(path).with_context(|| format!("read {path}"))?);
    if hierarchies.is_empty() {
        bail!("no cgroup hierarchy is mounted below {ROOT}");
    }
    Ok(hierarchies)
}

/// Returns the paths of groups with this name below this process's own in each hierarchy, whether they exist or
/// not.
fn groups(name: &str) -> Result<Vec<PathBuf>> {
    let path = "/proc/self/cgroup";
    let own = std::fs::read_to_string(path).with_context(|| format!("read {path}"))?;
    let hierarchies = all()?;
    let groups = hierarchies.iter().filter_map(|hierarchy| hierarchy.own(&own));
    Ok(groups.map(|group| group.join(name)).collect())
}

/// Creates the groups, after it has removed those that a killed run left behind.
pub(super) fn make_groups(name: &str) -> Result<Vec<PathBuf>> {
    let groups = groups(name)?;
    remove_groups(&groups)?;
    for group in &groups {
        std::fs::create_dir(group).with_context(|| format!("create {}", group.display()))?;
        // cpuset of v1 accepts no process in a group without processors.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let path = group.join(file);
            if matches!(std::fs::read_to_string(&path), Ok(text) if text.trim().is_empty()) {
                let from = group.with_file_name(file);
                std::fs::copy(&from, &path).with_context(|| format!("copy {}", from.display()))?;
            }
        }
        // A group can only hand on real-time runtime that it has itself. The copy may fail, because other groups may
        // have all of it.
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

/// Lists the groups below a group, the deepest first. A group that vanishes meanwhile is left out.
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
