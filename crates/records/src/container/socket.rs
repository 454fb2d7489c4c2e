//! Where a container's monitor listens.

use crate::Home;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use tote_bundle::ContainerId;

/// Name of the monitor's socket in the container's directory.
pub const SOCKET: &str = "socket";

/// Connects to a container's monitor.
pub fn connect(home: &Home, id: &ContainerId) -> Result<OwnedFd, tote_sys::Errno> {
    tote_monitor::connect(open_dir(&home.container(id))?.as_fd(), SOCKET)
}

/// Opens a directory only to name what is in it: the path of a socket is short.
pub fn open_dir(path: &std::path::Path) -> Result<OwnedFd, tote_sys::Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}
