//! `--effective-user`: a session whose files belong to a user of this machine.
//!
//! The session's processes have that user's ids, with the container's capabilities in the ambient set. So they may do what the
//! container's root may, and no process is needed that maps ids. An id-mapped mount would not do: overlayfs cannot be
//! mounted so, and most containers have their root on it.

use super::DebugError;
use crate::EngineError;
use crate::exec::Target;
use std::io::ErrorKind;
use std::path::Path;
use tote_bundle::{ExecOptions, resolve_user};
use tote_spec::IdMapping;

/// Gives the session the ids that a user of this machine has in the container.
///
/// # Errors
/// [`DebugError::Effective`] for an unknown user, and for one whom the container does not map.
pub(crate) fn apply(name: &str, target: &Target, exec: &mut ExecOptions) -> Result<(), EngineError> {
    if exec.user.is_some() {
        return Err(DebugError::TwoUsers.into());
    }
    let wrong = |reason: &str| DebugError::Effective {
        user: name.to_owned(),
        reason: reason.to_owned(),
    };
    let read = |path: &str| match std::fs::read_to_string(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        text => text.map_err(EngineError::file("read", Path::new(path))),
    };
    let found = resolve_user(name, &read("/etc/passwd")?, &read("/etc/group")?);
    let found = found.map_err(|error| wrong(&tote_sys::chain(&error)))?;
    let linux = &target.inside.linux;
    let (Some(uid), Some(gid)) = (
        inside(&linux.uid_mappings, found.uid),
        inside(&linux.gid_mappings, found.gid),
    ) else {
        return Err(wrong("the container has no id for this user").into());
    };
    exec.user = Some(format!("{uid}:{gid}"));
    exec.keeps_capabilities = true;
    Ok(())
}

/// Returns the id that a container has for one of this machine; every one without maps.
fn inside(maps: &[IdMapping], id: u32) -> Option<u32> {
    if maps.is_empty() {
        return Some(id);
    }
    IdMapping::inside(maps, id)
}
