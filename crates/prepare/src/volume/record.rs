//! Records of volumes.

use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tote_state::events::{Event, append};
use tote_state::record::now;

/// Record of a volume: `volumes/NAME/volume.json`. A volume that `run -v` made has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct VolumeRecord {
    /// Time of creation: nanoseconds since 1970.
    pub created: u64,
    /// `--label`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Values of `--opt`, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Container for which an anonymous volume was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

impl VolumeRecord {
    /// Reads the record of a volume; `None` if it has none.
    pub(crate) fn read(home: &Home, name: &str) -> Result<Option<Self>, EngineError> {
        Ok(tote_state::record::read(&home.volumes().join(name).join(FILE))?)
    }
}

/// Name of the record in a volume's directory.
pub(crate) const FILE: &str = "volume.json";

/// Label of docker for an anonymous volume.
pub(crate) const ANONYMOUS: &str = "com.docker.volume.anonymous";

/// Prefix of the name of a directory in the making, before a random id.
pub(crate) const MAKING: &str = ".making-";

/// True for a valid name by docker's rule, which also hides volumes in removal, `.NAME`.
pub(crate) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    name.len() <= 255
        && name.bytes().all(plain)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Tells `events`.
pub(crate) fn announce(home: &Home, action: &str, names: &[String]) {
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
