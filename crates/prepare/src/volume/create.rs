//! Creation of volumes, and their records.

use super::VolumeFault;
use super::device::Device;
use super::record::{ANONYMOUS, FILE, MAKING, VolumeRecord, announce, is_name};
use crate::container::fault;
use crate::{Caller, EngineError, Home};
use rustix::fs::FlockOperation;
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use tote_bundle::{ContainerId, Volume};
use tote_state::locked::directory;
use tote_state::new_id;
use tote_state::record::is_there;
use tote_state::record::now;
use tote_sys::best_effort;

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
            new_id()?.to_string()
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
    if let Some(device) = Device::parse(&name, &options)? {
        device.allowed(&name, home.caller == Caller::Root)?;
    }
    super::remove::sweep(home);
    let record = VolumeRecord {
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
pub(crate) fn when_missing(home: &Home, name: &str, volume: &Volume) -> Result<(), EngineError> {
    if volume.options.is_empty() && volume.labels.is_empty() || is_there(&home.volumes().join(name))? {
        return Ok(());
    }
    let labels = super::device::options_of(&volume.labels);
    create(home, Some(name), "local", &volume.options, labels).map(drop)
}

/// Records an anonymous volume of a container.
pub(crate) fn note_anonymous(home: &Home, id: &ContainerId, destination: &str) -> Result<(), EngineError> {
    let name = super::place::anonymous_name(id, destination);
    let record = VolumeRecord {
        created: now(),
        labels: BTreeMap::from([(ANONYMOUS.to_owned(), String::new())]),
        container: Some(id.to_string()),
        ..VolumeRecord::default()
    };
    make(home, &name, &record)?;
    announce(home, "create", &[name]);
    Ok(())
}

/// Makes a volume with its record. Returns true if it is new. It gets its name when it is complete; until then it is
/// locked, while the remains of a killed command are not.
fn make(home: &Home, name: &str, record: &VolumeRecord) -> Result<bool, EngineError> {
    let path = home.volumes().join(name);
    if let Some(_held) = super::hold::hold(&path)? {
        super::place::make(&path.join("_data"))?;
        return Ok(false);
    }
    let fail = |source| EngineError::file("make", &path)(source);
    let fresh = home.volumes().join(format!("{MAKING}{}", new_id()?));
    let mut builder = std::fs::DirBuilder::new();
    builder.mode(0o700);
    let begin = || -> std::io::Result<_> {
        loop {
            builder.create(&fresh)?;
            // A sweep may have removed the directory as a leftover before the lock was held.
            if let Some(lock) = directory(&fresh, FlockOperation::LockExclusive)? {
                return Ok(lock);
            }
        }
    };
    let made = begin().map_err(fail).and_then(|_locked| {
        fault::point("volume-made");
        tote_state::record::write(&fresh.join(FILE), record)?;
        super::place::make(&fresh.join("_data"))?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Other commands sweep at any moment, also between the steps of this one.
    #[test]
    fn a_volume_in_the_making_is_not_swept() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let over = AtomicBool::new(false);
        let failed = std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        super::super::remove::sweep(&home);
                    }
                });
            }
            let made = (0..300).map(|number| {
                let name = format!("v{number}");
                make(&home, &name, &VolumeRecord::default())?;
                let there = is_there(&home.volumes().join(name).join("_data"))?;
                Ok::<bool, EngineError>(there)
            });
            let failed = made.filter(|made| !matches!(made, Ok(true))).count();
            over.store(true, Ordering::Relaxed);
            failed
        });
        assert_eq!(failed, 0);
    }
}
