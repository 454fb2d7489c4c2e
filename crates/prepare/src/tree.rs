//! Removing what stays of a container.

use crate::{Caller, EngineError, Home};
use std::path::Path;
use tote_bundle::ContainerId;

/// Removes a container's directory, and takes away its mount for other programs. What it wrote may belong to ids that only its user namespace has, or be in directories
/// that may not be searched; then it is removed from inside one.
///
/// # Errors
/// [`EngineError::Machine`], and [`EngineError::Run`] from inside.
pub fn remove(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    crate::mounted::forget(home, id)?;
    remove_at(home, &home.container(id))
}

/// Removes another directory that containers have written to.
///
/// # Errors
/// As [`remove`].
pub fn remove_at(home: &Home, dir: &Path) -> Result<(), EngineError> {
    from_inside(home, tote_driver::remove(dir))
}

/// Removes what an earlier removal has left that did not come to its end.
///
/// # Errors
/// As [`remove`].
pub fn remove_rest(home: &Home, trash: &Path) -> Result<(), EngineError> {
    from_inside(home, tote_driver::remove_rest(trash))
}

fn from_inside(home: &Home, removed: Result<(), tote_driver::RemoveError>) -> Result<(), EngineError> {
    match removed {
        Err(error)
            if home.caller == Caller::User && error.source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            let maps = tote_images::ranges(0, 0);
            Ok(tote_runtime::remove_tree(&error.path, maps.as_ref())?)
        }
        other => Ok(other?),
    }
}
