//! Files that describe a container, a volume or a pod, in the syntax of podman's quadlets, and the services that they become.

mod container;
mod install;
mod keys;
mod pod;
mod volume;

pub use install::Installed;

use crate::syntax::{Entry, Line, UnitFile};
use crate::words::{WordsError, quote, split};
use std::collections::BTreeMap;

/// What a file describes; its name says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `.container`
    Container,
    /// `.volume`
    Volume,
    /// `.pod`
    Pod,
}

impl Kind {
    /// Of a file's name: what it describes, and the name without the ending; nothing where it is no such file.
    #[must_use]
    pub fn of(file_name: &str) -> Option<(Self, &str)> {
        let (name, ending) = file_name.rsplit_once('.')?;
        let kind = match ending {
            "container" => Self::Container,
            "volume" => Self::Volume,
            "pod" => Self::Pod,
            _ => return None,
        };
        (!name.is_empty()).then_some((kind, name))
    }

    /// Endings that podman knows and tote has nothing for.
    #[must_use]
    pub fn is_unknown(file_name: &str) -> bool {
        let ending = file_name.rsplit_once('.').map(|(_, ending)| ending);
        matches!(ending, Some("network" | "kube" | "build" | "image" | "artifact"))
    }

    const fn section(self) -> &'static str {
        match self {
            Self::Container => "Container",
            Self::Volume => "Volume",
            Self::Pod => "Pod",
        }
    }

    /// The unit of a name, without `.service`.
    fn service(self, name: &str) -> String {
        match self {
            Self::Container => name.to_owned(),
            Self::Volume => behind(name, "-volume"),
            Self::Pod => behind(name, "-pod"),
        }
    }
}

/// A template's instance stays behind its mark.
fn behind(name: &str, what: &str) -> String {
    match name.split_once('@') {
        Some((name, instance)) => format!("{name}{what}@{instance}"),
        None => format!("{name}{what}"),
    }
}

/// A file with its drop-ins, read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quadlet {
    /// What it describes.
    pub kind: Kind,
    /// Its name without the ending.
    pub name: String,
    /// Where it is, as an absolute path: relative paths in it start there.
    pub path: String,
    /// What it says.
    pub file: UnitFile,
}

/// What a file cannot know.
#[derive(Clone, Debug, Default)]
pub struct Surroundings<'a> {
    /// The program's path.
    pub program: &'a str,
    /// Where state is kept, for units of the machine's.
    pub mounts_for: Option<&'a str>,
    /// Whether they are a user's units.
    pub user: bool,
    /// Names of volumes, by the names of the `.volume` files there are.
    pub volumes: BTreeMap<String, String>,
    /// Names of pods, by the names of the `.pod` files there are.
    pub pods: BTreeMap<String, String>,
    /// The services of their members, by the same.
    pub members: BTreeMap<String, Vec<String>>,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// `NAME.service`
    pub name: String,
    /// Its text.
    pub text: String,
    /// The links that `[Install]` asks for.
    pub links: Vec<Installed>,
}

