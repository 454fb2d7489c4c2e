//! Marks of removals: what a process that continues one has to know.

use super::claim::VOLUMES;
use super::entry::REMOVING;
use crate::{EngineError, Home};
use std::io::ErrorKind;
use tote_bundle::ContainerId;
use tote_state::locked::is_full_disk;

/// Suffix of the name of a forced removal's lock in `live/`, behind the container's id.
pub(crate) const FORCED: &str = ".removing";

/// Marks a container for removal: a process that finds the mark and a free claim continues. A missing container needs
/// no mark, and a full disk has no room for one.
pub(crate) fn mark(home: &Home, id: &ContainerId, volumes: bool) -> Result<(), EngineError> {
    let path = home.container(id).join(REMOVING);
    let marked = if volumes {
        // The file is written atomically: a mark without its word would let the volumes stay.
        let fresh = path.with_extension("new");
        match tote_state::closed::write(&fresh, VOLUMES) {
            Err(error) if !is_full_disk(&error) => Err(error),
            _ => std::fs::rename(&fresh, &path),
        }
    } else {
        tote_state::closed::write(&path, b"")
    };
    match marked {
        Err(error) if error.kind() == ErrorKind::NotFound || is_full_disk(&error) => Ok(()),
        marked => marked.map_err(EngineError::file("make", path)),
    }
}

/// Reads from the mark whether the anonymous volumes are removed.
///
/// # Errors
/// Fails if the mark cannot be read: the volumes would stay for good if that counted as a no.
pub(crate) fn takes_volumes(home: &Home, id: &ContainerId) -> std::io::Result<bool> {
    match std::fs::read(home.container(id).join(REMOVING)) {
        Ok(text) => Ok(text == VOLUMES),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
