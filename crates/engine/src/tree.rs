//! Removing what stays of a container.

use crate::{EngineError, Home};
use std::path::Path;
use tote_bundle::ContainerId;

/// Removes a container's directory. Renamed first, so that a crash in between never leaves half a container under its
/// id; what it wrote may belong to ids that only its user namespace has, and directories without permissions.
///
/// # Errors
/// [`EngineError::State`].
pub(crate) fn remove(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    let path = home.container(id);
    let trash = home.containers().join(format!(".{}", id.as_str()));
    match std::fs::rename(&path, &trash) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(source) => {
            return Err(EngineError::State {
                attempt: "remove",
                path,
                source,
            });
        }
    }
    match remove_tree(&trash) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(EngineError::State {
            attempt: "remove",
            path: trash,
            source: error,
        }),
        _ => Ok(()),
    }
}

/// overlayfs leaves a directory without permissions in its work directory; by descriptor, and not through a link.
fn remove_tree(path: &Path) -> std::io::Result<()> {
    use rustix::fs::{CWD, Mode, OFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if let Ok(work) = rustix::fs::openat(CWD, path.join("work"), flags, Mode::empty())
        && rustix::fs::openat(&work, "work", flags, Mode::empty()).is_ok()
    {
        rustix::fs::chmodat(&work, "work", Mode::RWXU, rustix::fs::AtFlags::empty())?;
    }
    std::fs::remove_dir_all(path)
}
