//! Test whether a process watches or changes a container: the lock on its file in `live/`.

use crate::Home;
use rustix::fd::AsFd as _;
use std::fs::OpenOptions;
use tote_bundle::ContainerId;

/// True if a process has the claim of a container; the claim is not taken.
#[must_use]
pub fn is_held(home: &Home, id: &ContainerId) -> bool {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .open(home.live().join(id.as_str()));
    // After an error the claim counts as held, so that nothing is repaired by mistake.
    match file {
        Ok(file) => tote_sys::is_locked(file.as_fd()).unwrap_or(true),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}
