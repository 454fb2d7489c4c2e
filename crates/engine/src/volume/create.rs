//! Creation of volumes, and their records.

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

/// Record of a volume: `volumes/NAME/volume.json`. A volume that `run -v` made has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Record {
    /// Time of creation: nanoseconds since 1970.
    pub(super) created: u64,
    /// Labels of `--label`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, String>,
    /// Values of `--opt`, by their names.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) options: BTreeMap<String, String>,
    /// Container for which an anonymous volume was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) container: Option<String>,
}

impl Record {
    /// Reads the record of a volume; `None` if it has none.
    pub(super) fn read(home: &Home, name: &str) -> Result<Option<Self>, EngineError> {
        Ok(tote_state::record::read(&home.volumes().join(name).join(FILE))?)
    }
}

/// Name of the record in a volume's directory.
const FILE: &str = "volume.json";

/// Label of docker for an anonymous volume.
pub(super) const ANONYMOUS: &str = "com.docker.volume.anonymous";

/// Makes a volume, or finds the existing one. Returns its name, which is random if none is given.
///
/// # Errors
/// [`VolumeFault`] for an invalid name or option, and [`EngineError::State`].
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

/// Makes the volume that `--mount` describes with `volume-opt` or `volume-label`. An existing one stays unchanged,
/// and one without a description needs no record.
pub(super) fn when_missing(home: &Home, name: &str, volume: &Volume) -> Result<(), EngineError> {
    if volume.options.is_empty() && volume.labels.is_empty() || is_there(&home.volumes().join(name))? {
        return Ok(());
    }
    let labels = super::device::options_of(&volume.labels);
    create(home, Some(name), "local", &volume.options, labels).map(drop)
}

/// Records an anonymous volume of a container.
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

/// Makes a volume with its record. Returns true if it is new. It gets its name when it is complete; until then it is
/// locked, while the remains of a killed command are not.
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
        // A sweep may have removed the directory as a leftover before the lock was held.
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
        // Another command was faster.
        Err(_) if is_there(&path)? => Ok(false),
        made => made.map(|()| true),
    }
}

/// Number of attempts to make a directory that a sweep removes.
const ATTEMPTS: u32 = 8;

/// Prefix of the name of a directory in the making, before a random id.
pub(super) const MAKING: &str = ".making-";

/// True for a valid name by docker's rule, which also hides volumes in removal, `.NAME`.
pub(super) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    name.len() <= 255
        && name.bytes().all(plain)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// Appends to the log of `events`.
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
