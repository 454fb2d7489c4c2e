//! Errors of `mount` and `umount`.

use std::path::PathBuf;
use tote_sys::Errno;

/// Why a container cannot be mounted for programs of this machine, or its mount cannot be taken away.
#[derive(Debug, thiserror::Error)]
pub enum MountFault {
    /// A caller other than root of the machine.
    #[error("cannot mount container {0} for other programs: only root of the machine can")]
    NotRoot(String),
    /// A container under the driver split.
    #[error(
        "cannot mount container {0} for other programs: with the driver split its root is several mounts"
    )]
    Split(String),
    /// A container that is not mounted.
    #[error("container {0} is not mounted")]
    NotMounted(String),
    /// A mount that a process works in.
    #[error("cannot unmount container {name}: a process works in {path}")]
    InUse {
        /// Name of the container.
        name: String,
        /// The place.
        path: PathBuf,
    },
    /// A container that is mounted where this process does not see it.
    #[error("container {name} is mounted in another mount namespace, that of process {pid}")]
    Elsewhere {
        /// Name of the container.
        name: String,
        /// A process in that namespace.
        pid: u32,
    },
    /// A mount that the kernel refuses.
    #[error("cannot {attempt} container {name}")]
    Kernel {
        /// The attempt, a verb phrase.
        attempt: &'static str,
        /// Name of the container.
        name: String,
        /// The kernel's reason.
        #[source]
        source: Errno,
    },
}

impl MountFault {
    /// Says what to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotRoot(_) | Self::Split(_) => Some(
                "'tote cp', 'tote export' and 'tote debug' reach its files, and 'tote ls' shows where its tree is while it runs",
            ),
            Self::InUse { .. } => Some("end that process, or let it leave the directory; fuser(1) names it"),
            Self::Elsewhere { .. } => {
                Some("give 'tote umount' there, or end the processes of that namespace")
            }
            _ => None,
        }
    }
}
