//! What killed commands and killed monitors left.

use super::claim::Claim;
use super::find::REMOVING;
use super::record::Container;
use super::state::State;
use super::{Event, events, name};
use crate::Home;
use tote_bundle::ContainerId;

/// Brings into order what killed commands and monitors left: an unheld claim names each. Gives the ids that it mended.
pub fn sweep(home: &Home) -> Vec<ContainerId> {
    let mut mended = Vec::new();
    for entry in std::fs::read_dir(home.live()).into_iter().flatten().flatten() {
        let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
        let Some(id): Option<ContainerId> = id else {
            continue;
        };
        if let Some(claim) = Claim::abandoned(home, &id) {
            if mend(home, &id, &claim) {
                claim.release();
            }
            mended.push(id);
        }
    }
    mended
}

/// Mends one container, whose claim the caller has just taken from nobody. Each step stands alone: what does not succeed
/// now is tried again when its claim is found once more, and mending twice does no harm. Gives whether all succeeded.
pub(crate) fn mend(home: &Home, id: &ContainerId, claim: &Claim) -> bool {
    let Some(container) = Container::read(home, id) else {
        return clear(home, id, claim);
    };
    let mut state = State::read(home, id).unwrap_or_default();
    let cgroup = state.cgroup.take();
    crate::cgroup::clear(id, cgroup.as_deref());
    if let Some(process) = state.process {
        crate::process::kill(process.pid, process.start_time);
    }
    if home.container(id).join(REMOVING).exists() {
        return clear(home, id, claim);
    }
    if state.correct(false) {
        state.finished_at = super::now();
        if state.write(home, id).is_err() {
            return false;
        }
        let died = Event::of(&container, "die").with("exitCode", state.exit_code);
        events::append(home, &[died]);
        crate::pod::member_ended(home, &container);
        if container.rm {
            return clear(home, id, claim);
        }
    } else if cgroup.is_some() {
        // It was noted, and nothing came of it.
        return state.write(home, id).is_ok();
    }
    true
}

/// Removes everything that the id names: of a container that was to leave nothing, or was never wholly there.
fn clear(home: &Home, id: &ContainerId, claim: &Claim) -> bool {
    let noted = claim.noted();
    let (state, name) = match &noted {
        Some(entry) => (entry.state.clone(), entry.container.name.clone()),
        None => {
            let container = Container::read(home, id);
            let name = container.map_or_else(String::new, |container| container.name);
            (State::read(home, id).unwrap_or_default(), name)
        }
    };
    crate::cgroup::clear(id, state.cgroup.as_deref());
    if let Some(process) = state.process {
        crate::process::kill(process.pid, process.start_time);
    }
    super::foreground::deafen(home, id);
    if name.is_empty() {
        name::release_any(home, id);
    } else {
        name::release(home, &name, id);
    }
    crate::tree::remove(home, id).is_ok()
}
