use crate::leniency::{is_false, null_default};
use serde::{Deserialize, Serialize};

/// Main process of the container, or one that `exec` adds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Process {
    /// True if a pseudo-terminal is its standard input and output.
    #[serde(skip_serializing_if = "is_false")]
    pub terminal: bool,
    /// Initial size of the terminal, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console_size: Option<ConsoleSize>,
    /// User and groups, in the container's ids.
    pub user: User,
    /// Arguments; the first word is searched for in `PATH` if it has no slash.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub args: Vec<String>,
    /// Complete environment, as `NAME=value`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub env: Vec<String>,
    /// Working directory, absolute inside the container.
    pub cwd: String,
    /// Capabilities by set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Limits as in setrlimit(2).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub rlimits: Vec<Rlimit>,
    /// Whether PR_SET_NO_NEW_PRIVS is set.
    #[serde(skip_serializing_if = "is_false")]
    pub no_new_privileges: bool,
    /// AppArmor profile to change to at exec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apparmor_profile: Option<String>,
    /// SELinux label to change to at exec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selinux_label: Option<String>,
    /// Score from -1000 to 1000, as in `/proc/PID/oom_score_adj`; the runtime's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_score_adj: Option<i32>,
    /// Arguments of sched_setattr(2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// Arguments of ioprio_set(2).
    #[serde(skip_serializing_if = "Option::is_none", rename = "ioPriority")]
    pub io_priority: Option<IoPriority>,
    /// CPU affinity of a process that `exec` adds.
    #[serde(skip_serializing_if = "Option::is_none", rename = "execCPUAffinity")]
    pub exec_cpu_affinity: Option<ExecCpuAffinity>,
}

/// Size of a terminal in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleSize {
    /// Rows.
    pub height: u16,
    /// Columns.
    pub width: u16,
}

/// User and groups of a process, in the container's ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// File mode creation mask; 0o022 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Supplementary group ids.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub additional_gids: Vec<u32>,
}

/// Five capability sets, by name (`CAP_CHOWN`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// Upper bound of the capabilities that an exec can give.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub bounding: Vec<String>,
    /// Capabilities that the kernel checks.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub effective: Vec<String>,
    /// Capabilities that a file's inheritable set may pass on.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub inheritable: Vec<String>,
    /// Capabilities that may become effective.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub permitted: Vec<String>,
    /// Capabilities that survive an exec of an ordinary file without uid 0.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub ambient: Vec<String>,
}

/// Limit of setrlimit(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// Name of the resource, `RLIMIT_NOFILE` and its kin.
    #[serde(rename = "type")]
    pub kind: String,
    /// Upper bound of the value; `u64::MAX` means no limit.
    pub hard: u64,
    /// Value in force.
    pub soft: u64,
}

/// Arguments of sched_setattr(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduler {
    /// Policy: `SCHED_OTHER`, `SCHED_FIFO`, `SCHED_RR`, `SCHED_BATCH`, `SCHED_ISO`, `SCHED_IDLE` or `SCHED_DEADLINE`.
    pub policy: String,
    /// Nice value, -20 to 19, for the fair policies.
    pub nice: i32,
    /// Priority, 1 to 99, for the real-time policies.
    pub priority: i32,
    /// Flags as `SCHED_FLAG_…`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub flags: Vec<String>,
    /// Nanoseconds, for `SCHED_DEADLINE`.
    pub runtime: u64,
    /// Nanoseconds, for `SCHED_DEADLINE`.
    pub deadline: u64,
    /// Nanoseconds, for `SCHED_DEADLINE`.
    pub period: u64,
}

/// Arguments of ioprio_set(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoPriority {
    /// Class: `IOPRIO_CLASS_RT`, `IOPRIO_CLASS_BE` or `IOPRIO_CLASS_IDLE`.
    pub class: String,
    /// Priority, 0 (first) to 7.
    #[serde(default)]
    pub priority: i32,
}

/// CPU lists (`0-3,7`) of a process that `exec` adds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecCpuAffinity {
    /// Processors while it joins the container.
    pub initial: String,
    /// Processors once it runs.
    #[serde(rename = "final")]
    pub last: String,
}
