//! Removal of volumes.

use super::VolumeFault;
use super::hold::{Found, alone};
use super::list::{Filter, VolumeRow, all, fit, given_to, is_anonymous};
use super::record::{MAKING, announce, is_name};
use crate::container::Container;
use crate::{EngineError, Home};
use std::collections::BTreeMap;
use tote_state::StateError;
use tote_state::events::Event;
use tote_state::events::append;
use tote_state::record::names_in;
use tote_sys::best_effort;

/// Result of a pruning.
#[derive(Debug, Default)]
pub struct PrunedVolumes {
    /// Names of the removed volumes.
    pub removed: Vec<String>,
    /// Size of their files in bytes.
    pub bytes: u64,
    /// Errors of volumes that stayed; the others were removed all the same.
    pub errors: Vec<EngineError>,
}

/// Removes an unused volume; with `force` a missing one is not an error, and one with a damaged record is removed as
/// well: it may be an anonymous volume of a container.
///
/// # Errors
/// [`VolumeFault`], in docker's words.
pub fn remove(home: &Home, name: &str, force: bool) -> Result<(), EngineError> {
    sweep(home);
    let missing = || VolumeFault::Missing(name.to_owned()).into();
    let found = if is_name(name) {
        alone(&home.volumes().join(name))?
    } else {
        Found::Missing
    };
    // The users are read under the lock, when no further container can get the volume.
    let row = all(home)?.into_iter().find(|(row, _)| row.name == name);
    match (row, found) {
        (None, _) | (_, Found::Missing) if force => Ok(()),
        (None, _) | (_, Found::Missing) => Err(missing()),
        (Some((row, _)), _) if !row.containers.is_empty() => Err(VolumeFault::InUse {
            name: row.name,
            containers: row.containers,
        }
        .into()),
        (Some((row, _)), Found::Held) => Err(VolumeFault::Held(row.name).into()),
        (Some((row, lost)), Found::Alone(_lock)) => {
            if let Some(error) = lost {
                may_go(&row.name, error, force)?;
            }
            crate::tree::remove_at(home, &home.volumes().join(name))?;
            announce(home, "destroy", &[row.name]);
            Ok(())
        }
    }
}

/// Decides whether a volume with unknown users may be removed.
fn may_go(name: &str, lost: EngineError, force: bool) -> Result<(), EngineError> {
    match lost {
        EngineError::State(StateError::Record(source)) if !source.is_passing() => {
            if force {
                return Ok(());
            }
            let name = name.to_owned();
            Err(VolumeFault::Lost { name, source }.into())
        }
        error => Err(error),
    }
}

/// Number of volumes that are locked at once, each by a descriptor.
const TAKEN_AT_ONCE: usize = 64;

