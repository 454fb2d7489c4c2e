//! What is written down about a container.

use crate::OciError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tote_spec::{Hooks, Linux, Spec};

/// What it is called where it cannot be read.
const WHAT: &str = "the container's record";

/// `state.json`, without the part of the spec that only some commands need.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Record {
    /// The spec's version.
    pub(crate) oci_version: String,
    /// The bundle's directory, absolute.
    pub(crate) bundle: String,
    /// The root's directory, absolute.
    pub(crate) rootfs: String,
    /// RFC 3339.
    pub(crate) created: String,
    /// The spec's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
    /// What is executed: the first word of the command.
    pub(crate) program: String,
    /// The first process, once there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pid: Option<u32>,
    /// When it started, in clock ticks since boot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<u64>,
    /// Whether it has a PID namespace of its own: then nothing in it outlives its first process.
    pub(crate) own_pids: bool,
    /// Whether it was created by `run`, and never waits for a start.
    pub(crate) has_gate: bool,
    /// Whether it has a session keyring of its own, which processes that are added share.
    pub(crate) own_keyring: bool,
    /// The root's mount where it outlives the container, by its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) root_mount: Option<u64>,
    /// The mount namespace that the root is in, by its path, where it is neither the container's nor its creator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mount_namespace: Option<String>,
    /// Where its cgroup is or would be, as the cgroup crate writes it.
    pub(crate) cgroup: String,
}

/// The part of the spec that commands after `create` need.
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

    /// As the text that goes into the record, made once and written twice.
    pub(crate) fn text(&self) -> Result<String, OciError> {
        serde_json::to_string(self).map_err(OciError::json(WHAT))
    }
}

/// Both, as one document.
pub(crate) fn document(record: &Record, kept: &str) -> Result<String, OciError> {
    let mut text = serde_json::to_string(record).map_err(OciError::json(WHAT))?;
    text.pop();
    text.push_str(",\"spec\":");
    text.push_str(kept);
    text.push('}');
    Ok(text)
}

/// The spec's part of a document.
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
