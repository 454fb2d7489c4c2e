use crate::leniency::null_default;
use crate::resources::Resources;
use crate::seccomp::Seccomp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Linux part of a [`crate::Spec`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Linux {
    /// Namespaces created or joined; for a type that is not listed, the runtime's own is kept.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub namespaces: Vec<Namespace>,
    /// User ids of the user namespace.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub uid_mappings: Vec<IdMapping>,
    /// Group ids of the user namespace.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub gid_mappings: Vec<IdMapping>,
    /// Clocks of the time namespace, by `monotonic` and `boottime`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub time_offsets: BTreeMap<String, TimeOffset>,
    /// Device nodes made beside the default ones.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub devices: Vec<Device>,
    /// Network devices moved into the container, by their name on the host.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub net_devices: BTreeMap<String, NetDevice>,
    /// Path of the cgroup below the mount points, or `slice:prefix:name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroups_path: Option<String>,
    /// Limits of the cgroup.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Kernel parameters, `net.ipv4.ip_forward` to `1`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub sysctl: BTreeMap<String, String>,
    /// System call filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<Seccomp>,
    /// Propagation: `private`, `shared`, `slave` or `unbindable`, with a prefix `r` for the whole tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rootfs_propagation: Option<String>,
    /// Paths that read as empty.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub masked_paths: Vec<String>,
    /// Paths that cannot be written.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub readonly_paths: Vec<String>,
    /// SELinux label of the mounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mount_label: Option<String>,
    /// Settings of resctrl.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intel_rdt: Option<IntelRdt>,
    /// Arguments of personality(2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<Personality>,
    /// Arguments of set_mempolicy(2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_policy: Option<MemoryPolicy>,
}

/// Types of namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceType {
    /// Type of user_namespaces(7).
    User,
    /// Type of cgroup_namespaces(7).
    Cgroup,
    /// Type of ipc_namespaces(7).
    Ipc,
    /// Type of uts_namespaces(7).
    Uts,
    /// Type of network_namespaces(7).
    Network,
    /// Type of pid_namespaces(7).
    Pid,
    /// Type of mount_namespaces(7).
    Mount,
    /// Type of time_namespaces(7).
    Time,
}

/// Namespace to create or, with a path, to join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Type of the namespace.
    #[serde(rename = "type")]
    pub kind: NamespaceType,
    /// Path of the namespace to join, absolute in the runtime's mount namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Line of a uid_map or gid_map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMapping {
    /// First id inside.
    #[serde(rename = "containerID")]
    pub container_id: u32,
    /// First id outside.
    #[serde(rename = "hostID")]
    pub host_id: u32,
    /// Number of ids.
    pub size: u32,
}

impl IdMapping {
    /// A line of a map: first id inside, first id outside, number of ids.
    #[must_use]
    pub const fn new(container_id: u32, host_id: u32, size: u32) -> Self {
        Self {
            container_id,
            host_id,
            size,
        }
    }

    /// Reads a map as the kernel shows it, `/proc/PID/uid_map`. What is not a line of a map is left out.
    #[must_use]
    pub fn read(text: &str) -> Vec<Self> {
        let line = |line: &str| {
            let mut numbers = line.split_ascii_whitespace().map(str::parse);
            let mut number = || numbers.next()?.ok();
            Some(Self::new(number()?, number()?, number()?))
        };
        text.lines().filter_map(line).collect()
    }

    /// The id outside of an id inside; `None` if the map has none.
    #[must_use]
    pub fn outside(maps: &[Self], id: u32) -> Option<u32> {
        maps.iter().find_map(|map| {
            let offset = id
                .checked_sub(map.container_id)
                .filter(|offset| *offset < map.size)?;
            map.host_id.checked_add(offset)
        })
    }

    /// The id inside of an id outside; `None` if the map has none.
    #[must_use]
    pub fn inside(maps: &[Self], id: u32) -> Option<u32> {
        maps.iter().find_map(|map| {
            let offset = id.checked_sub(map.host_id).filter(|offset| *offset < map.size)?;
            map.container_id.checked_add(offset)
        })
    }
}

impl std::fmt::Display for IdMapping {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} {}", self.container_id, self.host_id, self.size)
    }
}

/// Offset by which a clock of the time namespace is ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeOffset {
    /// Seconds.
    pub secs: i64,
    /// Nanoseconds.
    pub nanosecs: u32,
}

/// Kinds of device nodes, as `mknod(1)` writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceType {
    /// Block device.
    #[serde(rename = "b")]
    Block,
    /// Character device.
    #[serde(rename = "c")]
    Char,
    /// Unbuffered character device, which Linux does not distinguish from `c`.
    #[serde(rename = "u")]
    Unbuffered,
    /// Named pipe.
    #[serde(rename = "p")]
    Fifo,
}

/// Device node to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// Kind of the node.
    #[serde(rename = "type")]
    pub kind: DeviceType,
    /// Absolute path inside the container.
    pub path: String,
    /// Major number.
    #[serde(default)]
    pub major: i64,
    /// Minor number.
    #[serde(default)]
    pub minor: i64,
    /// Permission bits; 0o666 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// Owner, in the container's ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group, in the container's ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

/// Network device moved into the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetDevice {
    /// Name inside; the host's if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Arguments of personality(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Personality {
    /// `LINUX` or `LINUX32`.
    pub domain: String,
    /// Flags; the specification defines none yet.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub flags: Vec<String>,
}

/// Arguments of set_mempolicy(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryPolicy {
    /// Mode as `MPOL_…`.
    pub mode: String,
    /// List of nodes, `0-1,3`.
    pub nodes: String,
    /// Flags as `MPOL_F_…`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub flags: Vec<String>,
}

/// Settings of Intel's resctrl file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IntelRdt {
    /// Class of service.
    #[serde(rename = "closID", skip_serializing_if = "Option::is_none")]
    pub clos_id: Option<String>,
    /// Lines for the schemata file.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub schemata: Vec<String>,
    /// Line for the L3 cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l3_cache_schema: Option<String>,
    /// Line for the memory bandwidth.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_bw_schema: Option<String>,
    /// True if monitoring is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_monitoring: Option<bool>,
}
