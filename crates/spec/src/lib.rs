//! The OCI runtime specification's `config.json` as Rust types: the Linux part, version 1.3 and what older ones had.
//!
//! Field names, units and meaning are the specification's own
//! (<https://github.com/opencontainers/runtime-spec/blob/main/config.md>); the types hold the document's values and
//! decide nothing. Unknown properties are ignored, as the specification demands. This crate never reads a file, never
//! looks at the host, and does not check whether values make sense together: `sandbox` does when it plans.

mod error;
mod leniency;
mod linux;
mod process;
mod resources;
mod seccomp;

pub use error::{JsonError, ParseError};
pub use linux::{
    Device, DeviceType, IdMapping, IntelRdt, Linux, MemoryPolicy, Namespace, NamespaceType, NetDevice,
    Personality, TimeOffset,
};
pub use process::{Capabilities, ConsoleSize, ExecCpuAffinity, IoPriority, Process, Rlimit, Scheduler, User};
pub use resources::{
    BlockIo, Cpu, DeviceRule, HugepageLimit, InterfacePriority, Memory, Network, Pids, Rdma, Resources,
    ThrottleDevice, WeightDevice,
};
pub use seccomp::{Action, Arg, Operator, Seccomp, SyscallRule};

use leniency::{is_false, null_default};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Version of the specification that a [`Spec`] made here declares.
pub const VERSION: &str = "1.3.0";

/// Annotation of crun's that lets a process keep the supplementary groups of the engine; podman sets it.
pub const KEEP_GROUPS: &str = "run.oci.keep_original_groups";

/// Contents of a whole `config.json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Version of the specification that the document follows, as `MAJOR.MINOR.PATCH`.
    pub oci_version: String,
    /// Root file system of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root: Option<Root>,
    /// Mounts below the root, in this order.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub mounts: Vec<Mount>,
    /// Main process of the container; absent if only `create` is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub process: Option<Process>,
    /// Host name in the UTS namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    /// NIS domain name in the UTS namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domainname: Option<String>,
    /// Programs run at points of the life cycle.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hooks: Option<Hooks>,
    /// Free text that travels with the container.
    #[serde(
        default,
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_default"
    )]
    pub annotations: BTreeMap<String, String>,
    /// Linux part of the document.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub linux: Option<Linux>,
}

/// Root file system of the container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// Path of the directory, absolute or relative to the bundle.
    pub path: String,
    /// True if the root is mounted read-only.
    #[serde(default, skip_serializing_if = "is_false")]
    pub readonly: bool,
}

/// Mount below the container's root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Mount {
    /// Mount point, as an absolute path inside the container.
    pub destination: String,
    /// Type of the file system as in mount(2), or `bind`.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// A device, a host path for a bind mount, or any word for the rest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Options as fstab(5) writes them, and the specification's `r…` forms that act on the whole tree.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub options: Vec<String>,
    /// User ids of an id-mapped mount.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub uid_mappings: Vec<IdMapping>,
    /// Group ids of an id-mapped mount.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub gid_mappings: Vec<IdMapping>,
    /// Path inside the source of a bind mount that is mounted in its place. Links on the way are resolved as if the
    /// source were `/`. The specification has no such field, so no file has it.
    #[serde(skip)]
    pub subpath: Option<String>,
}

/// Programs run at the points of the life cycle, in the order in which the points come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hooks {
    /// Deprecated: run like `create_runtime`, but before it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub prestart: Vec<Hook>,
    /// Run in the runtime's namespaces, after those of the container exist and before pivot_root.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub create_runtime: Vec<Hook>,
    /// Run in the container's namespaces, before pivot_root.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub create_container: Vec<Hook>,
    /// Run in the container's namespaces, just before the process is executed.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub start_container: Vec<Hook>,
    /// Run in the runtime's namespaces, after the process was executed.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub poststart: Vec<Hook>,
    /// Run in the runtime's namespaces, after the container is gone.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "null_default")]
    pub poststop: Vec<Hook>,
}

/// Hook: a program that gets the container's state on its standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Absolute path of the executable.
    pub path: String,
    /// Arguments, `argv[0]` included.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub args: Vec<String>,
    /// Complete environment, as `NAME=value`.
    #[serde(
        default,
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_default"
    )]
    pub env: Vec<String>,
    /// Seconds after which the hook is killed and counts as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<i64>,
}

