//! `mount` and `umount`: the root of a container, visible to programs of this machine.
//!
//! The mount is a copy of that of the container's process, or for a stopped container of a process that has the same
//! mounts for a moment. So with any storage driver it is one and the same file system, and a start that finds it mounted
//! uses it once more ([`place::in_place`]). A removal takes the mount away.

use crate::changes::ContainerError;
use crate::container::{self, Entry, LifeError, Status, Stillness};
use crate::copy::Visit;
use crate::{Caller, EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use tote_bundle::{ContainerId, Image};
use tote_records::mounted::{self as place, MountFault, Mounted, Place};
use tote_state::events::append;
use tote_state::process;
use tote_sys::{Errno, best_effort};

/// A container that is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountRow {
    /// Id of the container.
    pub id: ContainerId,
    /// Name of the container; empty if it has none.
    pub name: String,
    /// The place.
    pub path: PathBuf,
}

/// Mounts the root of a container, and returns where; one that is mounted stays as it is.
///
/// # Errors
/// [`MountFault`], and those of a start for a container that does not run.
pub fn mount(home: &Home, wanted: &str) -> Result<PathBuf, EngineError> {
    let entry = container::find(home, wanted)?;
    let name = entry.container.display().to_owned();
    if home.caller != Caller::Root {
        return Err(fault(MountFault::NotRoot(name)));
    }
    crate::vm::check_here(&entry.container, "mount")?;
    if entry.container.source()? == Image::Host {
        return Err(ContainerError::OfHost(entry.container.id.short().to_owned()).into());
    }
    if entry.container.driver.as_deref() == Some(tote_driver::Driver::Split.name()) {
        return Err(fault(MountFault::Split(name)));
    }
    if let Some(process) = running(&entry) {
        return show(home, &entry, &process);
    }
    let (entry, claim) = match container::claim(home, entry) {
        // It may have been started meanwhile.
        Err(EngineError::Life(LifeError::Busy(busy))) => {
            let entry = container::find(home, wanted)?;
            let process = running(&entry).ok_or(LifeError::Busy(busy))?;
            return show(home, &entry, &process);
        }
        claimed => claimed?,
    };
    if entry.state.status == Status::Removing {
        claim.release();
        return Err(LifeError::Removing(name).into());
    }
    let there = place::look(home, &entry.container.id);
    if !matches!(there, Ok(Mounted::No)) {
        claim.release();
        return match there? {
            Mounted::Elsewhere(pid) => Err(fault(MountFault::Elsewhere { name, pid })),
            Mounted::Here | Mounted::No => Ok(home.mount(&entry.container.id)),
        };
    }
    let visit = Visit::new(home, Stillness::of(entry.clone(), claim))?;
    let process = visit.pidfd().map_err(|error| kernel("mount", &entry, &error))?;
    show(home, &entry, &process)
}

/// The first process of a container that runs.
fn running(entry: &Entry) -> Option<OwnedFd> {
    let first = entry.state.process.filter(|_| entry.state.runs())?;
    process::open(first.pid, first.start_time)
}

/// Mounts the root of a process at the place of a container.
fn show(home: &Home, entry: &Entry, process: &OwnedFd) -> Result<PathBuf, EngineError> {
    let (id, name) = (&entry.container.id, entry.container.display());
    // The lock comes before the look at the process: its end is followed by a start, which waits for the lock then, or by
    // a removal, which does so as well.
    let place = Place::lock(home, id, true)?;
    let place = place.ok_or_else(|| LifeError::Busy(name.to_owned()))?;
    match place.look()? {
        Mounted::Here => return Ok(place.path),
        Mounted::Elsewhere(pid) => {
            let name = name.to_owned();
            return Err(fault(MountFault::Elsewhere { name, pid }));
        }
        Mounted::No => {}
    }
    if let Err(error) = place.show(home, process.as_fd(), name) {
        best_effort(place.clear(false));
        return Err(error);
    }
    append(home, &[entry.container.event("mount")]);
    Ok(place.path)
}

/// Takes the mount of a container away.
///
/// # Errors
/// [`MountFault::NotMounted`], [`MountFault::InUse`], [`MountFault::Elsewhere`].
pub fn unmount(home: &Home, wanted: &str) -> Result<(), EngineError> {
    let entry = container::find(home, wanted)?;
    let name = || entry.container.display().to_owned();
    let Some(place) = Place::lock(home, &entry.container.id, false)? else {
        return Err(fault(MountFault::NotMounted(name())));
    };
    let seen = place.look()?;
    if let Mounted::Elsewhere(pid) = seen {
        let name = name();
        return Err(fault(MountFault::Elsewhere { name, pid }));
    }
    let cleared = place.clear(false);
    if cleared.as_ref().is_err_and(is_busy) {
        let (name, path) = (name(), place.path);
        return Err(fault(MountFault::InUse { name, path }));
    }
    cleared?;
    if seen == Mounted::No {
        return Err(fault(MountFault::NotMounted(name())));
    }
    append(home, &[entry.container.event("unmount")]);
    Ok(())
}

/// Lists the containers that are mounted where this process sees them.
///
/// # Errors
/// [`EngineError::State`].
pub fn mounts(home: &Home) -> Result<Vec<MountRow>, EngineError> {
    let mut rows = Vec::new();
    for id in place::marked(home)? {
        if place::look(home, &id)? != Mounted::Here {
            continue;
        }
        if let Some(entry) = container::open(home, &id)? {
            let (name, path) = (entry.container.name, home.mount(&id));
            rows.push(MountRow { id, name, path });
        }
    }
    Ok(rows)
}

fn is_busy(error: &EngineError) -> bool {
    use std::io::ErrorKind::ResourceBusy;
    use tote_state::StateError;
    matches!(error, EngineError::State(StateError::File { source, .. }) if source.kind() == ResourceBusy)
}

fn fault(fault: MountFault) -> EngineError {
    ContainerError::from(fault).into()
}

fn kernel(attempt: &'static str, entry: &Entry, error: &std::io::Error) -> EngineError {
    fault(MountFault::Kernel {
        attempt,
        name: entry.container.display().to_owned(),
        source: Errno::from_io_error(error).unwrap_or(Errno::IO),
    })
}
