//! Bundles of other engines in virtual machines, for `tote oci`.

use crate::{EngineError, Home};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use tote_life::vm::{ANNOTATION, Bundled, bundled, bundled_process, is_bundled};
use tote_spec::{Process, Spec};

/// Returns specification and root of the sandbox of a machine for a bundle (its directory, root and specification) that asks for one by its
/// annotation `tote.isolation`, or for each one if `by_name`; `None` for another bundle.
///
/// # Errors
/// [`EngineError`] if the bundle cannot be in a machine.
pub fn bundle_in_machine(
    (dir, rootfs, spec): (&Path, &Path, &Spec),
    by_name: bool,
) -> Result<Option<(Spec, PathBuf)>, EngineError> {
    if !by_name && !spec.annotations.contains_key(ANNOTATION) {
        return Ok(None);
    }
    // As for every command, but the runtime's own option of that name says where its records are.
    let root = std::env::var_os("TOTE_ROOT").map(PathBuf::from);
    let home = Home::open(root.as_deref())?;
    bundled(&home, Bundled { dir, rootfs, spec }, by_name)
}

/// Returns the process of the sandbox that has the guest run one in a bundle's container; another bundle's process stays as it is.
///
/// # Errors
/// [`EngineError`] if the plan of the process cannot be made.
pub fn process_in_machine(bundle: &Path, process: Process, init: OwnedFd) -> Result<Process, EngineError> {
    if !is_bundled(bundle)? {
        return Ok(process);
    }
    bundled_process(bundle, process, init)
}
