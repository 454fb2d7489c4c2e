//! What was asked for.

use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tote_bundle::{ContainerId, Image, RunOptions};
use tote_state::events::Event;

/// What was asked for: `containers/ID/container.json`. Nothing in it changes but by `rename` and `update`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// The id.
    #[serde(with = "as_text")]
    pub id: ContainerId,
    /// The name; generated where none was given. Empty only while a container of `run --rm` is being born.
    #[serde(default)]
    pub name: String,
    /// When it was created: nanoseconds since 1970.
    #[serde(default)]
    pub created: u64,
    /// The image as it was asked for; `rootfs:` with an absolute path.
    #[serde(default)]
    pub image: String,
    /// The image's digest, where it is one of the store. A start takes this one, whatever the name says by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_id: Option<String>,
    /// The options, by their long names and in order, as [`RunOptions::set`] takes them. Those that lean on whoever asked
    /// are resolved: variables have values, paths are absolute, containers are named by id. `name` is not among them.
    #[serde(default)]
    pub options: Vec<(String, String)>,
    /// The words behind the image.
    #[serde(default)]
    pub command: Vec<String>,
    /// The program and its arguments: the image's where nobody says otherwise.
    #[serde(default)]
    pub path_and_args: Vec<String>,
    /// The image's labels and those of the options over them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The ports that the image and the options expose, each once, as `80/tcp`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exposed: Vec<String>,
    /// The signal that asks it to end; the image's where nobody says otherwise, or SIGTERM.
    #[serde(default)]
    pub stop_signal: String,
    /// How to see whether it is well, where somebody says how.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<tote_image::Healthcheck>,
    /// The pod that it is a member of, by id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The storage driver, where it is not the usual one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Whether nothing stays of it.
    #[serde(default)]
    pub rm: bool,
}

/// The record in a container's directory.
pub(super) const FILE: &str = "container.json";

impl Container {
    /// The options as they were when it was created.
    ///
    /// # Errors
    /// [`EngineError::Option`] when the file was written by a tote that knew other options.
    pub fn run_options(&self) -> Result<RunOptions, EngineError> {
        let mut options = RunOptions {
            command: self.command.clone(),
            name: self.name.parse().ok(),
            ..RunOptions::default()
        };
        for (name, value) in &self.options {
            options.set(name, value)?;
        }
        Ok(options)
    }

    /// The last value of an option, as it was given.
    #[must_use]
    pub fn option(&self, name: &str) -> Option<&str> {
        let last = self.options.iter().rev().find(|(option, _)| option == name);
        last.map(|(_, value)| value.as_str())
    }

    /// Whether it only keeps the namespaces of a pod.
    #[must_use]
    pub fn is_infra(&self) -> bool {
        self.option("infra") == Some("true")
    }

    /// What a start makes its root of.
    ///
    /// # Errors
    /// [`EngineError::Image`].
    pub fn source(&self) -> Result<Image, EngineError> {
        Ok(match &self.image_id {
            Some(id) => Image::Stored(id.clone()),
            None => Image::parse(&self.image)?,
        })
    }

    /// What people are shown: its name, or its short id.
    #[must_use]
    pub fn display(&self) -> &str {
        if self.name.is_empty() {
            self.id.short()
        } else {
            &self.name
        }
    }

    /// Something that happens to it now; docker's word for that.
    #[must_use]
    pub fn event(&self, action: &str) -> Event {
        let mut event = Event::of("container", action, self.id.as_str());
        event.attributes.clone_from(&self.labels);
        event.with("name", &self.name).with("image", &self.image)
    }

    /// The record of that id; `None` where there is none.
    pub(crate) fn read(home: &Home, id: &ContainerId) -> Result<Option<Self>, EngineError> {
        Ok(tote_state::record::read(&home.container(id).join(FILE))?)
    }

    /// A container of which nothing is known but its id.
    pub(super) fn unknown(id: &ContainerId) -> Self {
        Self {
            id: id.clone(),
            name: String::new(),
            created: 0,
            image: String::new(),
            image_id: None,
            options: Vec::new(),
            command: Vec::new(),
            path_and_args: Vec::new(),
            labels: BTreeMap::new(),
            exposed: Vec::new(),
            stop_signal: String::new(),
            health: None,
            pod: None,
            driver: None,
            rm: false,
        }
    }

    /// Writes it down. Who calls it holds the claim.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn write(&self, home: &Home) -> Result<(), EngineError> {
        Ok(tote_state::record::write(
            &home.container(&self.id).join(FILE),
            self,
        )?)
    }
}

/// An id in JSON.
pub(crate) mod as_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};
    use tote_bundle::ContainerId;

    pub(crate) fn serialize<S: Serializer>(id: &ContainerId, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(id.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<ContainerId, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_come_back() {
        let id = ContainerId::from_bytes([1; 32]);
        let text = format!(
            r#"{{"id":"{id}","name":"web","image":"host","options":[["env","A=1"],["memory","8m"],["memory","9m"]],"command":["ls"]}}"#
        );
        let container: Container = serde_json::from_str(&text).unwrap();
        let options = container.run_options().unwrap();
        assert_eq!(
            (options.memory, options.command.as_slice()),
            (9 << 20, &["ls".to_owned()][..])
        );
        assert_eq!(options.name.map(|name| name.to_string()).as_deref(), Some("web"));
        assert_eq!(container.option("memory"), Some("9m"));
        assert_eq!(container.option("tty"), None);
        let again = serde_json::to_string(&container).unwrap();
        assert_eq!(serde_json::from_str::<Container>(&again).unwrap(), container);
    }

    #[test]
    fn ids_are_checked() {
        assert!(serde_json::from_str::<Container>(r#"{"id":"../x"}"#).is_err());
    }
}
