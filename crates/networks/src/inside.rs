//! The network namespace of a running container.

use crate::container::State;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};

/// The network namespace of the container with this state; `None` where it has just ended.
pub(super) fn of(state: &State) -> Option<OwnedFd> {
    let process = state.process?;
    let path = format!("/proc/{}/ns/net", process.pid);
    let network = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    // Another process may have got the number meanwhile.
    process.exists().then_some(network)
}
