//! Networks of users other than root.
//!
//! All networks of a user and a state root are in one network namespace, which belongs to a user namespace that has the user's
//! ids. A command that needs networks moves into both, and then does what root's commands do: bridges, links, rules and
//! leases are the same. Containers that it starts have user namespaces below that one, because only a process above both
//! namespaces may give a link from one to the other.
//!
//! One process, the [`holder`](super::holder), keeps the namespaces while a process is in them. It runs pasta(1), which connects the
//! network namespace with the machine, and leads published ports there.

mod pasta;
mod place;

pub(super) use pasta::{Pasta, RELAYED};
pub(super) use place::is_inside;
pub(crate) use place::is_outside;

use super::holder::{self, socket};
use super::record::{find, made};
use super::{NetworkFault, RootlessFault};
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::DumpableBehavior;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::time::{Duration, Instant};
use tote_bundle::{DEFAULT_NETWORK, RunOptions};
use tote_records::apart;
use tote_sys::Errno;

/// Time for threads to go.
const END_OF_THREADS: Duration = Duration::from_millis(500);

/// Says why the caller cannot have networks; `None` if nothing speaks against it.
pub fn unavailable(home: &Home) -> Option<NetworkFault> {
    if !is_outside(home) {
        return None;
    }
    pasta::missing()
}

/// Moves this process, which must have one thread, to the caller's networks; root is there already. Gives warnings.
///
/// # Errors
/// [`NetworkFault`].
pub(crate) fn enter(home: &Home) -> Result<Vec<String>, EngineError> {
    if !is_outside(home) {
        return Ok(Vec::new());
    }
    if let Some(fault) = unavailable(home) {
        return Err(fault.into());
    }
    made(&home.networks())?;
    let connection = match socket::connect(home) {
        Ok(connection) => connection,
        Err(_) => holder::start(home)?,
    };
    let entered = socket::enter(&connection, socket::ENTER).and_then(|(user, network, warning)| {
        move_to_user(&user)?;
        move_to_network(&network)?;
        Ok(warning)
    });
    let warning = entered.map_err(|errno| holder::entering(home, errno))?;
    // The holder stays as long as this descriptor is open, in this process or in one that is forked from it.
    std::mem::forget(connection);
    Ok(Some(warning)
        .filter(|text| !text.is_empty())
        .into_iter()
        .collect())
}

/// Moves this process to where the networks of the caller are, if a container with these options is to be in one: from there its links
/// are made, and its user namespace. For one that is only planned (`dry`), nothing is done. Gives warnings.
///
/// # Errors
/// [`NetworkFault`].
pub fn enter_for(home: &Home, options: &RunOptions, dry: bool) -> Result<Vec<String>, EngineError> {
    let attachments = options.network.attachments();
    if attachments.is_empty() {
        return Ok(Vec::new());
    }
    if is_outside(home) {
        // A misspelt name is one whatever the machine lacks.
        let named = attachments.iter().map(|one| one.network.as_str());
        for name in named.filter(|name| *name != DEFAULT_NETWORK) {
            find(home, name)?;
        }
    }
    match unavailable(home) {
        Some(fault) => Err(fault.into()),
        None if dry => Ok(Vec::new()),
        None => enter(home),
    }
}

/// Does something where the caller's networks are, by another process if this one is elsewhere. Where no process is in these
/// namespaces any more, nothing of the networks is left but files: the other process has empty namespaces then.
///
/// # Errors
/// Those of the work, and [`RootlessFault::Enter`].
pub(crate) fn within(home: &Home, work: impl FnOnce() -> Result<(), EngineError>) -> Result<(), EngineError> {
    if !is_outside(home) {
        return work();
    }
    let enter = || {
        let entered = match socket::connect(home) {
            Ok(connection) => enter_by(connection),
            Err(Errno::TIMEDOUT) => Err(Errno::TIMEDOUT),
            Err(_) => namespaces(home)?.enter(),
        };
        entered.map_err(|source| holder::entering(home, source).into())
    };
    // process: process in a user's networks
    apart::apart(enter, || work().map(|()| Vec::new())).map(drop)
}

