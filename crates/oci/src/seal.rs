//! Protection of this program's file from containers (CVE-2019-5736).

use crate::OciError;
use std::sync::OnceLock;

/// Seals the program before it comes near a container. If that takes another start of the program from a read-only
/// place, this call does not return.
///
/// # Errors
/// Sealing failed; no container may be entered in this state.
pub fn seal() -> Result<(), OciError> {
    tote_runtime::seal().map_err(OciError::Runtime)
}

/// True if the caller is root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// True if the caller is root of the machine. Rootless engines start runtimes as root of another user namespace; such
/// a root makes no device nodes, sets no device rules, and has only delegated cgroups.
#[must_use]
pub(crate) fn is_root_of_machine() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| is_root() && !in_user_namespace())
}

/// True if state goes to the directory that `$XDG_RUNTIME_DIR` names; `user` is the value of `$USER`. The rule is
/// runc's: root of another user namespace may be a user with a rootless engine, or root logged in to a container.
#[must_use]
pub fn has_runtime_dir(user: Option<&str>) -> bool {
    !is_root() || user != Some("root") && in_user_namespace()
}

fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map");
    // A kernel without user namespaces has no map.
    map.is_ok_and(|map| !map.split_ascii_whitespace().eq(["0", "0", "4294967295"]))
}

/// Returns the caller's user and group.
#[must_use]
pub fn own_ids() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}
