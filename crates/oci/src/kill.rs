//! The command `kill`.

use crate::status;
use crate::{ContainerError, Id, OciError, Store};
use rustix::fd::AsFd as _;
use rustix::process::Signal as Named;
use tote_bundle::Signal;
use tote_cgroup::Cgroup;
use tote_sys::{Errno, best_effort};

/// Sends a signal to a container's first process, or with `all` to every process. Signal 0 only checks that a process
/// exists, as in kill(2).
///
/// # Errors
/// `ContainerError::NotRunning` if no process exists.
pub fn kill(store: &Store, id: &Id, signal: &str, all: bool) -> Result<(), OciError> {
    let signal: Option<Signal> = match signal {
        "0" => None,
        name => Some(
            name.parse()
                .map_err(|_| OciError::Usage(format!("unknown signal {name:?}")))?,
        ),
    };
    let place = store.open(id)?;
    let (record, _) = place
        .read()?
        .ok_or(OciError::Container(ContainerError::NotFound))?;
    let init = status::init(&record);
    let Some(signal) = signal else {
        // runc reports no error if a signal to `all` finds no process, so this check does not either.
        return if all || init.is_some() {
            Ok(())
        } else {
            Err(OciError::Container(ContainerError::NotRunning))
        };
    };
    let is_kill = signal == Signal::KILL;
    // If the namespace is shared, the death of the first process does not kill the others.
    let everybody = all || (is_kill && !record.own_pids);
    let cgroup = || Cgroup::open(&record.cgroup);
    if everybody {
        let cgroup = cgroup()?;
        if init.is_none() && cgroup.pids()?.is_empty() {
            return if all {
                Ok(())
            } else {
                Err(OciError::Container(ContainerError::NotRunning))
            };
        }
        if is_kill {
            cgroup.kill_all()?;
        } else if let Some(named) = Named::from_named_raw(signal.number().into()) {
            cgroup.signal_all(named)?;
        } else {
            return Err(OciError::Usage(format!(
                "cannot send signal {} to all processes",
                signal.number()
            )));
        }
    }
    let Some(init) = init else {
        return if everybody {
            Ok(())
        } else {
            Err(OciError::Container(ContainerError::NotRunning))
        };
    };
    if !everybody || cgroup()?.is_empty() {
        match tote_sys::send_signal(init.as_fd(), signal.number().into()) {
            Ok(()) => {}
            Err(Errno::SRCH) => return Err(OciError::Container(ContainerError::NotRunning)),
            Err(errno) => return Err(OciError::kernel("signal the container's first process")(errno)),
        }
    }
    if is_kill {
        // A suspended process dies when it goes on; without a freezer no process is suspended.
        let cgroup = cgroup()?;
        if cgroup.is_frozen().unwrap_or(false) {
            best_effort(cgroup.thaw());
        }
    }
    Ok(())
}