/// Why nothing can be made of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuadletError {
    /// A key that its section does not have.
    #[error("line {line}: unsupported key {key:?} in [{section}]")]
    Key {
        /// Where.
        line: Line,
        /// What stands there.
        key: String,
        /// In which section.
        section: &'static str,
    },
    /// The section itself, or a key that it must have.
    #[error("missing {0}")]
    Missing(&'static str),
    /// A key's value.
    #[error("line {line}: {key}: {why}")]
    Value {
        /// Where.
        line: Line,
        /// The key.
        key: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A value that is made of words.
    #[error("line {line}: {key}")]
    Words {
        /// Where.
        line: Line,
        /// The key.
        key: String,
        /// What is wrong with them.
        #[source]
        source: WordsError,
    },
    /// A file that is referred to.
    #[error("line {line}: {key}: file {file} not found")]
    Unknown {
        /// Where.
        line: Line,
        /// The key.
        key: String,
        /// What is missing.
        file: String,
    },
}

impl QuadletError {
    /// Which drop-in it is about, from 1 on; 0 is the file itself.
    #[must_use]
    pub fn file(&self) -> usize {
        match self {
            Self::Missing(_) => 0,
            Self::Key { line, .. }
            | Self::Value { line, .. }
            | Self::Words { line, .. }
            | Self::Unknown { line, .. } => line.file,
        }
    }
}

impl Quadlet {
    /// The service that it becomes.
    ///
    /// # Errors
    /// [`QuadletError`] names the line.
    pub fn service(&self, around: &Surroundings<'_>) -> Result<Made, QuadletError> {
        let section = self.kind.section();
        if self.file.sections.iter().all(|one| one.name != section) {
            return Err(QuadletError::Missing(match self.kind {
                Kind::Container => "[Container] section",
                Kind::Volume => "[Volume] section",
                Kind::Pod => "[Pod] section",
            }));
        }
        keys::check(self)?;
        let mut unit = self.passed_on(around)?;
        match self.kind {
            Kind::Container => container::complete(self, around, &mut unit)?,
            Kind::Volume => volume::complete(self, around, &mut unit)?,
            Kind::Pod => pod::complete(self, around, &mut unit)?,
        }
        let name = self.service_name();
        Ok(Made {
            links: install::links(&self.file, &name)?,
            text: unit.to_string(),
            name,
        })
    }

    /// `NAME.service`
    #[must_use]
    pub fn service_name(&self) -> String {
        format!("{}.service", self.kind.service(&self.name))
    }

    /// The name of the `.pod` file that a container is a member of.
    #[must_use]
    pub fn pod(&self) -> Option<&str> {
        self.file.value("Container", "Pod")?.value.strip_suffix(".pod")
    }

    /// What the container or the volume is called where nobody says otherwise.
    fn default_name(&self) -> String {
        if self.name.contains('@') {
            "systemd-%p_%i".to_owned()
        } else {
            format!("systemd-{}", self.name)
        }
    }

    /// What it is called, for those that refer to it.
    #[must_use]
    pub fn object_name(&self) -> String {
        let given = match self.kind {
            Kind::Container => self.file.value("Container", "ContainerName"),
            Kind::Volume => self.file.value("Volume", "VolumeName"),
            Kind::Pod => self.file.value("Pod", "PodName"),
        };
        given.map_or_else(|| self.default_name(), |entry| entry.value.clone())
    }

    /// The sections that are systemd's, with units in place of files; its own under a name that systemd passes over.
    fn passed_on(&self, around: &Surroundings<'_>) -> Result<UnitFile, QuadletError> {
        let mut unit = self.file.clone();
        unit.sections.retain(|section| section.name != "Quadlet");
        for section in &mut unit.sections {
            if section.name == self.kind.section() {
                section.name = format!("X-{}", section.name);
            }
            if section.name == "Unit" {
                for entry in section
                    .entries
                    .iter_mut()
                    .filter(|entry| keys::ORDER.contains(&entry.key.as_str()))
                {
                    let names = words(entry)?.into_iter().map(|word| match Kind::of(&word) {
                        Some((kind, name)) => format!("{}.service", kind.service(name)),
                        None => word,
                    });
                    entry.value = names.map(|name| quote(&name)).collect::<Vec<_>>().join(" ");
                }
            }
        }
        unit.add("Unit", "SourcePath", &*self.path);
        let online = self.file.value("Quadlet", "DefaultDependencies");
        let online = online.map(truth).transpose()?.unwrap_or(true);
        // A user's units cannot wait for those of the machine.
        if online && !around.user {
            unit.add("Unit", "Wants", "network-online.target");
            unit.add("Unit", "After", "network-online.target");
        }
        if let Some(dir) = around.mounts_for {
            unit.add("Unit", "RequiresMountsFor", dir);
        }
        Ok(unit)
    }
}

/// The words of a value.
fn words(entry: &Entry) -> Result<Vec<String>, QuadletError> {
    split(&entry.value).map_err(|source| QuadletError::Words {
        line: entry.line,
        key: entry.key.clone(),
        source,
    })
}

/// systemd's words for yes and no.
fn truth(entry: &Entry) -> Result<bool, QuadletError> {
    match entry.value.to_ascii_lowercase().as_str() {
        "1" | "yes" | "y" | "true" | "t" | "on" => Ok(true),
        "0" | "no" | "n" | "false" | "f" | "off" => Ok(false),
        _ => Err(wrong(entry, "neither yes nor no")),
    }
}

fn wrong(entry: &Entry, why: &'static str) -> QuadletError {
    QuadletError::Value {
        line: entry.line,
        key: entry.key.clone(),
        why,
    }
}

/// Words as one line of `ExecStart=`, with specifiers left to systemd.
fn line(words: &[String]) -> String {
    words.iter().map(|word| quote(word)).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
