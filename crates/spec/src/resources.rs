use crate::null_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a cgroup limits. An absent value leaves the kernel's own in force.
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
    /// cgroup v2 files and what to write into them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "null_default")]
    pub unified: BTreeMap<String, String>,
}

/// One rule of the device controller.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DeviceRule {
    /// Allow or deny.
    pub allow: bool,
    /// `a` (both), `c` or `b`; absent: both.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Absent: every major.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub major: Option<i64>,
    /// Absent: every minor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minor: Option<i64>,
    /// Of `r`, `w` and `m` (mknod); absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access: Option<String>,
}

/// Memory limits in bytes; -1 is no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// The hard limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
    /// The soft limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<i64>,
    /// Memory and swap together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap: Option<i64>,
    /// Kernel memory (v1, gone from newer kernels).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<i64>,
    /// TCP buffers (v1).
    #[serde(rename = "kernelTCP", skip_serializing_if = "Option::is_none")]
    pub kernel_tcp: Option<i64>,
    /// 0 to 100 (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swappiness: Option<u64>,
    /// Tasks wait instead of being killed (v1).
    #[serde(rename = "disableOOMKiller", skip_serializing_if = "Option::is_none")]
    pub disable_oom_killer: Option<bool>,
    /// Children count towards their parents (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_hierarchy: Option<bool>,
    /// Refuse a limit below what is in use.
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
    /// Microseconds of processor time in one period; -1 is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quota: Option<i64>,
    /// Microseconds that may be saved up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
    /// Microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub period: Option<u64>,
    /// Microseconds of real-time scheduling in one period (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime_runtime: Option<i64>,
    /// Microseconds (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub realtime_period: Option<u64>,
    /// CPU list, `0-3,7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// Memory node list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mems: Option<String>,
    /// 1: SCHED_IDLE for the whole group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<i64>,
}

/// Number of processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Pids {
    /// At most this many; 0 or less is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<i64>,
}

/// Block device limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BlockIo {
    /// 10 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// 10 to 1000, against child groups (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf_weight: Option<u16>,
    /// Weights by device.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub weight_device: Vec<WeightDevice>,
    /// Bytes per second.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub throttle_read_bps_device: Vec<ThrottleDevice>,
    /// Bytes per second.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub throttle_write_bps_device: Vec<ThrottleDevice>,
    /// Operations per second.
    #[serde(
        rename = "throttleReadIOPSDevice",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub throttle_read_iops_device: Vec<ThrottleDevice>,
    /// Operations per second.
    #[serde(
        rename = "throttleWriteIOPSDevice",
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub throttle_write_iops_device: Vec<ThrottleDevice>,
}

/// A weight for one block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WeightDevice {
    /// Major number.
    pub major: i64,
    /// Minor number.
    pub minor: i64,
    /// 10 to 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// 10 to 1000 (v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leaf_weight: Option<u16>,
}

/// A rate for one block device.
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

/// Huge pages of one size.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HugepageLimit {
    /// `2MB`, `1GB`.
    pub page_size: String,
    /// Bytes.
    pub limit: u64,
}

/// Network classes (v1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Network {
    /// net_cls.
    #[serde(rename = "classID", skip_serializing_if = "Option::is_none")]
    pub class_id: Option<u32>,
    /// net_prio.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub priorities: Vec<InterfacePriority>,
}

/// A priority for one network interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InterfacePriority {
    /// The interface.
    pub name: String,
    /// Its priority.
    pub priority: u32,
}

/// RDMA resources of one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rdma {
    /// hca_handle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hca_handles: Option<u32>,
    /// hca_object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hca_objects: Option<u32>,
}
