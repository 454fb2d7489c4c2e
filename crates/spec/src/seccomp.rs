use crate::leniency::null_default;
use serde::{Deserialize, Serialize};

/// System call filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seccomp {
    /// Action for a call that no rule names.
    pub default_action: Action,
    /// Error number of the default action if that is `Errno` or `Trace`; EPERM if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_errno_ret: Option<u32>,
    /// Architectures `SCMP_ARCH_…` beside the native one.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub architectures: Vec<String>,
    /// Flags `SECCOMP_FILTER_FLAG_…`; an absent list differs from an empty one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
    /// Path of the Unix socket that gets the notify descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener_path: Option<String>,
    /// Opaque text sent along with the descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener_metadata: Option<String>,
    /// Rules of the filter.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub syscalls: Vec<SyscallRule>,
}

/// Treatment of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Ends the thread.
    #[serde(rename = "SCMP_ACT_KILL", alias = "SCMP_ACT_KILL_THREAD")]
    KillThread,
    /// Ends the process.
    #[serde(rename = "SCMP_ACT_KILL_PROCESS")]
    KillProcess,
    /// Sends SIGSYS.
    #[serde(rename = "SCMP_ACT_TRAP")]
    Trap,
    /// Fails with an errno.
    #[serde(rename = "SCMP_ACT_ERRNO")]
    Errno,
    /// Notifies the tracer.
    #[serde(rename = "SCMP_ACT_TRACE")]
    Trace,
    /// Allows the call.
    #[serde(rename = "SCMP_ACT_ALLOW")]
    Allow,
    /// Allows and logs the call.
    #[serde(rename = "SCMP_ACT_LOG")]
    Log,
    /// Asks the listener.
    #[serde(rename = "SCMP_ACT_NOTIFY")]
    Notify,
}

/// Rule of a filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyscallRule {
    /// Names of calls; names that the kernel does not know are ignored.
    pub names: Vec<String>,
    /// Action for them.
    pub action: Action,
    /// Error number if the action is `Errno` or `Trace`; EPERM if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno_ret: Option<u32>,
    /// Conditions that must all hold; two on one index are alternatives, as in runc and docker.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub args: Vec<Arg>,
}

/// Condition on one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arg {
    /// Index of the argument, 0 to 5.
    pub index: u32,
    /// Value that the argument is compared with; the mask for `MaskedEqual`.
    pub value: u64,
    /// Value under the mask.
    #[serde(default)]
    pub value_two: u64,
    /// Comparison.
    pub op: Operator,
}

/// Comparison of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// `!=`
    #[serde(rename = "SCMP_CMP_NE")]
    NotEqual,
    /// `<`
    #[serde(rename = "SCMP_CMP_LT")]
    LessThan,
    /// `<=`
    #[serde(rename = "SCMP_CMP_LE")]
    LessEqual,
    /// `==`
    #[serde(rename = "SCMP_CMP_EQ")]
    Equal,
    /// `>=`
    #[serde(rename = "SCMP_CMP_GE")]
    GreaterEqual,
    /// `>`
    #[serde(rename = "SCMP_CMP_GT")]
    GreaterThan,
    /// `argument & value == value_two`
    #[serde(rename = "SCMP_CMP_MASKED_EQ")]
    MaskedEqual,
}
