//! Rules of networks that are up, beside those of other programs, which flush them or let nothing pass that they do not know.

use super::NetworkFault;
use super::record::{self, Network, UpRecord};
use super::up::{bring_up, with_bridge};
use super::{idle, publish, rootless};
use crate::{EngineError, Home};
use std::path::PathBuf;
use tote_network::{Bridge, Denials, NetworkError, filter_state};
use tote_state::closed;
use tote_state::config::{Firewall, firewall};
use tote_state::record::names_in;
use tote_sys::best_effort;

/// State of the packet filter in which each network that is up had all that it needs, as the last command that has looked found it.
const SEEN: &str = ".filter";
/// Chains of other programs that a command has warned of, since the machine was started.
const WARNED: &str = ".warned";

/// Has packets of a network that has just come up pass by the rules of other programs. Gives a line about a program that lets none
/// pass, once for each chain and boot.
pub(crate) fn admit(home: &Home, bridge: &Bridge<'_>) -> Result<Option<String>, EngineError> {
    let mut denials = Denials::of(bridge).map_err(filter)?;
    if denials.is_empty() {
        return Ok(None);
    }
    if firewall()? == Firewall::Admit {
        denials = denials.lift().map_err(filter)?;
    }
    let Some(chain) = denials.chain() else {
        return Ok(None);
    };
    Ok(denials.warning().filter(|_| !is_known(home, &chain)))
}

fn filter(source: NetworkError) -> EngineError {
    let network = String::new();
    NetworkFault::Up { network, source }.into()
}

/// Whether a command has warned of a chain since the machine was started; from now on one has.
fn is_known(home: &Home, chain: &str) -> bool {
    let Ok(epoch) = tote_network::epoch() else {
        return false;
    };
    let path = home.networks().join(WARNED);
    // absence: the warning comes once more
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let mut lines: Vec<&str> = text.lines().collect();
    if lines.first() != Some(&epoch.as_str()) {
        lines = vec![&epoch];
    }
    if lines.contains(&chain) {
        return true;
    }
    lines.push(chain);
    // A line that cannot be kept is said again.
    best_effort(closed::write(&path, lines.join("\n")));
    false
}

/// Gives networks that are up the rules again that another program has taken, and exceptions in the rules of one that has come since. It
/// costs two questions to the kernel where no rule of the machine has changed, and for users other than root a process that asks them where their networks are.
pub fn repair(home: &Home) {
    if up(home).is_ok_and(|up| up.is_empty()) {
        return;
    }
    let look = || {
        if is_due(home)
            && let Some(_lock) = record::try_lock(home)?
        {
            restore(home)?;
        }
        Ok(Vec::new())
    };
    best_effort(rootless::seen_within(home, look));
}

/// Gives each network that is up its rules again, and each running container its published ports.
///
/// # Errors
/// [`NetworkFault`].
pub fn reload(home: &Home) -> Result<(), EngineError> {
    if up(home)?.is_empty() {
        return Ok(());
    }
    rootless::within(home, || {
        let _lock = record::lock(home)?;
        restore(home)
    })
}

fn seen(home: &Home) -> PathBuf {
    home.networks().join(SEEN)
}

/// Whether some rule of the machine has changed since a command has looked.
fn is_due(home: &Home) -> bool {
    let Ok(state) = filter_state() else {
        return true;
    };
    tote_state::short::read(&seen(home)).ok() != Some(state.into_bytes())
}

/// The names of the networks that a mark says to be up.
fn up(home: &Home) -> Result<Vec<String>, EngineError> {
    let marks = names_in(&home.live())?.into_iter();
    Ok(marks
        .filter_map(|file| file.strip_suffix(record::UP).map(str::to_owned))
        .collect())
}

/// Does this for all networks, one after another: what stops one does not stop the next. The caller holds the lock.
fn restore(home: &Home) -> Result<(), EngineError> {
    let mut result = Ok(());
    for name in up(home)? {
        let done = restore_one(home, &name);
        result = result.and(done);
    }
    if rootless::is_inside(home) {
        // A kernel may be without these rules.
        best_effort(tote_network::keep_clients_again());
    }
    publish::restore(home)?;
    result?;
    let state = filter_state().map_err(filter)?;
    best_effort(closed::write(&seen(home), state));
    Ok(())
}

fn restore_one(home: &Home, name: &str) -> Result<(), EngineError> {
    let UpRecord::Known(network) = record::read_up(home, name)? else {
        return Ok(());
    };
    if !network.driver.has_bridge() || !idle::has_members(home, name)? {
        return Ok(());
    }
    let network: &Network = &network;
    if !bring_up(home, network)?.fresh && !rootless::is_inside(home) {
        with_bridge(home, network, |bridge| admit(home, bridge))?;
    }
    Ok(())
}
