//! Names of containers and pods: links in `names/` that lead to an id.

use super::find;
pub use super::find::named;
use super::link::{link_text, read};
use super::record::Container;
use super::record_lock::Change;
use crate::{EngineError, Home, LifeError, RequestError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use tote_bundle::{ContainerId, Name};
use tote_state::record::names_in;
use tote_sys::best_effort;

/// Takes a name for a container. If the name is taken, `sweep` clears what killed commands left, and with it the name perhaps.
///
/// # Errors
/// [`EngineError::Life`] if another container has it.
pub fn take(home: &Home, name: &Name, id: &ContainerId, sweep: fn(&Home)) -> Result<(), EngineError> {
    let path = home.names().join(name.as_str());
    for _ in 0..3 {
        match std::os::unix::fs::symlink(link_text(id), &path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => {
                return Err(EngineError::file("make", path)(source));
            }
        }
        // A killed command may have left the name.
        sweep(home);
        if let Some(holder) = holder(home, name, &path)? {
            if crate::pod::is_there(home, &holder)? {
                return Err(crate::pod::PodError::NameTaken {
                    name: name.to_string(),
                    pod: holder.to_string(),
                }
                .into());
            }
            return Err(EngineError::Request(RequestError::NameTaken {
                name: name.to_string(),
                id: holder.to_string(),
            }));
        }
        discard(home, name, &path);
    }
    Err(EngineError::Request(RequestError::NameTaken {
        name: name.to_string(),
        id: "another that comes and goes".to_owned(),
    }))
}

/// Checks that a name can be taken now, without taking it.
///
/// # Errors
/// Those of [`take`].
pub fn check(home: &Home, name: &Name) -> Result<(), EngineError> {
    match holder(home, name, &home.names().join(name.as_str()))? {
        None => Ok(()),
        Some(holder) => Err(EngineError::Request(RequestError::NameTaken {
            name: name.to_string(),
            id: holder.to_string(),
        })),
    }
}

/// Takes a free random name. The id is random already, so it is the seed.
///
/// # Errors
/// [`EngineError::State`].
pub fn take_any(home: &Home, id: &ContainerId) -> Result<Name, EngineError> {
    let seed = u64::from_str_radix(&id.as_str()[..16], 16).unwrap_or_default();
    for attempt in 0_u64.. {
        let name = Name::random(seed.wrapping_add(attempt));
        // docker appends a digit when names run short. The number grows, so that some name is always free.
        let name = match attempt {
            0..5 => name,
            _ => format!("{name}{}", attempt / 5).parse().unwrap_or(name),
        };
        match std::os::unix::fs::symlink(link_text(id), home.names().join(name.as_str())) {
            Ok(()) => return Ok(name),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => {
                return Err(EngineError::file("make a name in", home.names())(source));
            }
        }
    }
    Err(EngineError::Life(LifeError::NoContainer(id.to_string())))
}

/// Returns the existing container that has the name of this link.
fn holder(home: &Home, name: &Name, path: &Path) -> Result<Option<ContainerId>, EngineError> {
    let Some(id) = read(path)? else { return Ok(None) };
    let is_there = find::exists(home, &id)? || crate::pod::is_there(home, &id)?;
    Ok(Some(id).filter(|id| is_there && !is_left(home, id, name.as_str())))
}

/// True if a container has another name, and no process gives it this one now: a `rename` was killed. After an error
/// false.
fn is_left(home: &Home, id: &ContainerId, name: &str) -> bool {
    let other = |container: &Container| !container.name.is_empty() && container.name != name;
    // absence: a name stays unless another one is known to be recorded
    let recorded = || Container::read(home, id).ok().flatten();
    recorded().is_some_and(|container| other(&container))
        && Change::attempt(home, id)
            .is_some_and(|_change| recorded().is_some_and(|container| other(&container)))
}

/// Suffix of the mark in `live/` for a container in renaming.
pub const RENAMING: &str = ".renaming";

/// Completes the killed renaming of a container: it keeps only the name in its record.
pub fn end_rename(home: &Home, id: &ContainerId) {
    let recorded = match Container::read(home, id) {
        Ok(None) => None,
        Ok(Some(_)) => match Change::attempt(home, id) {
            Some(change) => Some(change),
            None => return,
        },
        Err(_) => return,
    };
    let (Ok(container), Ok(names)) = (Container::read(home, id), names_in(&home.names())) else {
        return;
    };
    let mut others = names;
    others.retain(|name| container.as_ref().is_none_or(|container| container.name != *name));
    if release_all(home, &others, id) {
        best_effort(std::fs::remove_file(renaming(home, id)));
    }
    drop(recorded);
}

/// Returns the path of that mark.
pub fn renaming(home: &Home, id: &ContainerId) -> PathBuf {
    home.live().join(format!("{id}{RENAMING}"))
}

/// Removes a link to a missing container. The link is renamed first: only one of two commands gets it, and a link
/// that was made anew in between is put back.
fn discard(home: &Home, name: &Name, path: &Path) {
    let aside = home.names().join(format!(".{}", std::process::id()));
    if std::fs::rename(path, &aside).is_err() {
        return;
    }
    if !matches!(holder(home, name, &aside), Ok(None)) {
        best_effort(std::fs::hard_link(&aside, path));
    }
    best_effort(std::fs::remove_file(&aside));
}

/// Releases a name, if it is this container's. Returns true if the container does not have it any more.
pub fn release(home: &Home, name: &str, id: &ContainerId) -> bool {
    match named(home, name) {
        Ok(Some(holder)) if holder == *id => match tote_sys::remove_file(&home.names().join(name)) {
            Err(error) => error.kind() == ErrorKind::NotFound,
            Ok(()) => true,
        },
        Ok(_) => true,
        Err(_) => false,
    }
}

/// Releases all names of a container with an unknown record. Returns true if it has no name any more.
pub fn release_any(home: &Home, id: &ContainerId) -> bool {
    // absence: the caller keeps the container, and a later removal tries again
    names_in(&home.names()).is_ok_and(|names| release_all(home, &names, id))
}

/// Releases the container's names among these; a failure does not stop the loop.
fn release_all(home: &Home, names: &[String], id: &ContainerId) -> bool {
    let kept = names.iter().filter(|name| !release(home, name, id));
    kept.count() == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_for_each() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::open(Some(dir.path())).unwrap();
        let ids: Vec<ContainerId> = (0..40).map(super::super::tests::id).collect();
        // All have the same seed, so only the appended numbers differ.
        let same = ContainerId::from_bytes([9; 32]);
        let names: std::collections::BTreeSet<String> = ids
            .iter()
            .map(|_| take_any(&home, &same).unwrap().to_string())
            .collect();
        assert_eq!(names.len(), ids.len());
        let name: Name = "web".parse().unwrap();
        take(&home, &name, &ids[0], |_| {}).unwrap();
        // The name's container is missing, so the name is free.
        take(&home, &name, &ids[1], |_| {}).unwrap();
        std::fs::create_dir(home.container(&ids[1])).unwrap();
        let error = take(&home, &name, &ids[2], |_| {}).unwrap_err().to_string();
        assert!(error.contains("is already in use by container 01"), "{error}");
        release(&home, "web", &ids[2]);
        assert!(
            take(&home, &name, &ids[2], |_| {}).is_err(),
            "a name is given back by its owner only"
        );
        release(&home, "web", &ids[1]);
        take(&home, &name, &ids[2], |_| {}).unwrap();
    }
}