/// Looks at something where the caller's networks are, by another process if this one is elsewhere, and gives what it saw; `None` where no
/// process is in these namespaces any more.
///
/// # Errors
/// Those of the look, and [`RootlessFault::Enter`].
pub(super) fn seen_within(
    home: &Home,
    look: impl FnOnce() -> Result<Vec<u8>, EngineError>,
) -> Result<Option<Vec<u8>>, EngineError> {
    if !is_outside(home) {
        return look().map(Some);
    }
    let connection = match socket::connect(home) {
        Ok(connection) => connection,
        Err(Errno::TIMEDOUT) => return Err(holder::entering(home, Errno::TIMEDOUT).into()),
        Err(_) => return Ok(None),
    };
    let enter = || enter_by(connection).map_err(|source| holder::entering(home, source).into());
    apart::apart(enter, look).map(Some)
}

/// Moves this process to the caller's networks, which stay as long as it.
fn enter_by(connection: OwnedFd) -> Result<(), Errno> {
    let (user, network, _) = socket::enter(&connection, socket::ENTER)?;
    move_to_user(&user)?;
    move_to_network(&network)?;
    std::mem::forget(connection);
    Ok(())
}

/// Moves this process, which must have one thread, to the user namespace of the caller's networks, where the caller's ids are as in
/// any other of its user namespaces. Its network stays the machine's.
///
/// # Errors
/// [`NetworkFault`]; the process is where it was then.
pub fn enter_user(home: &Home) -> Result<(), EngineError> {
    if let Some(fault) = pasta::missing() {
        return Err(fault.into());
    }
    made(&home.networks())?;
    let connection = match socket::connect(home) {
        Ok(connection) => connection,
        Err(_) => holder::start(home)?,
    };
    let entered = socket::enter(&connection, socket::KNOW).and_then(|(user, _, _)| move_to_user(&user));
    entered.map_err(|errno| holder::entering(home, errno))?;
    // The namespace's networks stay as long as this process.
    std::mem::forget(connection);
    Ok(())
}

/// Moves a process that [`enter_user`] has moved, or a child of it, to the caller's networks.
///
/// # Errors
/// [`NetworkFault`].
pub fn enter_network(home: &Home) -> Result<(), EngineError> {
    let entered = socket::connect_to_users(home).and_then(|connection| {
        let (_, network, _) = socket::enter(&connection, socket::ENTER)?;
        std::mem::forget(connection);
        move_to_network(&network)
    });
    entered.map_err(|errno| holder::entering(home, errno).into())
}

/// The reason why a process that has the caller's ids, and not those of the caller's networks, can have no network.
pub fn apart() -> NetworkFault {
    pasta::missing().unwrap_or_else(|| RootlessFault::Enter(Errno::PERM).into())
}

fn move_to_user(user: &OwnedFd) -> Result<(), Errno> {
    let begin = Instant::now();
    while let Err(errno) = move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User)) {
        // Threads whose work is done are joined before the kernel has forgotten them.
        if errno != Errno::INVAL || begin.elapsed() > END_OF_THREADS {
            return Err(errno);
        }
        rustix::thread::sched_yield();
    }
    reopen()
}

fn move_to_network(network: &OwnedFd) -> Result<(), Errno> {
    move_into_link_name_space(network.as_fd(), Some(LinkNameSpaceType::Network))
}

/// The kernel closes the directory in /proc of a process that moves to another user namespace. This one is the caller's as
/// before.
fn reopen() -> Result<(), Errno> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
}

/// The network namespace of a process that has moved to a user namespace of its own.
pub(super) struct Namespaces {
    pub(super) network: OwnedFd,
}

impl Namespaces {
    /// Moves this process into the network namespace as well.
    fn enter(&self) -> Result<(), Errno> {
        move_to_network(&self.network)
    }
}

/// Moves this process to a new user namespace with the caller's ids, and makes a network namespace that belongs to it.
pub(super) fn namespaces(home: &Home) -> Result<Namespaces, EngineError> {
    if tote_images::has_ids(home) {
        tote_images::enter_one_id()?;
    } else {
        tote_images::enter_ids(home)?;
    }
    let made = reopen().and_then(|()| tote_sys::network_namespace(None));
    let network = made.map_err(RootlessFault::Enter)?;
    Ok(Namespaces { network })
}
