//! The mark of a connection or disconnection that has begun, in `live/`.

use super::record;
use crate::{EngineError, Home};
use std::path::PathBuf;
use tote_bundle::ContainerId;
use tote_state::closed;
use tote_state::record::is_there;
use tote_sys::best_effort;

/// How the mark is called, behind the container's id.
pub const CONNECTING: &str = ".connecting";

fn path(home: &Home, id: &ContainerId) -> PathBuf {
    home.live().join(format!("{id}{CONNECTING}"))
}

/// Leaves the mark of a connection.
pub(crate) fn mark(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    let path = path(home, id);
    closed::write(&path, b"").map_err(EngineError::file("make", path))
}

/// Leaves the mark of a disconnection, if the disk has room for it.
pub(crate) fn mark_disconnection(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    record::mark_removal(&path(home, id))
}

/// Whether a connection was begun and not ended.
pub(crate) fn is_marked(home: &Home, id: &ContainerId) -> Result<bool, EngineError> {
    Ok(is_there(&path(home, id))?)
}

/// Takes the mark away, after everything is as the records say.
pub(crate) fn unmark(home: &Home, id: &ContainerId) {
    best_effort(std::fs::remove_file(path(home, id)));
}
