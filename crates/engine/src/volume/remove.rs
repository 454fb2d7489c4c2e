//! The end of volumes.

use super::VolumeFault;
use super::create::{MAKING, announce, is_name};
use super::hold::{Found, alone};
use super::list::{Filter, VolumeRow, all, fit, given_to, is_anonymous};
use crate::container::Container;
use crate::{EngineError, Home};
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use tote_state::events::Event;
use tote_state::events::append;
use tote_state::record::{RecordError, names_in};
use tote_sys::best_effort;

/// What a pruning has removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrunedVolumes {
    /// Names.
    pub removed: Vec<String>,
    /// Bytes of their files.
    pub bytes: u64,
}

/// Removes a volume that no container has; with `force` one that is not there is no error, and one whose record is damaged
/// goes, too: it may be that of a container which nobody named.
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
    // Looked for when nobody else can get it any more.
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

/// Whether a volume may be removed of which nobody knows whose it is.
fn may_go(name: &str, lost: EngineError, force: bool) -> Result<(), EngineError> {
    match lost {
        EngineError::Record(source @ (RecordError::Damaged { .. } | RecordError::Newer { .. })) => {
            if force {
                return Ok(());
            }
            let name = name.to_owned();
            Err(VolumeFault::Lost { name, source }.into())
        }
        error => Err(error),
    }
}

/// How many volumes are taken at once, each by a descriptor.
const TAKEN_AT_ONCE: usize = 64;

/// Removes those of some volumes that no container has and that nobody is about to give one; `each` is told of every volume
/// that is to go.
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
        // A container that was written down before its volume was taken is among these.
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

/// Removes what killed commands have left: volumes that were being made, and those that were being removed.
pub(crate) fn sweep(home: &Home) {
    for name in names_in(&home.volumes()).unwrap_or_default() {
        let path = home.volumes().join(&name);
        if name.starts_with(MAKING) {
            // Whoever makes it has it locked.
            let dir = std::fs::File::open(&path);
            if dir.is_ok_and(|dir| flock(dir, FlockOperation::NonBlockingLockExclusive).is_ok()) {
                best_effort(tote_sys::remove_tree(&path));
            }
        } else if name.starts_with('.') {
            // What does not go now is found again.
            best_effort(crate::tree::remove_rest(home, &path));
        }
    }
}

/// The volumes of a container that nobody named: its own, and those that it has from another one.
///
/// # Errors
/// [`EngineError::State`]: it cannot be said what volumes there are.
pub(crate) fn unnamed_of(home: &Home, container: &Container) -> Result<Vec<String>, EngineError> {
    let mut names = given_to(home, &container.id)?;
    let inherits = container.options.iter().any(|(option, _)| option == "inherit");
    if inherits {
        for mount in crate::look::mounts(container).filter(|mount| mount.volume) {
            if is_anonymous(home, &mount.source)? {
                names.push(mount.source);
            }
        }
    }
    Ok(names)
}

/// Removes those of the volumes that no container has: their own is gone.
///
/// # Errors
/// [`EngineError::Remove`].
pub(crate) fn remove_unused(home: &Home, names: &[String]) -> Result<(), EngineError> {
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
            // A damaged one counts as nobody's, and stays for `volume rm -f`.
            Some(EngineError::Record(RecordError::Damaged { .. } | RecordError::Newer { .. })) => {}
            Some(error) => failed = failed.or(Some(error)),
        }
    }
    remove_all(home, &unused, &mut |row, removed| match removed {
        Ok(()) => announce(home, "destroy", std::slice::from_ref(&row.name)),
        Err(error) => failed = failed.take().or(Some(error)),
    })?;
    failed.map_or(Ok(()), Err)
}

/// Removes the volumes that no container has: those that nobody named, or all. The first error is that of a volume which
/// stays; the others are removed all the same.
///
/// # Errors
/// [`VolumeFault::Filter`], and [`EngineError::Remove`].
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
    let mut pruned = PrunedVolumes::default();
    let mut failed = None;
    let mut unused = Vec::new();
    for (row, lost) in all(home)? {
        match lost {
            // Nobody knows whose it is, or what labels it has.
            Some(error) => failed = failed.or(Some(error)),
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
        // One that cannot be removed does not keep the others.
        Err(error) => failed = failed.take().or(Some(error)),
    })?;
    announce(home, "destroy", &pruned.removed);
    append(home, &[Event::pruned("volume", pruned.bytes)]);
    failed.map_or(Ok(pruned), Err)
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
