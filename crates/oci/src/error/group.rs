//! Errors of cgroups.

use std::path::PathBuf;
use tote_sys::Errno;

/// Reason why a cgroup cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// The mounts of cgroups cannot be read.
    #[error(transparent)]
    CgroupLayout(#[from] tote_cgroup::LayoutError),
    /// The limits cannot become a plan.
    #[error(transparent)]
    CgroupPlan(#[from] tote_cgroup::PlanError),
    /// The path cannot be used for a cgroup.
    #[error(transparent)]
    CgroupPath(#[from] tote_cgroup::PathError),
    /// A cgroup could not be changed or asked.
    #[error(transparent)]
    Cgroup(#[from] tote_cgroup::Error),
    /// The container has no cgroup.
    #[error("the container has no cgroup")]
    NoCgroup,
    /// The cgroup to be made is in use already.
    #[error("{0}")]
    CgroupInUse(String),
    /// `exec` cannot put its process into the requested group.
    #[error("error adding pid of the new process to cgroups: join {}", path.display())]
    SubCgroup {
        /// Path of the group's directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: Errno,
    },
}
