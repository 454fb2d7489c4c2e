//! Namespaces of a container that a new process joins.

use rustix::fs::stat;

/// Namespaces to join, and the way to do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Namespaces {
    /// `CLONE_NEW…` bits of the namespaces that the new process joins.
    pub flags: u32,
    /// True if this process itself has to join the user namespace for good: a caller other than root has the right to
    /// join the other namespaces only from inside it.
    pub user: bool,
}

const NEW_USER: u32 = 0x1000_0000;
pub(crate) const NEW_PID: u32 = 0x2000_0000;

/// `CLONE_NEW…` bits and the names in `/proc/PID/ns`.
const NAMES: [(u32, &str); 8] = [
    (NEW_USER, "user"),
    (0x2_0000, "mnt"),
    (0x200_0000, "cgroup"),
    (0x400_0000, "uts"),
    (0x800_0000, "ipc"),
    (NEW_PID, "pid"),
    (0x4000_0000, "net"),
    (0x80, "time"),
];

impl Namespaces {
    /// Selects the namespaces to join of a container with this process: those of `given` (`CLONE_NEW…` bits) that are
    /// not this process's own as well.
    #[must_use]
    pub fn to_join(given: u32, pid: u32) -> Self {
        let root = rustix::process::geteuid().is_root();
        let has_user = given & NEW_USER != 0;
        let inode = |process: &str, name: &str| {
            stat(format!("/proc/{process}/ns/{name}")).map(|found| (found.st_dev, found.st_ino))
        };
        let its = pid.to_string();
        let mut flags = 0;
        for (flag, name) in NAMES.into_iter().filter(|(flag, _)| given & flag != 0) {
            // Root can join its own namespaces again without effect; in a user namespace that is not allowed.
            let ours =
                || matches!((inode("self", name), inode(&its, name)), (Ok(own), Ok(its)) if own == its);
            if (!has_user && root) || !ours() {
                flags |= flag;
            }
        }
        let user = !root && flags & NEW_USER != 0;
        Self {
            flags: if user { flags & !NEW_USER } else { flags },
            user,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_this_processs_own_is_not_joined() {
        let own = Namespaces::to_join(NEW_USER | NEW_PID, std::process::id());
        assert_eq!(
            own,
            Namespaces {
                flags: 0,
                user: false
            }
        );
        assert_eq!(Namespaces::to_join(0, std::process::id()).flags, 0);
    }
}
