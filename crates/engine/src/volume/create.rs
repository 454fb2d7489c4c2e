//! Volumes come to be, and what is written down of them.

use super::VolumeFault;
use crate::container::{Event, append, now, put};
use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use tote_bundle::ContainerId;

/// `volumes/NAME/volume.json`; a volume that `run -v` made has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// When it was made: nanoseconds since 1970.
    pub(super) created: u64,
    /// `--label`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
    /// The container that it was made for, where nobody named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container: Option<String>,
}

impl Record {
    /// What is written down of a volume.
    pub(super) fn read(home: &Home, name: &str) -> Option<Self> {
        let text = std::fs::read(home.volumes().join(name).join("volume.json")).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn write(&self, home: &Home, name: &str) -> Result<(), EngineError> {
        put(&home.volumes().join(name).join("volume.json"), self)
    }
}

/// docker's label for a volume that nobody named.
pub(super) const ANONYMOUS: &str = "com.docker.volume.anonymous";

/// Makes a volume, or finds the one that has the name; gives its name, which is random where none is given.
///
/// # Errors
/// [`VolumeFault`] for a name or an option that cannot be, and [`EngineError::State`].
pub fn create(
    home: &Home,
    name: Option<&str>,
    driver: &str,
    options: &[String],
    mut labels: BTreeMap<String, String>,
) -> Result<String, EngineError> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => {
            labels.insert(ANONYMOUS.to_owned(), String::new());
            crate::prepare::new_id()?.to_string()
        }
    };
    // docker refuses a single letter.
    if !is_name(&name) || name.len() < 2 {
        return Err(VolumeFault::Name(name).into());
    }
    if driver != "local" {
        let driver = driver.to_owned();
        return Err(VolumeFault::Driver { name, driver }.into());
    }
    if let Some(option) = options.first() {
        let option = option.clone();
        return Err(VolumeFault::Option { name, option }.into());
    }
    if make(home, &name)? {
        let created = now();
        let record = Record {
            created,
            labels,
            container: None,
        };
        record.write(home, &name)?;
        announce(home, "create", std::slice::from_ref(&name));
    }
    Ok(name)
}

/// Writes down a volume that a container gets without a name.
pub(super) fn note_anonymous(home: &Home, id: &ContainerId, destination: &str) -> Result<(), EngineError> {
    let name = super::anonymous_name(id, destination);
    make(home, &name)?;
    let record = Record {
        created: now(),
        labels: BTreeMap::from([(ANONYMOUS.to_owned(), String::new())]),
        container: Some(id.to_string()),
    };
    record.write(home, &name)?;
    announce(home, "create", &[name]);
    Ok(())
}

/// Makes the directories of a volume. Gives whether it is new.
fn make(home: &Home, name: &str) -> Result<bool, EngineError> {
    let path = home.volumes().join(name);
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o700);
    let made = match builder.create(&path) {
        Ok(()) => true,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => false,
        Err(source) => {
            return Err(EngineError::State {
                attempt: "make",
                path,
                source,
            });
        }
    };
    super::make(&path.join("_data"))?;
    Ok(made)
}

/// docker's rule for names; it also keeps what is being removed, `.NAME`, out of sight.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    name.len() <= 255
        && name.bytes().all(plain)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Tells `events`.
pub(super) fn announce(home: &Home, action: &str, names: &[String]) {
    let time = now();
    let events: Vec<Event> = names
        .iter()
        .map(|name| Event {
            time,
            kind: "volume".to_owned(),
            action: action.to_owned(),
            id: name.clone(),
            attributes: BTreeMap::from([("driver".to_owned(), "local".to_owned())]),
        })
        .collect();
    append(home, &events);
}
