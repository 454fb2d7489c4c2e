use crate::null_default;
use serde::{Deserialize, Serialize};

/// A system call filter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Seccomp {
    /// For a call that no rule names.
    pub default_action: Action,
    /// The errno of the default action where that is `Errno` or `Trace`; absent: EPERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_errno_ret: Option<u32>,
    /// `SCMP_ARCH_…` beside the native one.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub architectures: Vec<String>,
    /// `SECCOMP_FILTER_FLAG_…`; none at all is something else than an empty list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flags: Option<Vec<String>>,
    /// The Unix socket that gets the notify descriptor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener_path: Option<String>,
    /// Opaque text sent along with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listener_metadata: Option<String>,
    /// The rules.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub syscalls: Vec<SyscallRule>,
}

/// What happens to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Action {
    /// End the thread.
    #[serde(rename = "SCMP_ACT_KILL", alias = "SCMP_ACT_KILL_THREAD")]
    KillThread,
    /// End the process.
    #[serde(rename = "SCMP_ACT_KILL_PROCESS")]
    KillProcess,
    /// SIGSYS.
    #[serde(rename = "SCMP_ACT_TRAP")]
    Trap,
    /// Fail with an errno.
    #[serde(rename = "SCMP_ACT_ERRNO")]
    Errno,
    /// Tell the tracer.
    #[serde(rename = "SCMP_ACT_TRACE")]
    Trace,
    /// Allow.
    #[serde(rename = "SCMP_ACT_ALLOW")]
    Allow,
    /// Allow and log.
    #[serde(rename = "SCMP_ACT_LOG")]
    Log,
    /// Ask the listener.
    #[serde(rename = "SCMP_ACT_NOTIFY")]
    Notify,
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SyscallRule {
    /// The calls; a name that the kernel does not know is passed over.
    pub names: Vec<String>,
    /// What happens to them.
    pub action: Action,
    /// The errno where the action is `Errno` or `Trace`; absent: EPERM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub errno_ret: Option<u32>,
    /// Conditions that must all hold; two on one index are alternatives, as in libseccomp's users.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub args: Vec<Arg>,
}

/// A condition on one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Arg {
    /// 0 to 5.
    pub index: u32,
    /// What it is compared with; the mask for `MaskedEqual`.
    pub value: u64,
    /// The value under the mask.
    #[serde(default)]
    pub value_two: u64,
    /// How.
    pub op: Operator,
}

/// How an argument is compared.
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
