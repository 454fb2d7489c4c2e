//! The network namespace of a running container.

use crate::EngineError;
use crate::container::State;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

/// Opens the network namespace of the container with this state; `None` if the container has just ended.
///
/// # Errors
/// Those of open(2) and read(2), except that the process is gone.
pub(super) fn of(state: &State) -> Result<Option<OwnedFd>, EngineError> {
    let Some(process) = state.process else {
        return Ok(None);
    };
    let path = format!("/proc/{}/ns/net", process.pid);
    let opened = rustix::fs::open(&path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let Some(network) = tote_sys::alive(opened).map_err(EngineError::file("open", path))? else {
        return Ok(None);
    };
    // Another process may have got the number meanwhile.
    let is_same = tote_state::process::reach(process.pid, process.start_time)?.is_some();
    Ok(is_same.then_some(network))
}
