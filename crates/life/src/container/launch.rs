//! Launch of a monitor by a command.

use super::claim::Claim;
use super::error::{LifeError, StartError};
use super::life;
use super::report::{Companion, Report, listen};
use super::stamp::Stamp;
use super::state::{State, Status};
use super::sweep::{self, is_due_again};
use super::{Entry, LostRecord, fault, find, open, stopped};
use crate::prepare::prepare_again;
use crate::prepared::Prepared;
use crate::{EngineError, Home, HostInit};
use std::fs::File;
use tote_bundle::ContainerId;
use tote_state::StateError;
use tote_state::record::RecordError;
use tote_sys::best_effort;

/// Starts a prepared container under its own monitor. The container runs when this returns.
///
/// # Errors
/// [`EngineError`]; the container counts as ended at once, with docker's exit code.
pub(crate) fn launch(
    home: &Home,
    prepared: Prepared,
    companion: Option<Companion>,
    warn: &mut dyn FnMut(String),
) -> Result<(), EngineError> {
    let failed = |attempt| move |source| LifeError::Start(StartError::Monitor { attempt, source });
    prepared.plan.warnings.iter().cloned().for_each(&mut *warn);
    let flags = rustix::pipe::PipeFlags::CLOEXEC;
    let (reader, writer) = rustix::pipe::pipe_with(flags).map_err(failed("make a pipe for"))?;
    let report = Report::new(writer);
    // systemd kills a main process that is not its own child at once, instead of asking it to end.
    let is_the_inits = prepared.init.is_there();
    let live = move || life::live(home, prepared, companion, report);
    let forked = if is_the_inits {
        // process: monitor
        tote_sys::fork_orphan(live)
    } else {
        tote_sys::fork_worker(live).map(drop)
    };
    forked.map_err(failed("fork"))?;
    // The monitor has the lock as well, and had time to release it last.
    tote_sys::settle_seal();
    fault::point("forked");
    listen(&mut File::from(reader), warn)
}

/// Starts a prepared container under a monitor, detached.
///
/// # Errors
/// [`EngineError`].
pub fn run_detached(
    home: &Home,
    prepared: Prepared,
    warn: &mut dyn FnMut(String),
) -> Result<(), EngineError> {
    let started = launch(home, prepared, None, warn);
    // Repairs of other containers come after the start, and one by one.
    revive(home, &mend_all(home));
    started
}

/// Starts a created container; does nothing if it runs.
///
/// # Errors
/// [`EngineError`].
pub fn start(
    home: &Home,
    wanted: &str,
    init: &HostInit,
    warn: &mut dyn FnMut(String),
) -> Result<(), EngineError> {
    let due = mend_all(home);
    let started = match prepare_start(home, wanted, init)? {
        Some(prepared) => launch(home, prepared, None, warn),
        None => Ok(()),
    };
    revive(home, &due);
    started
}

/// Starts a container without repairs; the caller starts another one and looks for remains itself.
pub fn start_alone(home: &Home, wanted: &str) -> Result<(), EngineError> {
    match prepare_start(home, wanted, &HostInit::default())? {
        Some(prepared) => launch(home, prepared, None, &mut |_| {}),
        None => Ok(()),
    }
}

/// Clears remains, and lists the containers to start again, whose monitor was killed and whose restart policy demands
/// it. After a reboot no container is started implicitly.
pub fn mend_all(home: &Home) -> Vec<ContainerId> {
    // absence: the next command looks again
    sweep::sweep(home)
        .into_iter()
        .filter(|id| matches!(open(home, id), Ok(Some(entry)) if is_due_again(home, &entry)))
        .collect()
}

/// Starts the containers that [`mend_all`] found, if they still exist and do not run.
pub fn revive(home: &Home, due: &[ContainerId]) {
    for id in due {
        let prepared = match open(home, id) {
            Ok(Some(entry)) if is_due_again(home, &entry) => {
                prepare_start(home, id.as_str(), &HostInit::default())
            }
            _ => continue,
        };
        // A failed start is recorded in that container's own state; the caller's container is another one.
        if let Ok(Some(prepared)) = prepared {
            best_effort(launch(home, prepared, None, &mut |_| {}));
        }
    }
}

/// Prepares a start up to the fork; `None` if the container runs.
pub(crate) fn prepare_start(
    home: &Home,
    wanted: &str,
    init: &HostInit,
) -> Result<Option<Prepared>, EngineError> {
    init.check(0)?;
    let entry = find(home, wanted)?;
    if entry.state.runs() {
        return if entry.state.paused {
            Err(LifeError::Paused.into())
        } else {
            Ok(None)
        };
    }
    if let Some(pod) = entry
        .container
        .pod
        .as_deref()
        .filter(|_| !entry.container.is_infra())
    {
        crate::pod::ensure(home, pod, start_alone)?;
    }
    super::start_required(home, &entry.container.values("requires"), start_alone)?;
    let (entry, claim) = match claim(home, entry) {
        // Another command has started it meanwhile: for itself, or for a container that requires this one.
        Err(EngineError::Life(LifeError::Busy(_))) if find(home, wanted)?.state.runs() => return Ok(None),
        claimed => claimed?,
    };
    if entry.state.status == Status::Removing {
        claim.release();
        return Err(LifeError::Removing(entry.container.display().to_owned()).into());
    }
    stopped::forget(home, &entry.container.id, &entry.state)?;
    fault::point("unmarked");
    let mut prepared = prepare_again(home, entry.container, claim, init.clone())?;
    fault::point("planned");
    prepared.entry.state.finished_at = entry.state.finished_at;
    Ok(Some(prepared))
}

/// Takes the claim of a stopped container and clears its remains. Returns the container as it is then.
pub fn claim(home: &Home, entry: Entry) -> Result<(Entry, Claim), EngineError> {
    let busy = || LifeError::Busy(entry.container.display().to_owned());
    let id = &entry.container.id;
    let claim = Claim::take_soon(home, id)?.ok_or_else(busy)?;
    if entry.lost == Some(LostRecord::State) {
        renew_state(home, id)?;
    }
    let is_mendable = || {
        let state = &entry.state;
        let is_stamped = || state.started_at != 0 && Stamp::of(home, id).end.is_some();
        !state.error.is_empty() || state.cgroup.is_some() || is_stamped()
    };
    if entry.state.process.is_none() && is_mendable() {
        sweep::mend(home, id, &claim);
    }
    match open(home, id)? {
        Some(entry) if entry.lost.is_some() => Err(LifeError::lost(&entry).into()),
        Some(entry) => Ok((entry, claim)),
        None => {
            claim.release();
            Err(crate::changes::ContainerError::NoContainer(entry.container.display().to_owned()).into())
        }
    }
}

/// Replaces a state that a power cut has emptied, at an explicit start: the lost state held only the container's exit
/// code. The caller holds the claim.
///
/// # Errors
/// Fails if the state is undamaged but unreadable now, or a newer tote's.
fn renew_state(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    match State::read(home, id) {
        Err(EngineError::State(StateError::Record(RecordError::Damaged { .. }))) => {
            let state = State {
                status: Status::Exited,
                exit_code: 255,
                ..State::default()
            };
            state.write(home, id)
        }
        other => other.map(drop),
    }
}
