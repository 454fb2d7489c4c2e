//! Names of containers: links in `names/` whose text is an id.

use crate::{EngineError, Home};
use std::path::Path;
use tote_bundle::{ContainerId, Name};
use tote_sys::best_effort;

/// Takes a name for a container.
///
/// # Errors
/// [`EngineError::NameTaken`] when another container has it.
pub(crate) fn take(home: &Home, name: &Name, id: &ContainerId) -> Result<(), EngineError> {
    let path = home.names().join(name.as_str());
    for _ in 0..3 {
        match std::os::unix::fs::symlink(id.as_str(), &path) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(source) => {
                return Err(EngineError::State {
                    attempt: "make",
                    path,
                    source,
                });
            }
        }
        // A command that was killed may have left it.
        crate::live::sweep(home);
        if let Some(holder) = holder(home, &path) {
            return Err(EngineError::NameTaken {
                name: name.to_string(),
                id: holder.to_string(),
            });
        }
        discard(home, &path);
    }
    Err(EngineError::NameTaken {
        name: name.to_string(),
        id: "another that comes and goes".to_owned(),
    })
}

/// The container that has the name, if it is still there.
fn holder(home: &Home, path: &Path) -> Option<ContainerId> {
    let id: ContainerId = std::fs::read_link(path).ok()?.to_str()?.parse().ok()?;
    (home.live().join(id.as_str()).exists() || home.container(&id).exists()).then_some(id)
}

/// Removes a link to a container that is no more. Renamed first: of two commands only one gets it, and a link that was
/// made anew in between is put back.
fn discard(home: &Home, path: &Path) {
    let aside = home.names().join(format!(".{}", std::process::id()));
    if std::fs::rename(path, &aside).is_err() {
        return;
    }
    if holder(home, &aside).is_some() {
        best_effort(std::fs::hard_link(&aside, path));
    }
    best_effort(std::fs::remove_file(&aside));
}

/// Gives a name back, if it is this container's.
pub(crate) fn release(home: &Home, name: &Name, id: &ContainerId) {
    let path = home.names().join(name.as_str());
    if std::fs::read_link(&path).is_ok_and(|text| text == Path::new(id.as_str())) {
        best_effort(std::fs::remove_file(path));
    }
}
