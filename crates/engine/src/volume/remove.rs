//! The end of volumes.

use super::VolumeFault;
use super::create::{MAKING, announce, is_name};
use super::list::{Filter, all, fit, given_to, is_anonymous};
use crate::container::{Container, Event, append};
use crate::record::{RecordError, names_in};
use crate::{EngineError, Home};
use rustix::fs::{FlockOperation, flock};
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
    let row = all(home)?
        .into_iter()
        .find(|(row, _)| row.name == name && is_name(name));
    let Some((row, lost)) = row else {
        return if force {
            Ok(())
        } else {
            Err(VolumeFault::Missing(name.to_owned()).into())
        };
    };
    if !row.containers.is_empty() {
        return Err(VolumeFault::InUse {
            name: row.name,
            containers: row.containers,
        }
        .into());
    }
    match lost {
        None => {}
        Some(EngineError::Record(RecordError::Damaged { .. } | RecordError::Newer { .. })) if force => {}
        Some(EngineError::Record(source @ (RecordError::Damaged { .. } | RecordError::Newer { .. }))) => {
            let name = row.name;
            return Err(VolumeFault::Lost { name, source }.into());
        }
        Some(error) => return Err(error),
    }
    crate::tree::remove_at(home, &home.volumes().join(name))?;
    announce(home, "destroy", &[row.name]);
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
    let mut unused = all(home)?;
    unused.retain(|(row, lost)| lost.is_none() && row.containers.is_empty() && names.contains(&row.name));
    for (row, _) in unused {
        crate::tree::remove_at(home, &home.volumes().join(&row.name))?;
        announce(home, "destroy", &[row.name]);
    }
    Ok(())
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
    for (row, lost) in all(home)? {
        if let Some(error) = lost {
            // Nobody knows whose it is, or what labels it has.
            failed = failed.or(Some(error));
            continue;
        }
        if row.containers.is_empty() && (named_too || row.anonymous) && fit(&parsed, &row) {
            let bytes = row.size().unwrap_or(0);
            // One that cannot be removed does not keep the others.
            match crate::tree::remove_at(home, &home.volumes().join(&row.name)) {
                Ok(()) => {
                    pruned.bytes += bytes;
                    pruned.removed.push(row.name);
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
    }
    announce(home, "destroy", &pruned.removed);
    append(home, &[Event::pruned("volume", pruned.bytes)]);
    failed.map_or(Ok(pruned), Err)
}
