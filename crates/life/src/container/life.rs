//! Life of a container in its monitor: from its first start to its final end.

use super::born::{Running, bear, note_failure, running};
use super::claim::Claim;
use super::ends::Ends;
use super::error::{LifeError, StartError};
use super::last::{Last, announce_end, announce_start};
use super::limits::{Limits, Tasks};
use super::report::{Companion, Report};
use super::socket::SOCKET;
use super::state::change_state;
use super::state::{ProcessId, State, Status, keep_room};
use super::{Container, Entry, Health, erase, fault, restart, stopped};
use crate::end_report::EndReport;
use crate::health::HealthChecks;
use crate::init::Notify;
use crate::network::{Answers, Endpoint};
use crate::prepare::prepare_again;
use crate::prepared::Prepared;
use crate::slim::Misses;
use crate::{EngineError, Home, HostInit};
use rustix::fd::AsFd as _;
use rustix::fs::{Mode, OFlags};
use std::cell::RefCell;
use std::time::{Duration, Instant};
use tote_bundle::{ContainerId, OnFailure, RestartPolicy, RunOptions, StopTimeout};
use tote_cgroup::Cgroup;
use tote_monitor::{Listener, LogFile, Monitor, PATIENCE, Settings};
use tote_runtime::{Created, Creation};
use tote_spec::Spec;
use tote_state::record::now;
use tote_sys::best_effort;

/// Default stop timeout, docker's.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Main function of a monitor, in the process that was forked for it. Returns the container's exit code, which is
/// also the monitor's own: the host's init may read it.
pub(crate) fn live(home: &Home, prepared: Prepared, companion: Option<Companion>, mut report: Report) -> u8 {
    let id = prepared.entry.container.id.clone();
    crate::pod::let_go();
    settle(&prepared.entry.container);
    let given = (&prepared.options, &prepared.spec, &prepared.init);
    let monitor = match Watcher::new(home, &prepared.entry.container, given, companion) {
        Ok(monitor) => monitor,
        Err(error) => {
            let container = &prepared.entry.container;
            best_effort(crate::network::forget(home, &id));
            let state = note_failure(home, container, prepared.entry.state, &error);
            match prepared.claim {
                Some(claim) if container.rm => best_effort(erase(home, container, &state, claim, false)),
                Some(claim) => end(home, &id, claim),
                None => {}
            }
            report.failed(&error);
            return error.exit_code();
        }
    };
    let code = monitor.through(prepared, &mut report);
    u8::try_from(code & 0xff).unwrap_or(1)
}

/// Detaches from the command: session, directory, descriptors and arguments.
pub(crate) fn settle(container: &Container) {
    // process: monitor
    tote_state::process::settle(&format!("tote monitor {}", container.display()));
    let name = std::ffi::CString::new(format!("tote {}", container.display())).unwrap_or_default();
    best_effort(rustix::thread::set_name(&name));
}

/// Returns the action when the container's health check fails.
fn on_failure(container: &Container) -> OnFailure {
    let checked = container
        .health
        .as_ref()
        .and_then(|_| container.run_options().ok());
    checked
        .map(|options| options.health.on_failure)
        .unwrap_or_default()
}

