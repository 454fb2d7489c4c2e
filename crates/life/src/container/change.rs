//! Changes of an existing container: `update`, `pause`, `unpause`.

use super::error::{LifeError, StartError};
use super::foreground::find_monitored;
use super::record_lock::Change;
use super::state::note_pause as record_pause;
use super::{Container, Entry, find};
use crate::{EngineError, Home, device};
use tote_bundle::RunOptions;
use tote_cgroup::{Cgroup, Policy};
use tote_spec::Resources;
use tote_state::events::append;

/// Refuses a change of a container without records.
pub fn kept(entry: &Entry, action: &'static str) -> Result<(), LifeError> {
    if entry.kept {
        return Ok(());
    }
    Err(LifeError::Unkept(entry.container.display().to_owned(), action))
}

/// Suspends all processes of a container.
///
/// # Errors
/// [`LifeError`].
pub fn pause(home: &Home, wanted: &str) -> Result<(), EngineError> {
    let entry = find(home, wanted)?;
    crate::vm::check_alone(&entry.container, "pause")?;
    let name = entry.container.display().to_owned();
    let cgroup = group(&entry, "pause")?;
    if cgroup.is_frozen().unwrap_or(false) {
        return Err(pausing(name, true));
    }
    let frozen = cgroup.freeze();
    frozen.map_err(|source| LifeError::Cgroup {
        attempt: "pause",
        name,
        source,
    })?;
    note_pause(home, &entry, true)
}

/// Resumes all processes of a container.
///
/// # Errors
/// [`LifeError`].
pub fn unpause(home: &Home, wanted: &str) -> Result<(), EngineError> {
    let entry = find(home, wanted)?;
    let name = entry.container.display().to_owned();
    let cgroup = group(&entry, "unpause")?;
    if !cgroup.is_frozen().unwrap_or(true) {
        return Err(pausing(name, false));
    }
    let thawed = cgroup.thaw();
    thawed.map_err(|source| LifeError::Cgroup {
        attempt: "unpause",
        name,
        source,
    })?;
    note_pause(home, &entry, false)
}

fn pausing(name: String, is_paused: bool) -> EngineError {
    LifeError::Pausing { name, is_paused }.into()
}

fn note_pause(home: &Home, entry: &Entry, paused: bool) -> Result<(), EngineError> {
    if entry.kept {
        record_pause(home, &entry.container.id, paused)?;
    }
    let action = if paused { "pause" } else { "unpause" };
    append(home, &[entry.container.event(action)]);
    Ok(())
}

/// Opens the cgroup of a running container.
fn group(entry: &Entry, action: &'static str) -> Result<Cgroup, LifeError> {
    let name = entry.container.display().to_owned();
    if !entry.state.runs() {
        return Err(LifeError::NotRunning {
            action,
            name,
            id: entry.container.id.short().to_owned(),
        });
    }
    let record = entry.state.cgroup.as_deref().unwrap_or_default();
    match Cgroup::open(record) {
        Ok(cgroup) if !cgroup.is_empty() => Ok(cgroup),
        Ok(_) => Err(LifeError::NoCgroup(name, action)),
        Err(source) => Err(LifeError::Cgroup {
            attempt: action,
            name,
            source,
        }),
    }
}

/// Changes limits and the restart policy, with immediate effect for a running container. The options are pairs as in
/// [`Container::options`].
///
/// # Errors
/// [`EngineError`]; the container is unchanged then.
pub fn update(
    home: &Home,
    wanted: &str,
    given: &[(String, String)],
    warn: &mut dyn FnMut(String),
) -> Result<(), EngineError> {
    let entry = find_monitored(home, wanted)?;
    kept(&entry, "update")?;
    crate::vm::check_here(&entry.container, "change the limits of")?;
    let mut new = RunOptions::default();
    for (name, value) in given {
        new.set(name, value)?;
    }
    let _change = Change::begin(home, &entry.container.id)?;
    let mut container =
        Container::read(home, &entry.container.id)?.unwrap_or_else(|| entry.container.clone());
    container
        .options
        .retain(|(name, _)| !given.iter().any(|(new, _)| new == name));
    container.options.extend(given.iter().cloned());
    // Contradictory limits are refused as at the start.
    let all = container.run_options()?;
    if container.rm && all.restart != tote_bundle::RestartPolicy::No {
        return Err(LifeError::Start(StartError::RestartAndRm).into());
    }
    if given.iter().any(|(name, _)| name == "cpus") {
        crate::given::check_cpus(&all)?;
    }
    tote_bundle::check_limits(&all).map_err(LifeError::Limits)?;
    let resources = crate::resources::resources(&all, given, &device::limited(&all)?)?;
    if entry.state.runs() && resources != Resources::default() {
        let cgroup = group(&entry, "update")?;
        let warnings = cgroup
            .update(&resources, Policy::Strict)
            .map_err(|source| LifeError::Cgroup {
                attempt: "update",
                name: entry.container.display().to_owned(),
                source,
            })?;
        warnings.into_iter().for_each(|warning| warn(warning.to_string()));
    }
    container.write(home)?;
    append(home, &[container.event("update")]);
    Ok(())
}
