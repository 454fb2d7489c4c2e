//! Where a container's monitor listens.

use crate::Home;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::time::Duration;
use tote_bundle::ContainerId;
use tote_monitor::{Connection, Report, Request};

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

/// Time within which a monitor answers.
const ANSWER: Duration = Duration::from_secs(5);

/// Tells a container's monitor that the container is in other networks than before, and waits until the monitor has followed. False if
/// the monitor could not, or is of a version that cannot.
///
/// # Errors
/// Those of connect(2), sendmsg(2) and recvmsg(2); `EAGAIN` if the monitor does not answer.
pub fn tell_networks(home: &Home, id: &ContainerId) -> Result<bool, tote_sys::Errno> {
    let mut connection = Connection::new(connect(home, id)?)?;
    connection.limit(ANSWER)?;
    connection.say(Request::Networks)?;
    Ok(matches!(connection.hear()?, Some(Report::Done)))
}
