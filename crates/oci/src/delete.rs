//! The command `delete`.

use crate::record::Record;
use crate::states::Status;
use crate::status::{self, status};
use crate::store::Place;
use crate::{ContainerError, Id, OciError, Store, hooks, record, state};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, pidfd_send_signal};
use std::ffi::CString;
use tote_cgroup::Cgroup;
use tote_sys::{Errno, LastingMount, best_effort};

/// Removes a container that is stopped, or was never started; with `force` any container, and a missing one is not an
/// error.
///
/// # Errors
/// `ContainerError::NotStopped`, `ContainerError::NotFound`, and errors of the removal.
pub fn delete(store: &Store, id: &Id, force: bool, warn: &mut dyn FnMut(String)) -> Result<(), OciError> {
    let locked = store.open(id).and_then(|mut place| place.lock().map(|()| place));
    let place = match locked {
        Err(OciError::Container(ContainerError::NotFound)) if force => return Ok(()),
        other => other?,
    };
    if !force && let Some((record, _)) = place.read()? {
        let status = status(&place, &record);
        if !matches!(status, Status::Stopped | Status::Created) {
            return Err(OciError::Container(ContainerError::NotStopped {
                id: id.to_string(),
                status,
            }));
        }
    }
    clear(place, id, None, warn)
}

/// Ends and removes a container in any state, its record last: an interrupted removal can be repeated. `cgroup` is
/// the container's, if the caller has it open.
pub(crate) fn clear(
    place: Place,
    id: &Id,
    cgroup: Option<Cgroup>,
    warn: &mut dyn FnMut(String),
) -> Result<(), OciError> {
    let found = match place.read() {
        Ok(found) => found,
        // An unreadable record names nothing that could be cleared.
        Err(OciError::Json { what, source }) => {
            warn(format!("{what} is lost: {source}"));
            None
        }
        Err(error) => return Err(error),
    };
    let Some((record, document)) = found else {
        return place.remove();
    };
    destroy(&record, cgroup)?;
    let poststop = if document.contains("\"poststop\"") {
        record::kept(&document)?.hooks.unwrap_or_default().poststop
    } else {
        Vec::new()
    };
    place.remove()?;
    hooks::run_all(
        "poststop",
        &poststop,
        &state::for_hooks(id, &record, Status::Stopped),
        warn,
    );
    Ok(())
}

/// Ends its processes, and removes its cgroup and mounts that outlive them.
pub(crate) fn destroy(record: &Record, cgroup: Option<Cgroup>) -> Result<(), OciError> {
    let cgroup = match cgroup {
        Some(cgroup) => cgroup,
        None => Cgroup::open(&record.cgroup)?,
    };
    end(record, cgroup)?;
    match record.root_mount {
        Some(number) => take_away_root(record, number),
        None => Ok(()),
    }
}

/// Unmounts the container's root. A mount that another process has made on top of it stays, and so do the mounts
/// below.
fn take_away_root(record: &Record, number: u64) -> Result<(), OciError> {
    let failed = |errno| OciError::kernel("unmount the container's root")(errno);
    let namespace = match &record.mount_namespace {
        None => None,
        Some(path) => match rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            // The namespace has gone, and its mounts with it.
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(failed(errno)),
            Ok(namespace) => Some(namespace),
        },
    };
    let path = CString::new(record.rootfs.as_bytes()).map_err(|_| failed(Errno::INVAL))?;
    let mount = LastingMount {
        path: &path,
        number,
        namespace: namespace.as_ref().map(AsFd::as_fd),
    };
    tote_sys::take_away(&mount).map(drop).map_err(failed)
}

fn end(record: &Record, cgroup: Cgroup) -> Result<(), OciError> {
    let init = status::init(record);
    if let Some(init) = &init {
        match pidfd_send_signal(init, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => return Err(OciError::kernel("kill the container's first process")(errno)),
        }
    }
    // The death of the first process kills all others in its PID namespace. A suspended process dies only when it
    // goes on, and processes that share their namespace with others are known by the cgroup alone.
    if !cgroup.is_empty() && (!record.own_pids || cgroup.is_frozen().unwrap_or(false)) {
        cgroup.kill_all()?;
        // Without a freezer no process is suspended.
        best_effort(cgroup.thaw());
    }
    if let Some(init) = init
        && !status::ends_soon(&init)
    {
        // Its processes may be suspended in a group of their own.
        cgroup.take_back()?;
        cgroup.kill_all()?;
        status::wait_end(&init);
    }
    if cgroup.remove().is_ok() {
        return Ok(());
    }
    // A process is left that was put there from outside the container's PID namespace.
    cgroup.kill_all()?;
    Ok(cgroup.remove()?)
}
