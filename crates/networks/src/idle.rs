//! The end of a network that has no container left.

use super::NetworkFault;
use super::record::{self, Network, UpRecord};
use super::rootless;
use crate::{EngineError, Home};
use std::path::Path;
use std::time::Duration;
use tote_state::locked::locked;
use tote_sys::best_effort;

/// How long a network without a container stays up after the last start or the last end of one: making a bridge and its rules again,
/// and waiting until the kernel has removed them, takes longer than everything else of a start.
const PATIENCE: Duration = Duration::from_secs(1);

/// Takes down those of these networks that have no container.
///
/// # Errors
/// [`NetworkFault::Down`]; the mark stays then, and the next command tries again.
pub fn settle(home: &Home, names: &[String]) -> Result<(), EngineError> {
    if names.is_empty() {
        return Ok(());
    }
    rootless::within(home, || {
        let _lock = record::lock(home)?;
        names.iter().try_for_each(|name| take_down(home, name))
    })
}

/// Whether a container has an address in a network. The caller holds the lock.
pub(crate) fn has_members(home: &Home, name: &str) -> Result<bool, EngineError> {
    let leases = record::leases(home, name).all().map_err(|source| {
        let network = name.to_owned();
        NetworkFault::Lease { network, source }
    })?;
    Ok(!leases.is_empty())
}

/// Takes a network down that has no container; with it goes what a killed `network create` or `network rm` has left. The caller
/// holds the lock.
pub(crate) fn take_down(home: &Home, name: &str) -> Result<(), EngineError> {
    if has_members(home, name)? {
        return Ok(());
    }
    match record::read_up(home, name)? {
        UpRecord::Known(record) => lower(home, &record)?,
        UpRecord::Missing if record::is_name(name) => record::remove_dir(home, name)?,
        // It was not up: the mark of one that is has a copy of the record.
        UpRecord::Missing | UpRecord::Damaged => {}
    }
    best_effort(std::fs::remove_file(record::mark(home, name)));
    Ok(())
}

/// Removes the bridge of a network, with what belongs to it; other drivers have nothing on the host.
fn lower(home: &Home, record: &Network) -> Result<(), EngineError> {
    if record.driver.has_bridge() {
        let bridge = (&*record.bridge(), &*record.alias(), record.ipv4.subnet);
        let is_last = record::is_last_up(home, &record.name)?;
        let down = tote_network::remove_exceptions(bridge.0)
            .and_then(|()| tote_network::take_down(bridge, &record::note(home), is_last));
        down.map_err(|source| {
            let network = record.name.clone();
            NetworkFault::Down { network, source }
        })?;
    }
    Ok(())
}

/// Has those of these networks taken down that have no container after a while, by a process of its own: no command waits for
/// the kernel, and a user who runs one container after another finds the network up.
pub fn linger(home: &Home, names: &[String]) {
    if names.is_empty() {
        return;
    }
    // Without that process the next command does it.
    // process: network
    best_effort(tote_sys::fork_worker(|| {
        tote_state::process::settle("tote network");
        tote_sys::close_inherited(0);
        names.iter().for_each(|name| wait_and_take_down(home, name));
        0
    }));
}

fn wait_and_take_down(home: &Home, name: &str) {
    let mark = record::mark(home, name);
    // Another process waits, or the network is down.
    let Ok(Some(held)) = locked(&mark, false, false) else {
        return;
    };
    let mut left = PATIENCE;
    while !left.is_zero() {
        #[expect(
            clippy::disallowed_methods,
            reason = "nothing happens that could be waited for: the time itself is what passes"
        )]
        std::thread::sleep(left);
        left = rest(&mark);
    }
    if let Ok(lock) = record::lock(home) {
        best_effort(take_down(home, name));
        // Before the lock: a command that ends a container after this finds no such process, and makes one.
        drop(held);
        drop(lock);
    }
}

/// The time for which a network stays up that another container may have been in meanwhile: each start writes the mark anew.
fn rest(mark: &Path) -> Duration {
    let written = std::fs::metadata(mark).and_then(|it| it.modified());
    // absence: nothing is up any more; a time in the future is one of another clock
    let passed = written.ok().and_then(|time| time.elapsed().ok());
    passed.map_or(Duration::ZERO, |passed| PATIENCE.saturating_sub(passed))
}

/// Takes down a network that is marked as up, if it has no container and no other process waits to do it.
pub fn sweep(home: &Home, name: &str) {
    if let Ok(Some(_held)) = locked(&record::mark(home, name), false, false) {
        // The mark stays where another process has the lock, so the next sweep tries again: no command waits for a network that it does
        // not use.
        best_effort(rootless::within(home, || match record::try_lock(home)? {
            Some(_lock) => take_down(home, name),
            None => Ok(()),
        }));
    }
}
