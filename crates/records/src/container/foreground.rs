//! Socket of a container in the foreground: for commands that wait for its end, and for those that
//! need it to have a monitor.

use super::socket::{SOCKET, open_dir};
use super::{Entry, find};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::cell::RefCell;
use tote_bundle::ContainerId;
use tote_monitor::{Connection, Door, Listener, Request};
use tote_runtime::Aside;
use tote_sys::{Errno, best_effort};

/// Access to the command that runs a container in the foreground, while its program runs.
#[derive(Debug)]
pub struct FrontDoor<'a> {
    home: &'a Home,
    id: &'a ContainerId,
    door: Option<Door>,
    /// Place for the connections when a monitor takes over.
    left: &'a RefCell<Option<Door>>,
}

impl<'a> FrontDoor<'a> {
    /// Makes a closed access.
    pub fn new(home: &'a Home, id: &'a ContainerId, left: &'a RefCell<Option<Door>>) -> Self {
        let door = None;
        Self { home, id, door, left }
    }

    /// Closes the access; connected clients are still told of the end.
    pub fn close(self) -> Option<Door> {
        if self.door.is_some() {
            deafen(self.home, self.id);
        }
        self.door
    }
}

impl Aside for FrontDoor<'_> {
    fn begin(&mut self) -> Result<(), String> {
        // Without the socket the end is not reported, but the container goes on.
        self.door = listen(self.home, self.id).ok().map(Door::new);
        Ok(())
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        self.door.iter().flat_map(Door::fds).collect()
    }

    fn advance(&mut self) -> bool {
        self.door.as_mut().is_some_and(Door::advance)
    }

    fn leave(&mut self) {
        self.left.replace(self.door.take());
    }

    fn stay(&mut self) {
        self.door = self.left.take();
        self.refuse();
    }

    fn refuse(&mut self) {
        self.door.iter_mut().for_each(Door::answer);
    }
}

/// Finds a container, under a monitor if it runs in the foreground and can have one: the command
/// that runs it makes one then.
///
/// # Errors
/// Those of [`find()`].
pub fn find_monitored(home: &Home, wanted: &str) -> Result<Entry, EngineError> {
    let entry = find(home, wanted)?;
    if entry.kept || !entry.state.runs() {
        return Ok(entry);
    }
    let asked = connect(home, &entry.container.id).and_then(Connection::new);
    if let Ok(mut connection) = asked
        && connection.say(Request::Monitor).is_ok()
    {
        // The command closes the connection without a report.
        best_effort(connection.hear().map(drop));
    }
    find(home, entry.container.id.as_str())
}

/// Connects to the command that runs a container in the foreground.
pub fn connect(home: &Home, id: &ContainerId) -> Result<OwnedFd, Errno> {
    tote_monitor::connect(open_dir(&home.live())?.as_fd(), &socket(id))
}

/// Listens for callers of [`connect`], until [`deafen`].
pub fn listen(home: &Home, id: &ContainerId) -> Result<Listener, Errno> {
    // If the listen(2) fails, the bound socket must be removed.
    Listener::bind(open_dir(&home.live())?.as_fd(), &socket(id)).inspect_err(|_| deafen(home, id))
}

/// Removes the socket of [`listen`]; present connections stay.
pub fn deafen(home: &Home, id: &ContainerId) {
    // The socket is missing if the program never ran.
    best_effort(std::fs::remove_file(home.live().join(socket(id))));
}

/// Parses the name of such a socket into the container's id.
pub fn container_of(name: &str) -> Option<ContainerId> {
    name.strip_suffix(SOCKET)?.strip_suffix('.')?.parse().ok()
}

/// Removes a socket that outlived its container. The claim is made before the socket, and released after it.
pub fn sweep(home: &Home, id: &ContainerId) {
    let claimed = tote_state::record::is_there(&home.live().join(id.as_str()));
    // absence: the next sweep opens the directory again
    let Ok(live) = open_dir(&home.live()) else { return };
    if matches!(claimed, Ok(false))
        && matches!(tote_sys::waits_for_start(live.as_fd(), &socket(id)), Ok(false))
    {
        deafen(home, id);
    }
}

/// Returns the name of the socket, which is beside the claim: such a container has no directory.
fn socket(id: &ContainerId) -> String {
    format!("{id}.{SOCKET}")
}
