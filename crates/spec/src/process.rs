use crate::{is_false, null_default};
use serde::{Deserialize, Serialize};

/// The container's main process, or one that `exec` adds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Process {
    /// Whether a pseudo-terminal is its standard input and output.
    #[serde(skip_serializing_if = "is_false")]
    pub terminal: bool,
    /// The terminal's first size, in characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub console_size: Option<ConsoleSize>,
    /// Who it runs as, in the container's ids.
    pub user: User,
    /// argv; the first word is searched in `PATH` where it has no slash.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub args: Vec<String>,
    /// The whole environment, `NAME=value`.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub env: Vec<String>,
    /// The working directory, absolute inside the container.
    pub cwd: String,
    /// Capabilities by set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<Capabilities>,
    /// Limits as in setrlimit(2).
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub rlimits: Vec<Rlimit>,
    /// PR_SET_NO_NEW_PRIVS.
    #[serde(skip_serializing_if = "is_false")]
    pub no_new_privileges: bool,
    /// AppArmor profile to change to at exec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apparmor_profile: Option<String>,
    /// SELinux label to change to at exec.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selinux_label: Option<String>,
    /// -1000 to 1000, as in `/proc/PID/oom_score_adj`; absent: as the runtime's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_score_adj: Option<i32>,
    /// sched_setattr(2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler: Option<Scheduler>,
    /// ioprio_set(2).
    #[serde(skip_serializing_if = "Option::is_none", rename = "ioPriority")]
    pub io_priority: Option<IoPriority>,
    /// CPU affinity of a process that `exec` adds.
    #[serde(skip_serializing_if = "Option::is_none", rename = "execCPUAffinity")]
    pub exec_cpu_affinity: Option<ExecCpuAffinity>,
}

/// A terminal's size in characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConsoleSize {
    /// Rows.
    pub height: u16,
    /// Columns.
    pub width: u16,
}

/// Who a process runs as, in the container's ids.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct User {
    /// User id.
    pub uid: u32,
    /// Primary group id.
    pub gid: u32,
    /// File mode creation mask; absent: 0o022.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// Supplementary group ids.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub additional_gids: Vec<u32>,
}

/// The five capability sets, by name (`CAP_CHOWN`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// What no exec can bring back once it is gone.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub bounding: Vec<String>,
    /// What the kernel checks.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub effective: Vec<String>,
    /// What a file's inheritable set may pass on.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub inheritable: Vec<String>,
    /// What may become effective.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub permitted: Vec<String>,
    /// What survives an exec of an ordinary file without uid 0.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub ambient: Vec<String>,
}

/// One limit of setrlimit(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rlimit {
    /// `RLIMIT_NOFILE` and its kin.
    #[serde(rename = "type")]
    pub kind: String,
    /// The ceiling; `u64::MAX` is no limit.
    pub hard: u64,
    /// The value in force.
    pub soft: u64,
}

/// sched_setattr(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Scheduler {
    /// `SCHED_OTHER`, `SCHED_FIFO`, `SCHED_RR`, `SCHED_BATCH`, `SCHED_ISO`, `SCHED_IDLE` or `SCHED_DEADLINE`.
    pub policy: String,
    /// -20 to 19, for the fair policies.
    pub nice: i32,
    /// 1 to 99, for the real-time policies.
    pub priority: i32,
    /// `SCHED_FLAG_…` names.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub flags: Vec<String>,
    /// Nanoseconds, for `SCHED_DEADLINE`.
    pub runtime: u64,
    /// Nanoseconds, for `SCHED_DEADLINE`.
    pub deadline: u64,
    /// Nanoseconds, for `SCHED_DEADLINE`.
    pub period: u64,
}

/// ioprio_set(2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IoPriority {
    /// `IOPRIO_CLASS_RT`, `IOPRIO_CLASS_BE` or `IOPRIO_CLASS_IDLE`.
    pub class: String,
    /// 0 (first) to 7.
    #[serde(default)]
    pub priority: i32,
}

/// CPU lists (`0-3,7`) of a process that `exec` adds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExecCpuAffinity {
    /// While it joins the container.
    pub initial: String,
    /// Once it runs.
    #[serde(rename = "final")]
    pub last: String,
}
