//! Keeping this program's file out of the reach of containers (CVE-2019-5736).

use crate::OciError;
use std::sync::OnceLock;

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

/// Whether the caller is root of the machine: root of another user namespace than the first one, as rootless engines start
/// runtimes, makes no device nodes, sets no device rules, and has only those cgroups that somebody has given it.
#[must_use]
pub(crate) fn is_root_of_machine() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| is_root() && !in_user_namespace())
}

/// Whether state goes to the directory that `$XDG_RUNTIME_DIR` names, with `user` for `$USER`. This is runc's rule: root of
/// another user namespace may be a user who runs a rootless engine, or the root of a container that somebody logs in to.
#[must_use]
pub fn has_runtime_dir(user: Option<&str>) -> bool {
    !is_root() || user != Some("root") && in_user_namespace()
}

fn in_user_namespace() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map");
    // A kernel without user namespaces has no map.
    map.is_ok_and(|map| !map.split_ascii_whitespace().eq(["0", "0", "4294967295"]))
}

/// The caller's user and group.
#[must_use]
pub fn own_ids() -> (u32, u32) {
    (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    )
}
