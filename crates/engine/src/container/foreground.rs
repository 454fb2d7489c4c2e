//! The socket of a container in the foreground: for those who wait for its end, and for nothing else.

use super::life::{SOCKET, open_dir};
use crate::Home;
use rustix::fd::{AsFd as _, OwnedFd};
use tote_bundle::ContainerId;
use tote_monitor::Listener;
use tote_sys::{Errno, best_effort};

/// Connects to the command that runs a container in the foreground: it says nothing but how that has ended.
pub(crate) fn connect(home: &Home, id: &ContainerId) -> Result<OwnedFd, Errno> {
    tote_monitor::connect(open_dir(&home.live())?.as_fd(), &socket(id))
}

/// Listens for those who call [`connect`], until [`deafen`].
pub(crate) fn listen(home: &Home, id: &ContainerId) -> Result<Listener, Errno> {
    // One that is bound and cannot listen would stay.
    Listener::bind(open_dir(&home.live())?.as_fd(), &socket(id)).inspect_err(|_| deafen(home, id))
}

/// Takes the socket of [`listen`] away; who has connected is not concerned.
pub(crate) fn deafen(home: &Home, id: &ContainerId) {
    // There is none where the program never ran.
    best_effort(std::fs::remove_file(home.live().join(socket(id))));
}

/// The container whose end such a socket tells, by the socket's name.
pub(super) fn container_of(name: &str) -> Option<ContainerId> {
    name.strip_suffix(SOCKET)?.strip_suffix('.')?.parse().ok()
}

/// Takes away a socket that outlived its container: its removal failed. The claim is made before it, and given back after
/// it.
pub(super) fn sweep(home: &Home, id: &ContainerId) {
    let claimed = crate::record::is_there(&home.live().join(id.as_str()));
    let Ok(live) = open_dir(&home.live()) else { return };
    if matches!(claimed, Ok(false))
        && matches!(tote_sys::waits_for_start(live.as_fd(), &socket(id)), Ok(false))
    {
        deafen(home, id);
    }
}

/// Beside the claim: such a container has no directory.
fn socket(id: &ContainerId) -> String {
    format!("{id}.{SOCKET}")
}
