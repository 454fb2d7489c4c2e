//! Keeping this program's file out of the reach of containers (CVE-2019-5736).

use crate::OciError;

/// Makes sure of it, before anything of a container is near. Where that takes another start of the program from a
/// read-only place, this does not come back.
///
/// # Errors
/// It could not be done, which is no state to go into a container in.
pub fn seal() -> Result<(), OciError> {
    tote_runtime::seal().map_err(OciError::Runtime)
}

/// Whether the caller is root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The caller's user and group.
#[must_use]
pub fn own_ids() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}
