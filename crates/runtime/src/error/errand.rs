//! Errors of what the parent makes for the new process.

use tote_network::{DeviceError, LinkError};
use tote_sys::Errno;

/// Reason why the parent could not do its part of a birth.
#[derive(Debug, thiserror::Error)]
pub enum ErrandError {
    /// The maps of the user namespace could not be written.
    #[error("cannot write the {file} of the container's user namespace")]
    Map {
        /// `uid_map` or `gid_map`.
        file: &'static str,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
    /// newuidmap(1) or newgidmap(1) refused.
    #[error("{program} refused the ranges of the container's user namespace: {said}")]
    MapProgram {
        /// Name of the program.
        program: &'static str,
        /// Its message.
        said: String,
    },
    /// The network namespace could not be made.
    #[error("cannot make the container's network namespace")]
    Network(#[source] Errno),
    /// The user namespace of an id-mapped mount could not be made.
    #[error("cannot make the user namespace of an id-mapped mount")]
    Idmap(#[source] Errno),
    /// A device node could not be made for a user namespace, in which none can be made.
    #[error("cannot make the device node {path:?} for the container")]
    Node {
        /// Path inside the container.
        path: String,
        /// Cause.
        #[source]
        source: Errno,
    },
    /// A network device could not be moved.
    #[error(transparent)]
    NetDevice(#[from] DeviceError),
    /// A link of the container's could not be made.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The score by which the kernel chooses processes to kill could not be set.
    #[error("cannot set the oom score of the container's process")]
    OomScore(#[source] std::io::Error),
    /// The device program could not be loaded or attached.
    #[error("cannot set the device rules of the container's cgroup")]
    DeviceFilter(#[source] Errno),
    /// The cgroup could not be made or entered.
    #[error("cannot set up the container's cgroup")]
    Cgroup(#[source] tote_cgroup::Error),
}

impl ErrandError {
    /// Returns advice for the user, if there is any.
    pub(super) fn hint(&self) -> Option<String> {
        let text = match self {
            Self::Network(errno) | Self::Idmap(errno) => for_clone(*errno)?,
            Self::Map { file, source } if source.kind() == std::io::ErrorKind::NotFound => {
                let program = if *file == "uid_map" {
                    "newuidmap"
                } else {
                    "newgidmap"
                };
                return Some(format!(
                    "install {program} (package uidmap or shadow-utils), or run as one user without -u"
                ));
            }
            Self::MapProgram { .. } => "check this user's lines in /etc/subuid and /etc/subgid",
            Self::Cgroup(tote_cgroup::Error::NotHere { .. }) => {
                "see /sys/devices/system/cpu/online and /sys/devices/system/node/online"
            }
            _ => return None,
        };
        Some(text.to_owned())
    }
}

/// Returns advice for a namespace or a process that the kernel refuses.
pub(super) fn for_clone(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::PERM => {
            "user namespaces are not allowed here: see kernel.unprivileged_userns_clone, user.max_user_namespaces and kernel.apparmor_restrict_unprivileged_userns"
        }
        Errno::NOSPC | Errno::USERS => {
            "a limit of namespaces is reached, often that of user namespaces: raise user.max_user_namespaces and the other limits below /proc/sys/user"
        }
        Errno::AGAIN => "a limit of processes is reached: see ulimit -u and the pids cgroup",
        Errno::NOSYS => "this kernel is too old: tote needs Linux 5.12",
        Errno::INVAL => "this kernel lacks a kind of namespace: see CONFIG_*_NS, and /proc/self/ns",
        _ => return None,
    })
}
