//! Hierarchy of each controller: `/proc/self/cgroup` joined with the mounts.

use crate::controllers::Controllers;
use crate::file;
use rustix::fs::statfs;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Place where every distribution mounts cgroups.
pub(crate) const STANDARD: &str = "/sys/fs/cgroup";
const CGROUP_SUPER_MAGIC: u64 = 0x0027_e0eb;
const CGROUP2_SUPER_MAGIC: u64 = 0x6367_7270;
const TMPFS_MAGIC: u64 = 0x0102_1994;
/// Bound of the hierarchies: the kernel has 14 controllers; the rest are named hierarchies, which a container does
/// not need.
const MAX_HIERARCHIES: usize = 64;

/// Reason why the layout could not be read.
#[derive(Debug, Error)]
pub enum LayoutError {
    /// A file under /proc cannot be read.
    #[error("cannot find out where cgroups are mounted: cannot read {path}")]
    Read {
        /// Path of the file.
        path: &'static str,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
}

/// Versions of cgroups that the machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Hierarchies of v1 only, or no hierarchy.
    V1,
    /// Both versions; each controller is in one of them.
    Hybrid,
    /// Only the hierarchy of v2.
    V2,
}

/// Mounted hierarchy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Controllers of it; empty for v2 and for named hierarchies.
    pub controllers: Controllers,
    /// Name of a named hierarchy (v1): `systemd` for `name=systemd`.
    pub name: Option<String>,
    /// Mount point.
    pub mount_point: PathBuf,
    /// Path of the caller's own cgroup, relative to the mount point; empty for the mounted root itself.
    pub own_path: PathBuf,
}

impl Hierarchy {
    /// Returns the directory of the caller's own cgroup.
    #[must_use]
    pub fn own_dir(&self) -> PathBuf {
        if self.own_path.as_os_str().is_empty() {
            return self.mount_point.clone();
        }
        self.mount_point.join(&self.own_path)
    }
}

/// Every mounted hierarchy, with the caller's place in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Hierarchies of v1, co-mounted controllers together; named ones, which have no limits, are included.
    pub v1: Vec<Hierarchy>,
    /// Hierarchy of v2.
    pub v2: Option<Hierarchy>,
}

impl Layout {
    /// Returns the name that containers look for of a directory's v1 hierarchy: `cpu,cpuacct`, or `systemd` for
    /// `name=systemd`.
    #[must_use]
    pub fn v1_name(&self, dir: &Path) -> Option<String> {
        let hierarchy = self
            .v1
            .iter()
            .find(|hierarchy| dir.starts_with(&hierarchy.mount_point))?;
        let name = hierarchy.name.clone();
        Some(name.unwrap_or_else(|| hierarchy.controllers.to_string()))
    }

    /// Returns the versions of cgroups here.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match (&self.v2, self.v1.is_empty()) {
            (None, _) => Kind::V1,
            (Some(_), true) => Kind::V2,
            (Some(_), false) => Kind::Hybrid,
        }
    }

    /// Returns every controller that is in v1.
    #[must_use]
    pub fn v1_controllers(&self) -> Controllers {
        self.v1
            .iter()
            .fold(Controllers::NONE, |all, h| all.union(h.controllers))
    }

    /// Reads the layout of the calling process.
    ///
    /// A machine with cgroups in the usual place is recognised by one statfs(2) of each own cgroup's directory: the
    /// kernel renders all of mountinfo for the first byte read of it, and on a host with hundreds of containers that
    /// is hundreds of lines. Anything unusual falls back to parsing it. Measured with ten hierarchies: 43 us (13 of
    /// them for /proc/self/cgroup) against 76 us with a mountinfo of twenty lines.
    ///
    /// # Errors
    /// /proc/self/cgroup or, if needed, /proc/self/mountinfo cannot be read.
    pub fn read() -> Result<Self, LayoutError> {
        let own = read_proc("/proc/self/cgroup")?;
        if let Some(layout) = Self::standard(&own, Path::new(STANDARD)) {
            return Ok(layout);
        }
        Ok(Self::parse(&own, &read_proc("/proc/self/mountinfo")?))
    }

    /// Joins the text of /proc/self/cgroup with that of /proc/self/mountinfo. Unknown lines are skipped.
    #[must_use]
    pub fn parse(own: &str, mountinfo: &str) -> Self {
        let mounts = parse_mounts(mountinfo);
        let mut layout = Self::default();
        for line in own.lines().filter_map(OwnLine::parse).take(MAX_HIERARCHIES) {
            let candidates = mounts.iter().filter(|mount| mount.is_of(&line));
            let Some((mount, own_path)) = candidates
                .filter_map(|mount| below_root(line.path, &mount.root).map(|own| (mount, own)))
                .min_by_key(|(mount, _)| mount.root.len())
                .or_else(|| {
                    mounts
                        .iter()
                        .find(|m| m.is_of(&line))
                        .map(|m| (m, PathBuf::new()))
                })
            else {
                continue;
            };
            layout.push(&line, PathBuf::from(&mount.mount_point), own_path);
        }
        layout
    }

    /// Returns the layout if every hierarchy of `own` is in the place that systemd and cgroupfs-mount chose, else
    /// `None`.
    pub(crate) fn standard(own: &str, root: &Path) -> Option<Self> {
        let unified = match file_system(root)? {
            CGROUP2_SUPER_MAGIC => root.to_path_buf(),
            TMPFS_MAGIC => root.join("unified"),
            _ => return None,
        };
        let pure_v2 = unified == root;
        let mut layout = Self::default();
        for line in own.lines().filter_map(OwnLine::parse).take(MAX_HIERARCHIES) {
            let own_path = below_root(line.path, "/")?;
            let (mount_point, magic) = match (line.is_v2, pure_v2) {
                (true, _) => (unified.clone(), CGROUP2_SUPER_MAGIC),
                (false, true) => continue,
                (false, false) => (root.join(line.name.unwrap_or(line.list)), CGROUP_SUPER_MAGIC),
            };
            match file_system(&mount_point.join(&own_path)) {
                Some(found) if found == magic => layout.push(&line, mount_point, own_path),
                // Every kernel with v2 lists it, mounted or not.
                _ if line.is_v2 && !pure_v2 => {}
                _ => return None,
            }
        }
        (layout.v2.is_some() || !layout.v1.is_empty()).then_some(layout)
    }

    fn push(&mut self, line: &OwnLine<'_>, mount_point: PathBuf, own_path: PathBuf) {
        let controllers = if line.is_v2 {
            Controllers::NONE
        } else {
            line.controllers
        };
        let hierarchy = Hierarchy {
            controllers,
            name: line.name.map(str::to_owned),
            mount_point,
            own_path,
        };
        if line.is_v2 {
            self.v2 = Some(hierarchy);
        } else {
            self.v1.push(hierarchy);
        }
    }
}