impl Spec {
    /// True if its processes keep the supplementary groups of whoever starts them, by [`KEEP_GROUPS`].
    #[must_use]
    pub fn keeps_groups(&self) -> bool {
        self.annotations
            .get(KEEP_GROUPS)
            .is_some_and(|value| value != "0")
    }

    /// Adds [`KEEP_GROUPS`] if `keeps` is true.
    #[must_use]
    pub fn with_groups_kept(mut self, keeps: bool) -> Self {
        if keeps {
            self.annotations.insert(KEEP_GROUPS.to_owned(), "1".to_owned());
        }
        self
    }

    /// Parses the text of a `config.json`.
    ///
    /// # Errors
    /// [`ParseError`] names the line and column, or the unsupported version.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        let spec: Self = serde_json::from_str(text).map_err(JsonError::from)?;
        if is_supported(&spec.oci_version) {
            Ok(spec)
        } else {
            Err(ParseError::version(&spec.oci_version))
        }
    }

    /// Returns the requested namespaces; empty without a Linux part.
    #[must_use]
    pub fn namespaces(&self) -> &[Namespace] {
        self.linux.as_ref().map_or(&[], |linux| &linux.namespaces)
    }

    /// Returns the requested namespace of that type, if there is one.
    #[must_use]
    pub fn namespace(&self, kind: NamespaceType) -> Option<&Namespace> {
        self.namespaces().iter().find(|namespace| namespace.kind == kind)
    }

    /// True if a new namespace of that type is requested, not an existing one to join.
    #[must_use]
    pub fn has_new(&self, kind: NamespaceType) -> bool {
        self.namespace(kind)
            .is_some_and(|namespace| namespace.path.as_ref().is_none_or(String::is_empty))
    }
}

/// Checks for `MAJOR.MINOR.PATCH` with major 1 and an existing minor; a pre-release suffix (`1.0.2-dev`) is fine.
fn is_supported(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let mut numbers = core.split('.').map(str::parse::<u32>);
    matches!(
        (numbers.next(), numbers.next(), numbers.next(), numbers.next()),
        (Some(Ok(1)), Some(Ok(0..=3)), Some(Ok(_)), None)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        for good in ["1.0.0", "1.0.2-dev", "1.1.0+fork", "1.2.1", "1.3.0"] {
            assert!(is_supported(good), "{good}");
        }
        for bad in [
            "",
            "1",
            "1.0",
            "2.0.0",
            "0.9.0",
            "1.9.0",
            "1.0.0.0",
            "1.x.0",
            "99999999999.0.0",
        ] {
            assert!(!is_supported(bad), "{bad}");
        }
    }

    #[test]
    fn nulls_are_defaults_and_unknown_properties_are_ignored() {
        let spec =
            Spec::parse(r#"{"ociVersion":"1.0.2","mounts":null,"hooks":{"prestart":null},"x":1}"#).unwrap();
        assert!(spec.mounts.is_empty());
        assert_eq!(spec.hooks, Some(Hooks::default()));
    }

    #[test]
    fn wrong_types_say_where() {
        let error = Spec::parse(r#"{"ociVersion":"1.0.2","root":[]}"#)
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 1"), "{error}");
    }

    #[test]
    fn what_is_written_reads_back() {
        let text = r#"{"ociVersion":"1.2.0","root":{"path":"rootfs","readonly":true},
            "process":{"args":["sh"],"cwd":"/","user":{"uid":1,"gid":2,"umask":18},"rlimits":[{"type":"RLIMIT_CORE","hard":1,"soft":0}]},
            "linux":{"namespaces":[{"type":"pid"},{"type":"network","path":"/x"}],
              "resources":{"memory":{"limit":1048576},"devices":[{"allow":false,"access":"rwm"}]},
              "seccomp":{"defaultAction":"SCMP_ACT_ERRNO","syscalls":[{"names":["a"],"action":"SCMP_ACT_ALLOW",
                "args":[{"index":0,"value":1,"op":"SCMP_CMP_EQ"}]}]}}}"#;
        let spec = Spec::parse(text).unwrap();
        let again = Spec::parse(&serde_json::to_string(&spec).unwrap()).unwrap();
        assert_eq!(spec, again);
        assert_eq!(
            spec.namespace(NamespaceType::Network).unwrap().path.as_deref(),
            Some("/x")
        );
    }
}
