//! The commands `pause` and `resume`.

use crate::states::Status;
use crate::status::status;
use crate::{ContainerError, Id, OciError, Store};
use tote_cgroup::Cgroup;

/// Suspends every process of a container.
///
/// # Errors
/// The container does not run, or has no cgroup that could be frozen.
pub fn pause(store: &Store, id: &Id) -> Result<(), OciError> {
    let place = store.open(id)?;
    let (record, _) = place
        .read()?
        .ok_or(OciError::Container(ContainerError::NotFound))?;
    match status(&place, &record) {
        Status::Running | Status::Created => Ok(Cgroup::open(&record.cgroup)?.freeze()?),
        status => Err(OciError::Container(ContainerError::NotPausable(status))),
    }
}

/// Lets the processes go on.
///
/// # Errors
/// `ContainerError::NotPaused`.
pub fn resume(store: &Store, id: &Id) -> Result<(), OciError> {
    let place = store.open(id)?;
    let (record, _) = place
        .read()?
        .ok_or(OciError::Container(ContainerError::NotFound))?;
    match status(&place, &record) {
        Status::Paused => Ok(Cgroup::open(&record.cgroup)?.thaw()?),
        _ => Err(OciError::Container(ContainerError::NotPaused)),
    }
}