fn read_proc(path: &'static str) -> Result<String, LayoutError> {
    file::read_path(path).map_err(|source| LayoutError::Read { path, source })
}

fn file_system(path: &Path) -> Option<u64> {
    statfs(path).ok().map(|fs| fs.f_type as u64)
}

/// Line of /proc/self/cgroup: `id:controllers:path`.
struct OwnLine<'a> {
    list: &'a str,
    controllers: Controllers,
    name: Option<&'a str>,
    is_v2: bool,
    path: &'a str,
}

impl<'a> OwnLine<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.splitn(3, ':');
        let (id, list, path) = (fields.next()?, fields.next()?, fields.next()?);
        let is_v2 = id == "0" && list.is_empty();
        let controllers = Controllers::from_list(list, ',');
        let name = list
            .split(',')
            .find_map(|word| word.strip_prefix("name="))
            .filter(|n| plain(n));
        // A hierarchy of unknown controllers can neither be limited nor left alone in a useful way.
        if !path.starts_with('/') || !(is_v2 || name.is_some() || !controllers.is_empty()) {
            return None;
        }
        // The list becomes a directory's name in `standard`.
        (is_v2 || name.is_some() || plain(list)).then_some(Self {
            list,
            controllers,
            name,
            is_v2,
            path,
        })
    }
}

fn plain(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && name != "." && name != ".."
}

/// Returns `path` relative to `root`. `None` if it is not below `root`, as when a cgroup namespace hides its
/// beginning.
fn below_root(path: &str, root: &str) -> Option<PathBuf> {
    let relative = Path::new(path).strip_prefix(root).ok()?;
    let plain = relative
        .components()
        .all(|c| matches!(c, std::path::Component::Normal(_)));
    plain.then(|| relative.to_path_buf())
}

/// Mount of a cgroup file system.
struct Mount {
    root: String,
    mount_point: String,
    is_v2: bool,
    controllers: Controllers,
    name: Option<String>,
}

impl Mount {
    fn is_of(&self, line: &OwnLine<'_>) -> bool {
        match (self.is_v2, line.is_v2) {
            (true, true) => true,
            (false, false) if line.controllers.is_empty() => self.name.as_deref() == line.name,
            (false, false) => self.controllers.intersects(line.controllers),
            _ => false,
        }
    }
}

fn parse_mounts(mountinfo: &str) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = Vec::new();
    for line in mountinfo.lines() {
        // The number of fields before the lone dash varies; none of them can contain a space.
        let Some((before, after)) = line.split_once(" - ") else {
            continue;
        };
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        let (Some(root), Some(mount_point)) = (before.next(), before.next()) else {
            continue;
        };
        let mount_point = unescape(mount_point);
        // Earlier mounts at this place, or below it, can no longer be reached.
        if mount_point != "/" {
            mounts.retain(|m| !Path::new(&m.mount_point).starts_with(&mount_point));
        }
        let is_v2 = match after.next() {
            Some("cgroup") => false,
            Some("cgroup2") => true,
            _ => continue,
        };
        if mounts.len() >= MAX_HIERARCHIES {
            continue;
        }
        let options = after.nth(1).unwrap_or_default();
        let name = options
            .split(',')
            .find_map(|o| o.strip_prefix("name="))
            .map(str::to_owned);
        let controllers = if is_v2 {
            Controllers::NONE
        } else {
            Controllers::from_list(options, ',')
        };
        mounts.push(Mount {
            root: unescape(root),
            mount_point,
            is_v2,
            controllers,
            name,
        });
    }
    mounts
}

/// Decodes the `\040` that the kernel writes for blanks, tabs, line breaks and backslashes.
fn unescape(field: &str) -> String {
    let mut text = String::with_capacity(field.len());
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('\\') {
        text.push_str(before);
        let code = after
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code.filter(u8::is_ascii) {
            Some(byte) => {
                text.push(char::from(byte));
                rest = &after[3..];
            }
            None => {
                text.push('\\');
                rest = after;
            }
        }
    }
    text + rest
}

#[cfg(test)]
mod tests;
