//! What is written down of a volume.

use crate::{EngineError, Home};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tote_state::events::{Event, append};
use tote_state::record::now;

/// `volumes/NAME/volume.json`; a volume that `run -v` made has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct VolumeRecord {
    /// When it was made: nanoseconds since 1970.
    pub(super) created: u64,
    /// `--label`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
    /// `--opt`, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) options: BTreeMap<String, String>,
    /// The container that it was made for, where nobody named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container: Option<String>,
}

impl VolumeRecord {
    /// What is written down of a volume; `None` where nothing is.
    pub(super) fn read(home: &Home, name: &str) -> Result<Option<Self>, EngineError> {
        Ok(tote_state::record::read(&home.volumes().join(name).join(FILE))?)
    }
}

/// The record in a volume's directory.
pub(super) const FILE: &str = "volume.json";

/// docker's label for a volume that nobody named.
pub(super) const ANONYMOUS: &str = "com.docker.volume.anonymous";

/// How a directory in the making is called, before an id of its own.
pub(super) const MAKING: &str = ".making-";

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
