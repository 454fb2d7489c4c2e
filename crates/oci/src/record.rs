//! Record of a container.

use crate::OciError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tote_spec::{Hooks, Linux, Spec};

/// Name of the record in errors.
const WHAT: &str = "the container's record";

/// Contents of `state.json`, without the part of the spec that only some commands need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Record {
    /// Version of the spec.
    pub(crate) oci_version: String,
    /// Absolute path of the bundle.
    pub(crate) bundle: String,
    /// Absolute path of the root.
    pub(crate) rootfs: String,
    /// Time of creation, RFC 3339.
    pub(crate) created: String,
    /// Annotations of the spec.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    /// Name of the program: the first word of the command.
    pub(crate) program: String,
    /// Pid of the first process, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    /// Start time of that process, in clock ticks since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<u64>,
    /// True if it has a PID namespace of its own: then none of its processes outlives the first.
    pub(crate) own_pids: bool,
    /// True if it was made by `create` and waits for its start; `run` makes no gate.
    pub(crate) has_gate: bool,
    /// True if it has a session keyring of its own, which processes of `exec` share.
    pub(crate) own_keyring: bool,
    /// Number of the root's mount, if that outlives the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) root_mount: Option<u64>,
    /// Path of the mount namespace that the root is in, if that is neither the container's nor its creator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mount_namespace: Option<String>,
    /// Place of its cgroup, whether made or not, as the cgroup crate writes it.
    pub(crate) cgroup: String,
}

/// Part of the spec that commands after `create` need.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Kept {
    pub(crate) hooks: Option<Hooks>,
    pub(crate) linux: Option<Linux>,
}

impl Kept {
    pub(crate) fn of(spec: &Spec) -> Self {
        let hooks = spec.hooks.as_ref().map(|hooks| Hooks {
            poststart: hooks.poststart.clone(),
            poststop: hooks.poststop.clone(),
            ..Hooks::default()
        });
        let linux = spec.linux.as_ref().map(|linux| Linux {
            namespaces: linux.namespaces.clone(),
            uid_mappings: linux.uid_mappings.clone(),
            gid_mappings: linux.gid_mappings.clone(),
            seccomp: linux.seccomp.clone(),
            personality: linux.personality.clone(),
            memory_policy: linux.memory_policy.clone(),
            ..Linux::default()
        });
        Self {
            hooks: hooks.filter(|hooks| *hooks != Hooks::default()),
            linux,
        }
    }

    /// Returns the JSON text that goes into the record, made once and written twice.
    pub(crate) fn text(&self) -> Result<String, OciError> {
        serde_json::to_string(self).map_err(OciError::json(WHAT))
    }
}

/// Joins both parts to one document.
pub(crate) fn document(record: &Record, kept: &str) -> Result<String, OciError> {
    let mut text = serde_json::to_string(record).map_err(OciError::json(WHAT))?;
    text.pop();
    text.push_str(",\"spec\":");
    text.push_str(kept);
    text.push('}');
    Ok(text)
}

/// Reads the spec's part of a document.
pub(crate) fn kept(document: &str) -> Result<Kept, OciError> {
    #[derive(Deserialize)]
    struct Document {
        spec: Kept,
    }
    serde_json::from_str::<Document>(document)
        .map(|document| document.spec)
        .map_err(OciError::json(WHAT))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_parts_come_back() {
        let text = r#"{"ociVersion":"1.2.0","hooks":{"prestart":[{"path":"/a"}],"poststop":[{"path":"/b"}]},
            "linux":{"namespaces":[{"type":"pid"}],"maskedPaths":["/proc/x"]}}"#;
        let spec = Spec::parse(text).unwrap();
        let record = Record {
            bundle: "/b\"\n".to_owned(),
            pid: Some(7),
            own_pids: true,
            ..Record::default()
        };
        let document = document(&record, &Kept::of(&spec).text().unwrap()).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&document).unwrap(), record);
        let back = kept(&document).unwrap();
        assert_eq!(back, Kept::of(&spec));
        let hooks = back.hooks.unwrap();
        assert_eq!((hooks.prestart.len(), hooks.poststop.len()), (0, 1));
        assert!(back.linux.unwrap().masked_paths.is_empty());
    }
}
