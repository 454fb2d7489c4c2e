//! Cgroups as the host sees them: mounted controllers, and the values in a container's cgroup.

use anyhow::{Context as _, Result, anyhow};
use std::fs;
use std::path::{Path, PathBuf};

/// Mount point of the cgroup hierarchies.
const ROOT: &str = "/sys/fs/cgroup";

/// Returns the mount point of the version 1 hierarchy with this controller (`name=systemd` works too).
pub(crate) fn v1_mount(controller: &str) -> Option<PathBuf> {
    mount("cgroup", |options| {
        options.split(',').any(|option| option == controller)
    })
}

/// Returns the mount point of the version 2 hierarchy.
fn v2_mount() -> Option<PathBuf> {
    mount("cgroup2", |_| true)
}

fn mount(kind: &str, wanted: impl Fn(&str) -> bool) -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    mounts.lines().find_map(|line| {
        let fields: Vec<_> = line.split(' ').collect();
        let [_, point, filesystem, options, ..] = fields[..] else {
            return None;
        };
        (filesystem == kind && wanted(options)).then(|| PathBuf::from(point))
    })
}

/// Parses the cgroup of a process in the hierarchy of a controller from the text of `/proc/PID/cgroup`; an empty
/// controller means version 2.
fn path_in(text: &str, controller: &str) -> Option<String> {
    text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        let path = fields.next()?;
        let found = controllers.split(',').any(|name| name == controller);
        found.then(|| path.trim_start_matches('/').to_owned())
    })
}

/// Returns the version 2 cgroup of this process, if that hierarchy is mounted.
fn own_v2() -> Option<PathBuf> {
    let text = fs::read_to_string("/proc/self/cgroup").ok()?;
    Some(v2_mount()?.join(path_in(&text, "")?))
}

/// True if a controller exists in either version.
pub(crate) fn has_controller(name: &str) -> bool {
    v1_mount(name).is_some() || own_v2().is_some_and(|dir| offers(&dir, name))
}

/// True if the version 2 hierarchy has any controller.
pub(crate) fn v2_has_controllers() -> bool {
    let listed = v2_mount().and_then(|mount| fs::read_to_string(mount.join("cgroup.controllers")).ok());
    listed.is_some_and(|listed| !listed.trim().is_empty())
}

fn offers(dir: &Path, controller: &str) -> bool {
    let listed = fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default();
    listed.split_whitespace().any(|name| name == controller)
}

/// True if this user may make version 2 cgroups below its own, or below its parent, that limit this controller.
pub(crate) fn delegated(controller: &str) -> bool {
    let writable = |dir: &Path| rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok();
    own_v2().is_some_and(|own| {
        own.ancestors().take(2).any(|dir| {
            dir.starts_with(ROOT)
                && offers(dir, controller)
                && writable(dir)
                && writable(&dir.join("cgroup.procs"))
        })
    })
}

/// Returns the directory of the cgroup that limits a controller for a process, as the host sees it.
pub(crate) fn directory(pid: i32, controller: &str) -> Result<PathBuf> {
    let file = format!("/proc/{pid}/cgroup");
    let text = fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
    let (mount, path) = match v1_mount(controller) {
        Some(mount) => (Some(mount), path_in(&text, controller)),
        None => (v2_mount(), path_in(&text, "")),
    };
    mount
        .zip(path)
        .map(|(mount, path)| mount.join(path))
        .ok_or_else(|| anyhow!("process {pid} has no cgroup for {controller}:\n{text}"))
}

/// Reads a limit of a process: `v1` and `v2` are the file's names in the two versions.
pub(crate) fn limit(pid: i32, controller: &str, v1: &str, v2: &str) -> Result<String> {
    let name = if v1_mount(controller).is_some() { v1 } else { v2 };
    let file = directory(pid, controller)?.join(name);
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    Ok(text.trim().to_owned())
}

/// Lists all cgroup directories of a process, in every mounted hierarchy, without the roots.
pub(crate) fn directories(pid: i32) -> Result<Vec<PathBuf>> {
    let file = format!("/proc/{pid}/cgroup");
    let text = fs::read_to_string(&file).with_context(|| format!("read {file}"))?;
    let dirs = text.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?.trim_start_matches('/'));
        let first = controllers.split(',').next()?;
        let mount = if first.is_empty() {
            v2_mount()
        } else {
            v1_mount(first)
        };
        (!path.is_empty()).then_some(mount?.join(path))
    });
    Ok(dirs.collect())
}

/// Lists every cgroup directory on the machine without processes in it or below it, sorted.
pub(crate) fn unpopulated() -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect_unpopulated(Path::new(ROOT), &mut found);
    found.sort();
    found
}

/// Adds the unpopulated directories below `dir`. Returns true if any process was seen.
fn collect_unpopulated(dir: &Path, found: &mut Vec<PathBuf>) -> bool {
    let mut populated =
        fs::read_to_string(dir.join("cgroup.procs")).is_ok_and(|procs| !procs.trim().is_empty());
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            populated |= collect_unpopulated(&entry.path(), found);
        }
    }
    if !populated {
        found.push(dir.to_owned());
    }
    populated
}

#[cfg(test)]
mod tests {
    use super::path_in;

    #[test]
    fn cgroup_lines() {
        let text = "8:pids:/a\n2:cpu,cpuacct:/b/c\n9:name=systemd:/\n0::/d:e\n";
        assert_eq!(path_in(text, "pids").as_deref(), Some("a"));
        assert_eq!(path_in(text, "cpuacct").as_deref(), Some("b/c"));
        assert_eq!(path_in(text, "").as_deref(), Some("d:e"));
        assert_eq!(path_in(text, "memory"), None);
    }
}