pub(crate) struct Watcher<'a> {
    home: &'a Home,
    id: ContainerId,
    pub monitor: Monitor,
    name: String,
    init: HostInit,
    /// True if the last cgroup could not be removed: the next command has to find the claim and try again.
    leaves_cgroup: bool,
    /// True if the container's addresses could not be removed.
    leaves_rest: bool,
    /// Networks that the container was the last one to leave.
    idle_networks: Vec<String>,
    /// True if the container was ended because its health check failed, and is to start again.
    starts_anew: bool,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(
        home: &'a Home,
        container: &Container,
        (options, spec, init): (&RunOptions, &Spec, &HostInit),
        companion: Option<Companion>,
    ) -> Result<Self, EngineError> {
        let path = home.container(&container.id);
        let dir = |attempt| {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::open(&path, flags, Mode::empty());
            opened.map_err(|source| LifeError::Start(StartError::Monitor { attempt, source }))
        };
        let here = dir("open the directory of")?;
        let listener = Listener::bind(here.as_fd(), SOCKET).map_err(|source| {
            LifeError::Start(StartError::Monitor {
                attempt: "make the socket of",
                source,
            })
        })?;
        fault::point("bound");
        let log = super::logging::options(container, (options, spec))?
            .map(|how| LogFile::open(here, super::logging::file(&options.log), how))
            .transpose()
            .map_err(LifeError::from)?;
        let settings = Settings {
            stop_signal: i32::from(super::stop::signal_of(container)),
            stop_timeout: match options.stop_timeout {
                Some(StopTimeout::Never) => None,
                Some(StopTimeout::After(limit)) => Some(limit),
                None => Some(STOP_TIMEOUT),
            },
            stdin_once: options.interactive && !options.detach,
            output_limit: options.output_limit,
            patience: PATIENCE,
        };
        let mut monitor = Monitor::new(listener, log, settings).map_err(LifeError::from)?;
        if let Some((socket, streams)) = companion {
            monitor.adopt(socket, streams).map_err(LifeError::from)?;
        }
        Ok(Self {
            home,
            id: container.id.clone(),
            monitor,
            name: container.display().to_owned(),
            init: init.clone(),
            leaves_cgroup: false,
            leaves_rest: false,
            idle_networks: Vec::new(),
            starts_anew: false,
        })
    }

    fn through(mut self, prepared: Prepared, report: &mut Report) -> i32 {
        let (mut next, mut wait, mut restarts) = (prepared, None, 0);
        loop {
            let container = next.entry.container.clone();
            let unborn = unborn(&next.entry.state);
            let endpoints = next.entry.state.networks.clone();
            let Some(claim) = next.claim.take() else {
                return 125;
            };
            let began = Instant::now();
            let mut had_room = true;
            let (state, text) = match self.birth(next, restarts, report) {
                Ok(running) => {
                    report.started();
                    fault::point("told");
                    keep_room(self.home, &self.id);
                    let mark = self.home.container(&self.id).join(super::entry::REMOVING);
                    // absence: the removing command ends the container that it finds recorded as running
                    if mark.try_exists().unwrap_or(false) {
                        // The removing command looked before the container was recorded as running.
                        best_effort(tote_sys::send_signal(running.child.pidfd.as_fd(), 9));
                    }
                    let state = self.watch(&container, running);
                    // The text is the reason if the container could not be watched.
                    let text = state.error.clone();
                    (state, text)
                }
                Err(error) => {
                    self.leave_networks(&endpoints);
                    let before = State {
                        restart_count: restarts,
                        ..unborn
                    };
                    let state = note_failure(self.home, &container, before, &error);
                    had_room = !error.is_full();
                    if restarts == 0 {
                        // A container whose first start fails is not restarted.
                        self.over(claim, &container, &state, &tote_sys::chain(&error));
                        report.failed(&error);
                        return state.exit_code;
                    }
                    (state, tote_sys::chain(&error))
                }
            };
            // absence: the record with which the container was started holds
            let container = Container::read(self.home, &self.id)
                .ok()
                .flatten()
                .unwrap_or(container);
            let policy = container
                .run_options()
                .map(|options| options.restart)
                .unwrap_or_default();
            let anew = std::mem::take(&mut self.starts_anew);
            let is_due = anew || restart::is_due(policy, state.exit_code, restarts);
            if !self.is_wanted() || !is_due {
                self.over(claim, &container, &state, &text);
                return state.exit_code;
            }
            let pause = restart::delay(wait, began.elapsed());
            wait = Some(pause);
            // A start for which the disk had no room says nothing about the program: the policy's number is not for such starts.
            restarts += u32::from(had_room);
            let code = state.exit_code;
            match self.again(claim, container, state, restarts, pause) {
                Some(prepared) => next = prepared,
                None => return code,
            }
        }
    }

    fn is_wanted(&self) -> bool {
        stopped::is_wanted(self.home, &self.id)
    }

    /// Waits, and prepares the next start; `None` if the container has ended for good. A full disk is waited for.
    fn again(
        &mut self,
        mut claim: Claim,
        container: Container,
        mut state: State,
        restarts: u32,
        mut pause: Duration,
    ) -> Option<Prepared> {
        state.status = Status::Restarting;
        (state.restart_count, state.monitor) = (restarts, ProcessId::of(std::process::id()));
        loop {
            best_effort(state.write(self.home, &self.id));
            fault::point("restarting");
            // A command that marks the container after this sees it restarting.
            let came = self.is_wanted()
                && self
                    .monitor
                    .wait_until(Instant::now() + pause, &mut ())
                    .unwrap_or(false);
            if !came || !self.is_wanted() {
                (state.status, state.monitor) = (Status::Exited, None);
                best_effort(state.write_last(self.home, &self.id));
                self.over(claim, &container, &state, "");
                return None;
            }
            let error = match prepare_again(self.home, container.clone(), claim, self.init.clone()) {
                Ok(mut prepared) => {
                    prepared.entry.state.finished_at = state.finished_at;
                    return Some(prepared);
                }
                Err(error) => error,
            };
            // The claim is already released. A command that has taken it meanwhile has other plans.
            if error.is_full()
                && let Ok(Some(taken)) = Claim::take(self.home, &self.id)
            {
                claim = taken;
                state.error = tote_sys::chain(&error);
                pause = restart::delay(Some(pause), Duration::ZERO);
                continue;
            }
            // The failure is recorded for later queries.
            note_failure(self.home, &container, state, &error);
            self.monitor
                .farewell(i32::from(error.exit_code()), &tote_sys::chain(&error));
            return None;
        }
    }

    /// Starts the container: on return its program runs, and that is recorded.
    fn birth(
        &mut self,
        prepared: Prepared,
        restarts: u32,
        report: &mut Report,
    ) -> Result<Running, EngineError> {
        let Prepared {
            entry,
            options,
            spec,
            mut plan,
            cgroup,
            ids,
            notify,
            _source,
            beside: _beside,
            ..
        } = prepared;
        tote_state::record::write(&self.home.container(&self.id).join("config.json"), &spec)?;
        State::note_groups(self.home, &self.id, entry.state.cgroup.as_deref())?;
        let (mut ends, ops) = Ends::new(&options)?;
        plan.insert_stdio(ops);
        let mut misses = Misses::of(&options, &_source, &mut plan)?;
        let end_report = EndReport::of(&options)?;
        let creation = Creation {
            plan: &plan,
            cgroup: cgroup.as_ref(),
            maps: ids.maps.as_ref().filter(|_| plan.user_namespace.is_none()),
            network: None,
        };
        let mut answers = Answers::of(self.home, &self.id, &options, &entry.state.networks);
        let told = (&mut answers, &mut misses);
        let (created, console) = bear(creation, told, &mut self.leaves_cgroup, report)?;
        fault::point("born");
        ends.console = console;
        // A restart passes the init's descriptors on once more.
        let goes_on = options.restart != RestartPolicy::No || options.health.on_failure == OnFailure::Restart;
        tote_sys::close_inherited(if goes_on { self.init.descriptors() } else { 0 });
        let before = State {
            restart_count: restarts,
            ended_by: None,
            health: entry.container.health.as_ref().map(|_| Health::default()),
            ..entry.state
        };
        let limits = match Limits::new(&self.id, &options, created.cgroup.as_ref()) {
            Ok(limits) => limits,
            Err(error) => {
                self.leaves_cgroup = created.undo().is_err();
                return Err(error.into());
            }
        };
        let (created, state) = self.recorded(before, created)?;
        announce_start(self.home, &entry.container, &state);
        fault::point("running");
        // The notification comes before the end of the command that the init has started.
        if let Some(Err(warning)) = notify.as_ref().map(Notify::started) {
            report.warn(&warning);
        }
        Ok(Running {
            notify,
            answers,
            misses,
            report: end_report,
            limits,
            child: created.child,
            cgroup: created.cgroup,
            ends,
            state,
            _source: Some(_source),
        })
    }

    /// Records the running container; after a failed write it is ended, because no later command would find it.
    fn recorded(&mut self, before: State, created: Created) -> Result<(Created, State), EngineError> {
        let state = running(&created, before);
        let written = state.and_then(|state| state.write(self.home, &self.id).map(|()| state));
        match written {
            Ok(state) => Ok((created, state)),
            Err(error) => {
                self.leaves_cgroup = created.undo().is_err();
                Err(error)
            }
        }
    }

    /// Watches the container to its end, and records that.
    pub(crate) fn watch(&mut self, container: &Container, running: Running) -> State {
        let Running {
            child,
            cgroup,
            ends,
            mut state,
            mut limits,
            mut notify,
            mut answers,
            misses,
            report: end_report,
            _source,
        } = running;
        answers.iter().for_each(Answers::prepare);
        let watched = ends.of(&child);
        let entry = Entry {
            container: container.clone(),
            state: state.clone(),
            kept: true,
            lost: None,
        };
        let mut tasks = Tasks {
            limits: &mut limits,
            health: HealthChecks::of(self.home, &entry, on_failure(container)),
            notify: notify.as_mut(),
            answers: &mut answers,
            of: (self.home, &self.id),
        };
        let ended = self.monitor.watch(watched, &mut tasks);
        self.starts_anew = tasks.health.as_ref().is_some_and(HealthChecks::wants_restart);
        drop(tasks);
        if let Some(notify) = &mut notify {
            notify.pass_on();
        }
        fault::point("ended");
        if ended.as_ref().is_ok_and(|ended| ended.asked_to_stop) {
            stopped::mark_orderly(self.home, &self.id);
        }
        let options = container.run_options().unwrap_or_default();
        let last =
            Last::look(self.home, container, &options, cgroup.as_ref(), end_report).seen(&ended, &limits);
        cgroup.iter().for_each(|cgroup| self.end_group(cgroup));
        fault::point("cgroup-gone");
        // The container is not worse for it.
        best_effort(misses.map_or(Ok(()), |misses| misses.note(self.home)));
        self.leave_networks(&state.networks);
        let left = RefCell::new(Vec::new());
        let note = |state: &mut State| {
            last.note(state);
            (state.status, state.finished_at, state.paused) = (Status::Exited, now(), false);
            (state.process, state.monitor) = (None, None);
            state.cgroup = state.cgroup.take().filter(|_| self.leaves_cgroup);
            // It may have been connected with others since it began.
            left.replace(std::mem::take(&mut state.networks));
        };
        // Other processes record health and pauses; without the file, the facts known here suffice.
        match change_state(self.home, &self.id, note) {
            Ok(written) => state = written,
            Err(_) => {
                note(&mut state);
                best_effort(state.write_last(self.home, &self.id));
            }
        }
        fault::point("state-ended");
        // No command waits that could be told; the record has the same facts.
        best_effort(last.hand_in(container, &state));
        announce_end(self.home, container, &state, &left.take());
        state
    }

    /// Ends what is left in the container's cgroup.
    fn end_group(&mut self, cgroup: &Cgroup) {
        best_effort(cgroup.kill_all());
        self.leaves_cgroup = cgroup.remove().is_err();
    }

    /// Ends the monitor: waiting clients are told when the final state is reached.
    pub(crate) fn over(&mut self, claim: Claim, container: &Container, state: &State, text: &str) {
        let marked =
            tote_state::record::is_there(&self.home.container(&self.id).join(super::entry::REMOVING));
        if container.rm {
            // If the volumes to remove cannot be determined, the claim is dropped, and a sweep continues.
            if let Ok(volumes) = super::removing::takes_volumes(self.home, &self.id) {
                best_effort(erase(self.home, container, state, claim, volumes));
            }
        } else if !matches!(marked, Ok(false)) || self.leaves_cgroup || self.leaves_rest {
            // A command that sets the mark takes the claim now, or was killed: then a sweep continues, which looks
            // for a free claim.
            drop(claim);
        } else {
            end(self.home, &self.id, claim);
        }
        crate::pod::member_ended(self.home, container);
        let reason = match text {
            "" if state.oom_killed => format!("out of memory: the kernel killed processes of {}", self.name),
            "" if state.ended_by.is_some() => state.error.clone(),
            text => text.to_owned(),
        };
        self.monitor.farewell(state.exit_code, &reason);
        if self.init.is_there() {
            // The init ends what its unit leaves behind.
            best_effort(crate::network::settle(self.home, &self.idle_networks));
        } else {
            crate::network::linger(self.home, &self.idle_networks);
        }
    }

    /// Takes the container out of its networks.
    fn leave_networks(&mut self, endpoints: &[Endpoint]) {
        match crate::network::leave_recorded(self.home, &self.id, endpoints) {
            Ok(idle) => self.idle_networks.extend(idle),
            Err(_) => self.leaves_rest = true,
        }
    }
}

/// State for the case that a start fails: the container's files are those of an earlier one.
fn unborn(state: &State) -> State {
    State {
        finished_at: state.finished_at,
        writable: state.writable.clone(),
        kept_ids: state.kept_ids,
        ..State::default()
    }
}

/// Releases the claim; the socket is removed with it.
fn end(home: &Home, id: &ContainerId, claim: Claim) {
    best_effort(std::fs::remove_file(home.container(id).join(SOCKET)));
    claim.release();
    fault::point("released");
}
