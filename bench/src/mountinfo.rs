//! `/proc/self/mountinfo` (proc_pid_mountinfo(5)): the parts needed for conditions and leaks.

use anyhow::{Context, Result};
use std::fs;
use std::path::PathBuf;

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// Mount point.
    pub target: PathBuf,
    /// The kernel's id of the mount: unique among the mounts that exist at the same time.
    pub id: u64,
    /// Type of the file system.
    pub fs_type: String,
    /// True if mounts below it propagate to peers.
    pub shared: bool,
}

/// Reads the mounts of this process's namespace.
pub fn read() -> Result<Vec<Mount>> {
    let text = fs::read_to_string("/proc/self/mountinfo").context("read /proc/self/mountinfo")?;
    Ok(parse(&text))
}

/// Parses mountinfo; lines with another format are left out.
pub fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut fields = left.split(' ');
    let id = fields.next()?.parse().ok()?;
    let target = PathBuf::from(fields.nth(3)?);
    let shared = fields.skip(1).any(|field| field.starts_with("shared:"));
    Some(Mount {
        target,
        id,
        fs_type: right.split(' ').next()?.to_owned(),
        shared,
    })
}

/// Returns the machine's cgroup layout: `v2`, `hybrid`, `v1` or `none`.
pub fn cgroup_mode(mounts: &[Mount]) -> &'static str {
    let cgroup_mounts = |fs_type: &str| {
        mounts
            .iter()
            .any(|mount| mount.fs_type == fs_type && mount.target.starts_with("/sys/fs/cgroup"))
    };
    match (cgroup_mounts("cgroup"), cgroup_mounts("cgroup2")) {
        (true, true) => "hybrid",
        (true, false) => "v1",
        (false, true) => "v2",
        (false, false) => "none",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
23 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime master:3 - cgroup cgroup rw,cpu
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
nonsense
";

    #[test]
    fn lines_become_mounts() {
        let mounts = parse(HYBRID);
        assert_eq!(mounts.len(), 4);
        assert_eq!(
            (mounts[0].id, mounts[0].shared, mounts[0].fs_type.as_str()),
            (23, true, "ext4")
        );
        assert_eq!(
            (mounts[2].target.to_str(), mounts[2].shared),
            (Some("/sys/fs/cgroup/cpu"), false)
        );
    }

    #[test]
    fn cgroup_modes() {
        let mounts = parse(HYBRID);
        assert_eq!(cgroup_mode(&mounts), "hybrid");
        assert_eq!(cgroup_mode(&mounts[..3]), "v1");
        assert_eq!(cgroup_mode(&mounts[3..]), "v2");
        assert_eq!(cgroup_mode(&mounts[..2]), "none");
    }
}
