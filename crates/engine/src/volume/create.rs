//! Volumes come to be, and what is written down of them.

use super::VolumeFault;
use super::device::Device;
use crate::container::fault;
use crate::{EngineError, Home};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use tote_bundle::{ContainerId, Volume};
use tote_state::events::Event;
use tote_state::events::append;
use tote_state::record::is_there;
use tote_state::record::now;
use tote_sys::best_effort;

/// `volumes/NAME/volume.json`; a volume that `run -v` made has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
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

impl Record {
    /// What is written down of a volume; `None` where nothing is.
    pub(super) fn read(home: &Home, name: &str) -> Result<Option<Self>, EngineError> {
        Ok(tote_state::record::read(&home.volumes().join(name).join(FILE))?)
    }
}

/// The record in a volume's directory.
const FILE: &str = "volume.json";

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
    let options = super::device::options_of(options);
    Device::parse(&name, &options)?;
    super::remove::sweep(home);
    let record = Record {
        created: now(),
        labels,
        options,
        container: None,
    };
    if make(home, &name, &record)? {
        announce(home, "create", std::slice::from_ref(&name));
    }
    Ok(name)
}

/// Makes the volume that `--mount` describes with `volume-opt` or `volume-label`. One that is there stays as it is, and one
/// that nobody describes needs no record.
pub(super) fn when_missing(home: &Home, name: &str, volume: &Volume) -> Result<(), EngineError> {
    if volume.options.is_empty() && volume.labels.is_empty() || is_there(&home.volumes().join(name))? {
        return Ok(());
    }
    let labels = super::device::options_of(&volume.labels);
    create(home, Some(name), "local", &volume.options, labels).map(drop)
}

/// Writes down a volume that a container gets without a name.
pub(super) fn note_anonymous(home: &Home, id: &ContainerId, destination: &str) -> Result<(), EngineError> {
    let name = super::anonymous_name(id, destination);
    let record = Record {
        created: now(),
        labels: BTreeMap::from([(ANONYMOUS.to_owned(), String::new())]),
        container: Some(id.to_string()),
        ..Record::default()
    };
    make(home, &name, &record)?;
    announce(home, "create", &[name]);
    Ok(())
}

/// Makes a volume with its record. Gives whether it is new. It has its name when it is whole; until then it is locked, and
/// what a killed command has left is not.
fn make(home: &Home, name: &str, record: &Record) -> Result<bool, EngineError> {
    let path = home.volumes().join(name);
    if let Some(_held) = super::hold::hold(&path)? {
        super::make(&path.join("_data"))?;
        return Ok(false);
    }
    let fail = |source| EngineError::file("make", &path)(source);
    let fresh = home
        .volumes()
        .join(format!("{MAKING}{}", crate::prepare::new_id()?));
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o700);
    let begin = || {
        builder.create(&fresh)?;
        let dir = std::fs::File::open(&fresh)?;
        flock(&dir, FlockOperation::LockExclusive)?;
        // Between the two a sweep may have taken it for a leftover.
        let is_there = fresh.symlink_metadata().is_ok();
        Ok(is_there.then_some(dir))
    };
    let begun = (0..ATTEMPTS).find_map(|_| begin().transpose());
    let made = begun.transpose().map_err(fail).and_then(|_locked| {
        fault::point("volume-made");
        tote_state::record::write(&fresh.join(FILE), record)?;
        super::make(&fresh.join("_data"))?;
        std::fs::rename(&fresh, &path).map_err(fail)
    });
    if made.is_err() {
        best_effort(std::fs::remove_dir_all(&fresh));
    }
    match made {
        // Somebody else was faster.
        Err(_) if is_there(&path)? => Ok(false),
        made => made.map(|()| true),
    }
}

/// How often a directory is made anew that a sweep has taken.
const ATTEMPTS: u32 = 8;

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
