//! Errors of the ground that containers stand on: cgroups, ids, storage.

use tote_driver::PrepareError;
use tote_sys::Errno;

/// Reason why this machine does not give what a container needs.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// `--cgroup-parent`
    #[error("cannot use --cgroup-parent")]
    CgroupPath(#[source] tote_cgroup::PathError),
    /// `--cgroups=split`
    #[error("cannot use --cgroups=split")]
    CgroupRoom(#[source] tote_cgroup::Error),
    /// The layout of cgroups.
    #[error("cannot find the cgroups of this machine")]
    CgroupLayout(#[source] tote_cgroup::LayoutError),
    /// Limits that mean nothing.
    #[error(transparent)]
    CgroupPlan(#[from] tote_cgroup::PlanError),
    /// The host's skeleton.
    #[error("cannot prepare the host image")]
    HostImage(#[source] tote_rootfs::HostImageError),
    /// The directory of `rootfs:DIR`.
    #[error("cannot use image rootfs:{given}")]
    Directory {
        /// The given text.
        given: String,
        /// Why not.
        #[source]
        source: tote_rootfs::DirectoryError,
    },
    /// The container's storage.
    #[error(transparent)]
    Storage(#[from] PrepareError),
    /// A container's directory that does not go.
    #[error(transparent)]
    Remove(#[from] tote_driver::RemoveError),
    /// `/etc/passwd` or `/etc/group` of the image.
    #[error("cannot look up the user in the image")]
    UserFile(#[source] tote_rootfs::ReadError),
    /// Ids that cannot be had.
    #[error("user {0} needs more than one id in the container, and this user has no ranges")]
    NoRanges(String),
    /// A spec that cannot be planned.
    #[error(transparent)]
    Plan(#[from] tote_sandbox::PlanError),
}

impl MachineError {
    pub(crate) fn hint(&self) -> Option<String> {
        match self {
            Self::Storage(error) => for_storage(error),
            Self::NoRanges(_) => Some(
                "add this user to /etc/subuid and /etc/subgid (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER) and install uidmap"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

fn for_storage(error: &PrepareError) -> Option<String> {
    Some(match error {
        PrepareError::Look {
            source: Errno::ACCESS,
            ..
        } => "a directory of the image is closed to all ids that you have: use --driver overlay".to_owned(),
        PrepareError::NoQuotas { path } => format!(
            "enable them, for all of that file system, with 'btrfs quota enable {}', or use --driver loop",
            path.display()
        ),
        PrepareError::InconsistentQuotas { path } => format!(
            "have all that is used counted again with 'btrfs quota rescan -w {}', or use --driver loop",
            path.display()
        ),
        _ => return None,
    })
}
