//! Facts about a container for processes that join it.

use super::ExecError;
use crate::container::Entry;
use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use tote_bundle::{RunOptions, SeccompChoice};
use tote_spec::{Linux, Process, Spec};

/// Part of a container's spec that an added process shares.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    /// First process of the container, without its command.
    pub process: Process,
    /// Namespaces, id maps and seccomp filter.
    pub linux: Linux,
    /// True for the default filter, which no spec contains.
    pub default_filter: bool,
    /// True if a process keeps the supplementary groups of its parent.
    #[serde(default)]
    pub keeps_groups: bool,
}

impl Inside {
    /// Extracts the part from the spec of a new container.
    pub fn of(spec: &Spec, default_filter: bool) -> Self {
        let linux = spec.linux.as_ref().map(|linux| Linux {
            namespaces: linux.namespaces.clone(),
            uid_mappings: linux.uid_mappings.clone(),
            gid_mappings: linux.gid_mappings.clone(),
            seccomp: linux.seccomp.clone(),
            personality: linux.personality.clone(),
            memory_policy: linux.memory_policy.clone(),
            ..Linux::default()
        });
        let process = spec.process.as_ref().map(|process| Process {
            args: Vec::new(),
            ..process.clone()
        });
        Self {
            process: process.unwrap_or_default(),
            linux: linux.unwrap_or_default(),
            default_filter,
            keeps_groups: spec.keeps_groups(),
        }
    }

    /// Reads the part for a running container: from its `config.json`, or from `live/` if it has no directory.
    pub fn read(home: &Home, entry: &Entry) -> Result<Self, EngineError> {
        let id = &entry.container.id;
        let gone = || ExecError::NotRunning(id.to_string());
        if !entry.kept {
            return Self::noted(home, entry).ok_or_else(|| gone().into());
        }
        let path = home.container(id).join("config.json");
        let text = std::fs::read(&path).map_err(|_| gone())?;
        let spec: Spec = serde_json::from_slice(&text).map_err(EngineError::file("read", path))?;
        let mut options = RunOptions::default();
        for (name, value) in &entry.container.options {
            if matches!(name.as_str(), "privileged" | "security-opt") {
                options.set(name, value)?;
            }
        }
        Ok(Self::of(&spec, options.seccomp() == SeccompChoice::Default))
    }

    fn noted(home: &Home, entry: &Entry) -> Option<Self> {
        #[derive(Deserialize)]
        struct Noted {
            inside: Inside,
        }
        let path = home.live().join(entry.container.id.as_str());
        // The file is written in place, so a read may see half of it, but not repeatedly.
        for _ in 0..64 {
            // absence: the caller reports that the container does not run
            let text = std::fs::read(&path).ok()?;
            if let Ok(noted) = serde_json::from_slice::<Noted>(&text) {
                return Some(noted.inside);
            }
            std::thread::yield_now();
        }
        None
    }
}
