//! A file in the syntax of quadlets, with what surrounds it, and how its values are read.

use crate::syntax::{Entry, Line, UnitFile};
use crate::words::{WordsError, quote, split};
use std::collections::BTreeMap;

/// Kind of object that a file describes; the file's ending tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `.container` files.
    Container,
    /// `.volume` files.
    Volume,
    /// `.pod` files.
    Pod,
    /// `.network` files.
    Network,
}

impl Kind {
    /// Splits a quadlet file name into kind and stem; `None` for other files.
    #[must_use]
    pub fn of(file_name: &str) -> Option<(Self, &str)> {
        let (name, ending) = file_name.rsplit_once('.')?;
        let kind = match ending {
            "container" => Self::Container,
            "volume" => Self::Volume,
            "pod" => Self::Pod,
            "network" => Self::Network,
            _ => return None,
        };
        (!name.is_empty()).then_some((kind, name))
    }

    /// True for endings that podman knows and tote does not support.
    #[must_use]
    pub fn is_unknown(file_name: &str) -> bool {
        let ending = file_name.rsplit_once('.').map(|(_, ending)| ending);
        matches!(ending, Some("kube" | "build" | "image" | "artifact"))
    }

    pub(super) const fn section(self) -> &'static str {
        match self {
            Self::Container => "Container",
            Self::Volume => "Volume",
            Self::Pod => "Pod",
            Self::Network => "Network",
        }
    }

    /// Returns the unit for a name, without `.service`.
    pub(super) fn service(self, name: &str) -> String {
        match self {
            Self::Container => name.to_owned(),
            Self::Volume => behind(name, "-volume"),
            Self::Pod => behind(name, "-pod"),
            Self::Network => behind(name, "-network"),
        }
    }
}

/// Appends to a name, before the instance of a template.
fn behind(name: &str, what: &str) -> String {
    match name.split_once('@') {
        Some((name, instance)) => format!("{name}{what}@{instance}"),
        None => format!("{name}{what}"),
    }
}

/// Contents of a file and its drop-ins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quadlet {
    /// Kind of object.
    pub kind: Kind,
    /// File name without the ending.
    pub name: String,
    /// Absolute path of the file; relative paths in it start in its directory.
    pub path: String,
    /// Contents of the file.
    pub file: UnitFile,
}

/// Facts that a file does not contain.
#[derive(Clone, Debug, Default)]
pub struct Surroundings<'a> {
    /// Path of the program.
    pub program: &'a str,
    /// Directory of the state, for units of the system.
    pub mounts_for: Option<&'a str>,
    /// True if they are a user's units.
    pub user: bool,
    /// Names of volumes, by the stems of the existing `.volume` files.
    pub volumes: BTreeMap<String, String>,
    /// Names of networks, by the stems of the existing `.network` files.
    pub networks: BTreeMap<String, String>,
    /// Names of pods, by the stems of the existing `.pod` files.
    pub pods: BTreeMap<String, String>,
    /// Services of the pods' members, by the same stems.
    pub members: BTreeMap<String, Vec<String>>,
}

/// Key that has no effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unused {
    /// Line of the key.
    pub line: Line,
    /// Name of the key.
    pub key: String,
    /// Name of the section.
    pub section: &'static str,
    /// Another way, or the reason, for a key of podman's.
    pub advice: Option<&'static str>,
}

impl std::fmt::Display for Unused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            line, key, section, ..
        } = self;
        write!(
            f,
            "line {line}: unsupported key {key:?} in [{section}] has no effect"
        )?;
        self.advice.map_or(Ok(()), |advice| write!(f, ": {advice}"))
    }
}

/// Reason why no service can be made from a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuadletError {
    /// The section itself, or a required key, is missing.
    #[error("missing {0}")]
    Missing(&'static str),
    /// The value of a key is invalid.
    #[error("line {line}: {key}: {why}")]
    Value {
        /// Line of the key.
        line: Line,
        /// Name of the key.
        key: String,
        /// Description of the fault.
        why: &'static str,
    },
    /// A value cannot be split into words.
    #[error("line {line}: {key}")]
    Words {
        /// Line of the key.
        line: Line,
        /// Name of the key.
        key: String,
        /// Cause.
        #[source]
        source: WordsError,
    },
    /// A referenced file does not exist.
    #[error("line {line}: {key}: file {file} not found")]
    Unknown {
        /// Line of the key.
        line: Line,
        /// Name of the key.
        key: String,
        /// Name of the missing file.
        file: String,
    },
}

impl QuadletError {
    /// Returns which drop-in the error is about, from 1 on; 0 is the file itself.
    #[must_use]
    pub fn file(&self) -> usize {
        match self {
            Self::Missing(_) => 0,
            Self::Value { line, .. } | Self::Words { line, .. } | Self::Unknown { line, .. } => line.file,
        }
    }
}

impl Quadlet {
    /// Returns the name of the service, `NAME.service`.
    #[must_use]
    pub fn service_name(&self) -> String {
        format!("{}.service", self.kind.service(&self.name))
    }

    /// Returns the stem of the `.pod` file that a container is a member of.
    #[must_use]
    pub fn pod(&self) -> Option<&str> {
        self.file.value("Container", "Pod")?.value.strip_suffix(".pod")
    }

    /// True if the container is started with its pod, which is usual.
    #[must_use]
    pub fn starts_with_pod(&self) -> bool {
        let given = self.file.value("Container", "StartWithPod").map(truth);
        given.is_none_or(|starts| starts.unwrap_or(true))
    }

    /// Returns the default name of the container, volume or pod.
    pub(super) fn default_name(&self) -> String {
        if self.name.contains('@') {
            "systemd-%p_%i".to_owned()
        } else {
            format!("systemd-{}", self.name)
        }
    }

    /// Returns the name of the object, for files that refer to it.
    #[must_use]
    pub fn object_name(&self) -> String {
        let given = match self.kind {
            Kind::Container => self.file.value("Container", "ContainerName"),
            Kind::Volume => self.file.value("Volume", "VolumeName"),
            Kind::Pod => self.file.value("Pod", "PodName"),
            Kind::Network => self.file.value("Network", "NetworkName"),
        };
        given.map_or_else(|| self.default_name(), |entry| entry.value.clone())
    }
}

/// Splits a value into words.
pub(super) fn words(entry: &Entry) -> Result<Vec<String>, QuadletError> {
    split(&entry.value).map_err(|source| QuadletError::Words {
        line: entry.line,
        key: entry.key.clone(),
        source,
    })
}

/// Parses systemd's words for yes and no.
pub(super) fn truth(entry: &Entry) -> Result<bool, QuadletError> {
    match entry.value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Ok(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Ok(false),
        _ => Err(wrong(entry, "neither yes nor no")),
    }
}

pub(super) fn wrong(entry: &Entry, why: &'static str) -> QuadletError {
    QuadletError::Value {
        line: entry.line,
        key: entry.key.clone(),
        why,
    }
}

/// Formats words as one line of `ExecStart=`, with specifiers left to systemd.
pub(super) fn line(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}