/// Removes those of some volumes that no container uses or is about to use; `each` receives the
/// result for every volume.
fn remove_all(
    home: &Home,
    rows: &[VolumeRow],
    each: &mut dyn FnMut(&VolumeRow, Result<(), EngineError>),
) -> Result<(), EngineError> {
    for some in rows.chunks(TAKEN_AT_ONCE) {
        let mut taken = Vec::new();
        for row in some {
            match alone(&home.volumes().join(&row.name)) {
                Ok(Found::Alone(lock)) => taken.push((row, lock)),
                Ok(Found::Held | Found::Missing) => {}
                Err(error) => each(row, Err(error)),
            }
        }
        // These include containers that were recorded before their volume was locked.
        let now = all(home)?;
        let mut now: BTreeMap<String, _> = now.into_iter().map(|now| (now.0.name.clone(), now)).collect();
        for (row, _lock) in taken {
            match now.remove(&row.name) {
                Some((now, None)) if now.containers.is_empty() => {
                    each(row, crate::tree::remove_at(home, &home.volumes().join(&row.name)));
                }
                Some((_, Some(error))) => each(row, Err(error)),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Removes the remains of killed commands: incomplete volumes, and volumes in removal.
pub fn sweep(home: &Home) {
    // absence: the next sweep lists them again
    for name in names_in(&home.volumes()).unwrap_or_default() {
        let path = home.volumes().join(&name);
        if name.starts_with(MAKING) {
            // The maker of a volume has it locked.
            best_effort(tote_state::locked::remove_stale(&path));
        } else if name.starts_with('.') {
            // A volume that cannot be removed now is found again by the next sweep.
            best_effort(crate::tree::remove_rest(home, &path));
        }
    }
}

/// Lists the anonymous volumes of a container: its own, and those from another one.
///
/// # Errors
/// [`EngineError::State`] if the volumes cannot be listed.
pub fn unnamed_of(home: &Home, container: &Container) -> Result<Vec<String>, EngineError> {
    let mut names = given_to(home, &container.id)?;
    let inherits = container.options.iter().any(|(option, _)| option == "inherit");
    if inherits {
        for mount in crate::container::mounts(container).filter(|mount| mount.volume) {
            if is_anonymous(home, &mount.source)? {
                names.push(mount.source);
            }
        }
    }
    Ok(names)
}

/// Removes those of the volumes that are unused; the container that had them is gone.
///
/// # Errors
/// [`EngineError::Machine`].
pub fn remove_unused(home: &Home, names: &[String]) -> Result<(), EngineError> {
    if names.is_empty() {
        return Ok(());
    }
    sweep(home);
    let mut unused = Vec::new();
    let mut failed = None;
    for (row, lost) in all(home)? {
        match lost {
            _ if !row.containers.is_empty() || !names.contains(&row.name) => {}
            None => unused.push(row),
            // A volume with a damaged record has no known owner, and stays for `volume rm -f`.
            Some(EngineError::State(StateError::Record(why))) if why.is_lost() || why.is_newer() => {}
            Some(error) => failed = failed.or(Some(error)),
        }
    }
    remove_all(home, &unused, &mut |row, removed| match removed {
        Ok(()) => announce(home, "destroy", std::slice::from_ref(&row.name)),
        Err(error) => failed = failed.take().or(Some(error)),
    })?;
    failed.map_or(Ok(()), Err)
}

/// Removes the unused volumes: anonymous ones, or all. A volume whose record cannot be read stays; so do all volumes that a container
/// or a pool may use whose record cannot be read.
///
/// # Errors
/// [`VolumeFault::Filter`], and `MachineError::Remove`.
pub fn prune(home: &Home, named_too: bool, filters: &[String]) -> Result<PrunedVolumes, EngineError> {
    let mut named_too = named_too;
    let mut parsed = Vec::new();
    for text in filters {
        match text.as_str() {
            "all=true" | "all=1" => named_too = true,
            text => parsed.push(Filter::parse(text).ok_or_else(|| VolumeFault::Filter(text.to_owned()))?),
        }
    }
    sweep(home);
    let mut pruned = PrunedVolumes {
        errors: crate::container::unread(home)?,
        ..PrunedVolumes::default()
    };
    let mut unused = Vec::new();
    for (row, lost) in all(home)? {
        match lost {
            // The users and labels of this volume are unknown.
            Some(error) => pruned.errors.push(error),
            None => unused.push(row),
        }
    }
    unused.retain(|row| row.containers.is_empty() && (named_too || row.anonymous) && fit(&parsed, row));
    let sizes: BTreeMap<String, u64> = unused
        .iter()
        .map(|row| (row.name.clone(), row.size().unwrap_or(0)))
        .collect();
    remove_all(home, &unused, &mut |row, removed| match removed {
        Ok(()) => {
            pruned.bytes += sizes.get(&row.name).copied().unwrap_or_default();
            pruned.removed.push(row.name.clone());
        }
        // A volume that cannot be removed does not prevent the removal of others.
        Err(error) => pruned.errors.push(error),
    })?;
    announce(home, "destroy", &pruned.removed);
    append(home, &[Event::pruned("volume", pruned.bytes)]);
    Ok(pruned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    #[test]
    fn a_volume_that_cannot_be_looked_at_is_no_removed_one() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let volume = home.volumes().join("v");
        std::fs::create_dir_all(volume.join("_data")).unwrap();
        let record = volume.join("volume.json");
        // open(2) of a socket fails, as that of a file may with EMFILE or EIO.
        mknodat(CWD, &record, FileType::Socket, Mode::RUSR, 0).unwrap();
        let names = ["v".to_owned()];
        assert!(remove_unused(&home, &names).is_err());
        assert!(volume.try_exists().unwrap());
        std::fs::remove_file(&record).unwrap();
        std::fs::write(&record, "").unwrap();
        remove_unused(&home, &names).unwrap();
        assert!(volume.try_exists().unwrap(), "a damaged one is nobody's");
        std::fs::remove_file(&record).unwrap();
        remove_unused(&home, &names).unwrap();
        assert!(!volume.try_exists().unwrap());
    }
}
