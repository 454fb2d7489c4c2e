//! What was asked for.

use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tote_bundle::ContainerId;
use tote_state::events::Event;

/// What was asked for: `pods/ID/pod.json`. Nothing in it changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// The id, drawn as a container's.
    #[serde(with = "crate::container::as_text")]
    pub id: ContainerId,
    /// The name; generated where none was given.
    pub name: String,
    /// When it was created: nanoseconds since 1970.
    #[serde(default)]
    pub created: u64,
    /// What its members are called, where they share that.
    #[serde(default)]
    pub hostname: String,
    /// Its labels.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// What its members share: `net`, `ipc`, `uts`, `pid`.
    #[serde(default)]
    pub share: Vec<String>,
    /// The container that keeps the namespaces, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub infra: Option<String>,
    /// The options of that container that somebody gave.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
    /// What its containers may use up together, and where their cgroup is to be: options of those limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<(String, String)>,
    /// Whether it stops with its last container.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stops: bool,
    /// The command line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub create_command: Vec<String>,
}

/// The record in a pod's directory.
pub(super) const FILE: &str = "pod.json";

impl Pod {
    /// The record of that id; `None` where there is none.
    pub(crate) fn read(home: &Home, id: &ContainerId) -> Result<Option<Self>, EngineError> {
        Ok(tote_state::record::read(&home.pod(id).join(FILE))?)
    }

    /// A pod of which nothing is known but its id.
    pub(super) fn unknown(id: &ContainerId) -> Self {
        Self {
            id: id.clone(),
            name: String::new(),
            created: 0,
            hostname: String::new(),
            labels: BTreeMap::new(),
            share: Vec::new(),
            infra: None,
            options: Vec::new(),
            limits: Vec::new(),
            stops: false,
            create_command: Vec::new(),
        }
    }

    /// Writes it down: from here on there is a pod.
    pub(super) fn write(&self, home: &Home) -> Result<(), EngineError> {
        Ok(tote_state::record::write(&home.pod(&self.id).join(FILE), self)?)
    }

    /// The id of the infra container.
    #[must_use]
    pub fn infra_id(&self) -> Option<ContainerId> {
        self.infra.as_ref()?.parse().ok()
    }

    /// The last value of an option of the infra container's, as it was given.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        let last = self.options.iter().rev().find(|(option, _)| option == name);
        last.map(|(_, value)| value.as_str())
    }

    /// The last value of one of its limits, as it was given.
    pub(super) fn limit(&self, name: &str) -> Option<&str> {
        let last = self.limits.iter().rev().find(|(option, _)| option == name);
        last.map(|(_, value)| value.as_str())
    }

    /// Something that happens to it now.
    pub(super) fn event(&self, action: &str) -> Event {
        let mut event = Event::of("pod", action, self.id.as_str());
        event.attributes.clone_from(&self.labels);
        event.with("name", &self.name)
    }
}
