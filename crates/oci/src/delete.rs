//! `delete`.

use crate::record::Record;
use crate::status::{self, Status, status};
use crate::store::Place;
use crate::{Id, OciError, Store, hooks, record, state};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, pidfd_send_signal};
use std::ffi::CString;
use tote_cgroup::Cgroup;
use tote_sys::{Errno, LastingMount, best_effort};

/// Removes a container that is stopped, or was never started; with `force` any, and then one that does not exist is no
/// error.
///
/// # Errors
/// [`OciError::NotStopped`], [`OciError::NotFound`], and what kept it from being removed.
pub fn delete(store: &Store, id: &Id, force: bool, warn: &mut dyn FnMut(String)) -> Result<(), OciError> {
    let locked = store.open(id).and_then(|mut place| place.lock().map(|()| place));
    let place = match locked {
        Err(OciError::NotFound) if force => return Ok(()),
        other => other?,
    };
    if !force && let Some((record, _)) = place.read()? {
        let status = status(&place, &record);
        if !matches!(status, Status::Stopped | Status::Created) {
            return Err(OciError::NotStopped {
                id: id.to_string(),
                status,
            });
        }
    }
    clear(place, id, None, warn)
}

/// Ends and removes a container whatever it is, its record last: where this is interrupted, it can be done again.
/// `cgroup` is its own, of a caller who has it open.
pub(crate) fn clear(
    place: Place,
    id: &Id,
    cgroup: Option<Cgroup>,
    warn: &mut dyn FnMut(String),
) -> Result<(), OciError> {
    let found = match place.read() {
        Ok(found) => found,
        // One that cannot be read tells nothing that could be cleared.
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

/// Ends its processes, and removes its cgroup and those of its mounts that outlive them.
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

/// What is on top of it in the meantime is somebody else's, and stays, as does what is under that.
fn take_away_root(record: &Record, number: u64) -> Result<(), OciError> {
    let failed = |errno| OciError::kernel("unmount the container's root")(errno);
    let namespace = match &record.mount_namespace {
        None => None,
        Some(path) => match rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            // It has gone, and its mounts with it.
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
    // Its death is that of all others in its PID namespace. A suspended one hears of it only when it goes on, and what
    // shares its namespace with others is known by the cgroup alone.
    if !cgroup.is_empty() && (!record.own_pids || cgroup.is_frozen().unwrap_or(false)) {
        cgroup.kill_all()?;
        // Without a freezer there is nothing to thaw.
        best_effort(cgroup.thaw());
    }
    if let Some(init) = init
        && !status::ends_soon(&init)
    {
        // Somebody may have suspended its processes in a group of theirs.
        cgroup.take_back()?;
        cgroup.kill_all()?;
        status::wait_end(&init);
    }
    if cgroup.remove().is_ok() {
        return Ok(());
    }
    // Somebody is left: one that was put there from outside the container's PID namespace.
    cgroup.kill_all()?;
    Ok(cgroup.remove()?)
}
