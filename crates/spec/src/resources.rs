use crate::leniency::null_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Limits of a cgroup. An absent value leaves the kernel's own in force.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Resources {
    /// Device access, later rules over earlier ones.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub devices: Vec<DeviceRule>,
    /// Memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<Memory>,
    /// Processor time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<Cpu>,
    /// Number of processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<Pids>,
    /// Block devices.
    #[serde(rename = "blockIO", skip_serializing_if = "Option::is_none")]
    pub block_io: Option<BlockIo>,
    /// Huge pages.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub hugepage_limits: Vec<HugepageLimit>,
    /// Network classes (v1 only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<Network>,
    /// RDMA, by device.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub rdma: BTreeMap<String, Rdma>,
    /// Contents for files of cgroup v2, by file name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub unified: BTreeMap<String, String>,
}

/// Rule of the device controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceRule {
    /// True to allow, false to deny.
    pub allow: bool,
    /// Kind of device: `c`, `b` or `a` (both); both if absent.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Major number; every one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major: Option<i64>,
    /// Minor number; every one if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<i64>,
    /// Letters of `r`, `w` and `m` (mknod); all if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
}

/// Memory limits in bytes; -1 means no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Hard limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// Soft limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<i64>,
    /// Limit of memory and swap together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<i64>,
    /// Limit of kernel memory (v1, gone from newer kernels).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<i64>,
    /// Limit of TCP buffers (v1).
    #[serde(rename = "kernelTCP", skip_serializing_if = "Option::is_none")]
    pub kernel_tcp: Option<i64>,
    /// Swappiness, 0 to 100 (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swappiness: Option<u64>,
    /// True if tasks wait instead of being killed (v1).
    #[serde(rename = "disableOOMKiller", skip_serializing_if = "Option::is_none")]
    pub disable_oom_killer: Option<bool>,
    /// True if children count towards their parents (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_hierarchy: Option<bool>,
    /// True if a limit below the usage is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_before_update: Option<bool>,
}

/// Processor limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cpu {
    /// Relative weight, 2 to 262144; the kernel's default is 1024.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<u64>,
    /// Microseconds of processor time in one period; -1 means no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<i64>,
    /// Microseconds that may be saved up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Length of a period in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<u64>,
    /// Microseconds of real-time scheduling in one period (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime_runtime: Option<i64>,
    /// Length of a real-time period in microseconds (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime_period: Option<u64>,
    /// List of processors, `0-3,7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// List of memory nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mems: Option<String>,
    /// Scheduling of the group: 1 means SCHED_IDLE.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<i64>,
}

/// Number of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pids {
    /// Upper bound; a negative one means no limit, and so does 0 before version 1.3 of the specification.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

/// Block device limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockIo {
    /// Weight, 10 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// Weight against child groups, 10 to 1000 (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf_weight: Option<u16>,
    /// Weights by device.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub weight_device: Vec<WeightDevice>,
    /// Limits of reading in bytes per second.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub throttle_read_bps_device: Vec<ThrottleDevice>,
    /// Limits of writing in bytes per second.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub throttle_write_bps_device: Vec<ThrottleDevice>,
    /// Limits of reads per second.
    #[serde(
        rename = "throttleReadIOPSDevice",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub throttle_read_iops_device: Vec<ThrottleDevice>,
    /// Limits of writes per second.
    #[serde(
        rename = "throttleWriteIOPSDevice",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub throttle_write_iops_device: Vec<ThrottleDevice>,
}

/// Weight of one block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightDevice {
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// Weight, 10 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// Weight against child groups, 10 to 1000 (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf_weight: Option<u16>,
}

/// Rate of one block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ThrottleDevice {
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// Bytes or operations per second.
    pub rate: u64,
}

/// Limit of huge pages of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HugepageLimit {
    /// Size of a page, `2MB`, `1GB`.
    pub page_size: String,
    /// Limit in bytes.
    pub limit: u64,
}

/// Network classes (v1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// Class for net_cls.
    #[serde(rename = "classID", skip_serializing_if = "Option::is_none")]
    pub class_id: Option<u32>,
    /// Priorities for net_prio.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub priorities: Vec<InterfacePriority>,
}

/// Priority of one network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfacePriority {
    /// Name of the interface.
    pub name: String,
    /// Priority of its traffic.
    pub priority: u32,
}

/// Limits of RDMA resources of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rdma {
    /// Number of hca_handle resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hca_handles: Option<u32>,
    /// Number of hca_object resources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hca_objects: Option<u32>,
}
