//! Start of a container: the facts that its monitor keeps, and its state after the start or after a failed one.

use super::Container;
use super::ends::Ends;
use super::limits::Limits;
use super::report::Report;
use super::state::{ProcessId, State, Status};
use crate::end_report::EndReport;
use crate::init::Notify;
use crate::network::Answers;
use crate::slim::Misses;
use crate::{EngineError, Home};
use rustix::fd::OwnedFd;
use tote_cgroup::Cgroup;
use tote_runtime::{Created, Creation, Witness};
use tote_state::record::now;
use tote_sys::{Child, best_effort};

/// Container with a started process.
pub(crate) struct Running {
    pub child: Child,
    pub cgroup: Option<Cgroup>,
    pub ends: Ends,
    pub state: State,
    pub limits: Limits,
    pub notify: Option<Notify>,
    pub answers: Option<Answers>,
    pub misses: Option<Misses>,
    pub report: Option<EndReport>,
    /// Reference to the image, which stays while this is held.
    pub _source: Option<crate::rootfs::Source>,
}

/// Makes the process of a container; returns it with the master of its console. `stays` becomes true if its cgroup could not be
/// removed after a failure.
pub(crate) fn bear(
    creation: Creation<'_>,
    (answers, misses): (&mut Option<Answers>, &mut Option<Misses>),
    stays: &mut bool,
    report: &mut Report,
) -> Result<(Created, Option<OwnedFd>), EngineError> {
    let (mut console, mut unnamed) = (None, None);
    let created = tote_runtime::create(
        creation,
        Witness {
            record: &mut |_, _| Ok(()),
            network: &mut |network| {
                unnamed = answers.as_mut().and_then(|answers| answers.open(network).err());
                Ok(())
            },
            hooks: &mut || Ok(()),
            root: &mut |_| Ok(()),
            console: &mut |master| {
                console = Some(master);
                Ok(())
            },
            listener: &mut |listener| misses.iter_mut().try_for_each(|misses| misses.answer(&listener)),
            warn: &mut |text| report.warn(&text),
            stays: &mut || *stays = true,
        },
    )?;
    unnamed.iter().for_each(|warning| report.warn(warning));
    Ok((created, console))
}

/// Records a failed start.
pub(crate) fn note_failure(home: &Home, container: &Container, state: State, error: &EngineError) -> State {
    let state = State {
        // docker leaves the status unchanged; a container that has run before has ended.
        status: if state.finished_at == 0 {
            Status::Created
        } else {
            Status::Exited
        },
        exit_code: i32::from(error.exit_code()),
        error: tote_sys::chain(error),
        process: None,
        monitor: None,
        cgroup: None,
        networks: Vec::new(),
        ..state
    };
    best_effort(state.write(home, &container.id));
    state
}

/// Returns the state of a container whose program runs from now on. A record that does not name the process could not be used to
/// end the container.
pub(crate) fn running(created: &Created, before: State) -> Result<State, EngineError> {
    let process = |pid| {
        let start_time = tote_state::process::read_start_time(pid);
        let start_time = start_time.map_err(EngineError::file("read", format!("/proc/{pid}/stat")))?;
        Ok::<_, EngineError>(Some(ProcessId { pid, start_time }))
    };
    Ok(State {
        status: Status::Running,
        process: process(created.child.pid)?,
        monitor: process(std::process::id())?,
        boot: super::boot(),
        cgroup: created.cgroup.as_ref().map(Cgroup::record),
        started_at: now(),
        ..before
    })
}
