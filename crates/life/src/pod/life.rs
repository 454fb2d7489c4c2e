//! Start and stop of pods.

use super::find::Done;
use super::{PodEntry, find, member};
use crate::container::{self, Entry, Status, StopOptions};
use crate::{EngineError, Home};
use tote_bundle::Signal;
use tote_state::events::append;

/// Number of searches for members that were started meanwhile.
const AGAIN: usize = 8;

fn id(entry: &Entry) -> String {
    entry.container.id.to_string()
}

fn lives(entry: &Entry) -> bool {
    matches!(entry.state.status, Status::Running | Status::Restarting)
}

fn done(errors: Vec<EngineError>) -> Done {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn entry(home: &Home, wanted: &str) -> Result<PodEntry, Vec<EngineError>> {
    find(home, wanted).map_err(|error| vec![error])
}

/// Starts the infra container and then all stopped members.
pub fn start(home: &Home, wanted: &str, warn: &mut dyn FnMut(String)) -> Done {
    let found = entry(home, wanted)?;
    member::ensure(home, found.pod.id.as_str(), container::start_alone).map_err(|error| vec![error])?;
    let mut errors = Vec::new();
    for member in found.others().filter(|member| !lives(member)) {
        errors.extend(container::start(home, &id(member), &crate::HostInit::default(), warn).err());
    }
    append(home, &[found.pod.event("start")]);
    warn_of_strays(home, &found, warn);
    done(errors)
}

/// Warns of members that still run in old namespaces.
fn warn_of_strays(home: &Home, found: &PodEntry, warn: &mut dyn FnMut(String)) {
    // absence: a warning
    let Ok(found) = find(home, found.pod.id.as_str()) else {
        return;
    };
    for member in found.others().filter(|member| found.is_stray(member)) {
        warn(format!(
            "container {} still runs in namespaces of an infra container that has ended: tote pod restart {} brings all together",
            member.container.display(),
            found.pod.name,
        ));
    }
}

/// Stops all members, and then the infra container.
pub fn stop(home: &Home, wanted: &str, options: StopOptions) -> Done {
    let mut found = entry(home, wanted)?;
    let mut errors = Vec::new();
    // A member that was started meanwhile has also started the infra container.
    for _ in 0..AGAIN {
        let members: Vec<String> = found.others().filter(|member| lives(member)).map(id).collect();
        let stopped = container::stop(home, &members, options);
        errors = stopped.into_iter().filter_map(Result::err).collect();
        let infra: Vec<String> = found
            .infra()
            .filter(|infra| lives(infra))
            .map(id)
            .into_iter()
            .collect();
        let stopped = container::stop(home, &infra, StopOptions::default());
        errors.extend(stopped.into_iter().filter_map(Result::err));
        errors.retain(|error| !error.is_missing_container());
        match find(home, found.pod.id.as_str()) {
            Ok(again) if again.members.iter().any(lives) && errors.is_empty() => found = again,
            _ => break,
        }
    }
    append(home, &[found.pod.event("stop")]);
    done(errors)
}

/// Stops the pod, and starts it again.
pub fn restart(home: &Home, wanted: &str, warn: &mut dyn FnMut(String)) -> Done {
    stop(home, wanted, StopOptions::default())?;
    start(home, wanted, warn)
}

/// Applies an action to all running members.
fn each(
    home: &Home,
    wanted: &str,
    action: &str,
    fits: impl Fn(&Entry) -> bool,
    mut act: impl FnMut(&str) -> Result<(), EngineError>,
) -> Done {
    let found = entry(home, wanted)?;
    let mut errors = Vec::new();
    // The infra container comes last, because the others may depend on its namespaces.
    let members = found.others().chain(found.infra());
    for member in members.filter(|member| member.state.runs() && fits(member)) {
        errors.extend(act(&id(member)).err());
    }
    append(home, &[found.pod.event(action)]);
    done(errors)
}

/// Sends a signal to all running members.
pub fn kill(home: &Home, wanted: &str, signal: Signal) -> Done {
    each(
        home,
        wanted,
        "kill",
        |_| true,
        |id| container::kill(home, id, signal),
    )
}

/// Suspends all processes.
pub fn pause(home: &Home, wanted: &str) -> Done {
    // A machine is paused with all that is in it.
    let runs = |entry: &Entry| {
        let is_in_it = crate::vm::is_in_vm(&entry.container) && !entry.container.is_infra();
        !entry.state.paused && !is_in_it
    };
    each(home, wanted, "pause", runs, |id| container::pause(home, id))
}

/// Resumes all processes.
pub fn unpause(home: &Home, wanted: &str) -> Done {
    let paused = |entry: &Entry| entry.state.paused;
    each(home, wanted, "unpause", paused, |id| container::unpause(home, id))
}
