use crate::{Resources, Seccomp, null_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The Linux part of a [`crate::Spec`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Linux {
    /// Namespaces created or joined; a type that is not listed is the runtime's own.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub namespaces: Vec<Namespace>,
    /// The user namespace's user ids.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub uid_mappings: Vec<IdMapping>,
    /// The user namespace's group ids.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub gid_mappings: Vec<IdMapping>,
    /// The time namespace's clocks, by `monotonic` and `boottime`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub time_offsets: BTreeMap<String, TimeOffset>,
    /// Device nodes made beside the default ones.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub devices: Vec<Device>,
    /// Network devices moved into the container, by their name on the host.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub net_devices: BTreeMap<String, NetDevice>,
    /// The cgroup, as a path below the mount points or as `slice:prefix:name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroups_path: Option<String>,
    /// What the cgroup limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Kernel parameters, `net.ipv4.ip_forward` to `1`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub sysctl: BTreeMap<String, String>,
    /// The system call filter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seccomp: Option<Seccomp>,
    /// `private`, `shared`, `slave` or `unbindable`, with an `r` before for the whole tree.
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
    /// resctrl.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intel_rdt: Option<IntelRdt>,
    /// personality(2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub personality: Option<Personality>,
    /// set_mempolicy(2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_policy: Option<MemoryPolicy>,
}

/// The namespace types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NamespaceType {
    /// user_namespaces(7)
    User,
    /// cgroup_namespaces(7)
    Cgroup,
    /// ipc_namespaces(7)
    Ipc,
    /// uts_namespaces(7)
    Uts,
    /// network_namespaces(7)
    Network,
    /// pid_namespaces(7)
    Pid,
    /// mount_namespaces(7)
    Mount,
    /// time_namespaces(7)
    Time,
}

/// A namespace to create, or to join where there is a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Namespace {
    /// Which kind.
    #[serde(rename = "type")]
    pub kind: NamespaceType,
    /// The one to join, absolute in the runtime's mount namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// One line of a uid_map or gid_map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdMapping {
    /// First id inside.
    #[serde(rename = "containerID")]
    pub container_id: u32,
    /// First id outside.
    #[serde(rename = "hostID")]
    pub host_id: u32,
    /// How many.
    pub size: u32,
}

/// How far a clock of the time namespace is ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TimeOffset {
    /// Seconds.
    pub secs: i64,
    /// Nanoseconds.
    pub nanosecs: u32,
}

/// The kinds of a device node, as `mknod(1)` writes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeviceType {
    /// Block.
    #[serde(rename = "b")]
    Block,
    /// Character.
    #[serde(rename = "c")]
    Char,
    /// Character, unbuffered: the same to Linux.
    #[serde(rename = "u")]
    Unbuffered,
    /// A named pipe.
    #[serde(rename = "p")]
    Fifo,
}

/// A device node to make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Device {
    /// The kind of node.
    #[serde(rename = "type")]
    pub kind: DeviceType,
    /// Where, absolute inside the container.
    pub path: String,
    /// Major number.
    #[serde(default)]
    pub major: i64,
    /// Minor number.
    #[serde(default)]
    pub minor: i64,
    /// Permission bits; absent: 0o666.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_mode: Option<u32>,
    /// Owner, in the container's ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// Group, in the container's ids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

/// A network device moved into the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetDevice {
    /// Its name inside; absent: as on the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// personality(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Personality {
    /// `LINUX` or `LINUX32`.
    pub domain: String,
    /// None are defined yet.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub flags: Vec<String>,
}

/// set_mempolicy(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryPolicy {
    /// `MPOL_…`
    pub mode: String,
    /// A node list, `0-1,3`.
    pub nodes: String,
    /// `MPOL_F_…`
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub flags: Vec<String>,
}

/// Intel's resctrl file system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IntelRdt {
    /// The class of service.
    #[serde(rename = "closID", skip_serializing_if = "Option::is_none")]
    pub clos_id: Option<String>,
    /// Lines for the schemata file.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub schemata: Vec<String>,
    /// The L3 line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l3_cache_schema: Option<String>,
    /// The memory bandwidth line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_bw_schema: Option<String>,
    /// Whether monitoring is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_monitoring: Option<bool>,
}
