//! `tote run`: from a request to the end of the container.

use crate::container::claim::FirstProcess;
use crate::container::foreground::FrontDoor;
use crate::container::succession::{self, Belongings};
use crate::container::{self, Attaching, Claim, EndedBy, Entry, ProcessId, State, Status, fault};
use crate::end_report::{self, EndReport, LastFacts};
use crate::exec::Inside;
use crate::finished::{Finished, over};
use crate::init::Notify;
use crate::network::{Answers, FrontAnswers};
use crate::prepared::Prepared;
use crate::rootfs::Source;
use crate::slim::Misses;
use crate::standard::stdio;
use crate::user::Ids;
use crate::volume::VolumeHold;
use crate::{EngineError, Home, LifeError};
use std::cell::RefCell;
use std::time::Duration;
use tote_bundle::{ContainerId, RunOptions, SeccompChoice};
use tote_monitor::Door;
use tote_runtime::{
    Aside, DetachKeys, Ended, Foreground, Leave, Left, Observer, Parting, RawMode, RuntimeError, Stdio,
    Timings, may_be_left,
};
use tote_sandbox::Plan;
use tote_spec::Spec;
use tote_state::process::set_title;
use tote_state::record::now;
use tote_sys::best_effort;

/// Runs a prepared container to its end, or until another process watches it; `how` says by which keys the caller may leave
/// it, where that is to be possible. What it leaves is what was asked to stay.
///
/// # Errors
/// [`EngineError`]; nothing of the container is left then.
pub fn run(
    home: &Home,
    prepared: Prepared,
    how: Option<&Attaching>,
    timings: Option<&mut Timings>,
    warn: &mut dyn FnMut(String),
) -> Result<Finished, EngineError> {
    run_beside(home, prepared, (how, Vec::new()), timings, warn)
}

/// Does [`run`], and looks after other things meanwhile.
///
/// # Errors
/// Those of [`run`].
pub fn run_beside(
    home: &Home,
    mut prepared: Prepared,
    (how, others): (Option<&Attaching>, Vec<&mut dyn Aside>),
    timings: Option<&mut Timings>,
    warn: &mut dyn FnMut(String),
) -> Result<Finished, EngineError> {
    let mut misses = Misses::of(&prepared.options, &prepared._source, &mut prepared.plan)?;
    let mut others: Vec<&mut dyn Aside> = others.into_iter().map(|other| other as &mut dyn Aside).collect();
    others.extend(misses.as_mut().map(|misses| misses as &mut dyn Aside));
    let finished = run_with(home, prepared, (how, others), timings, warn)?;
    if let Some(Err(error)) = misses.map(|misses| misses.note(home)) {
        warn(format!("no misses are noted: {}", tote_sys::chain(&error)));
    }
    Ok(finished)
}

/// Runs a prepared container, with everything that is to be looked after meanwhile.
fn run_with(
    home: &Home,
    mut prepared: Prepared,
    (how, others): (Option<&Attaching>, Vec<&mut dyn Aside>),
    mut timings: Option<&mut Timings>,
    warn: &mut dyn FnMut(String),
) -> Result<Finished, EngineError> {
    let claim = prepared.claim.take().ok_or_else(|| missing(&prepared.entry))?;
    prepared.plan.warnings.iter().cloned().for_each(&mut *warn);
    let (stdio, stdio_ops) = stdio(&prepared.options)?;
    prepared.plan.insert_stdio(stdio_ops);
    let first = first_process(&prepared.plan);
    let (id, is_kept) = (prepared.entry.container.id.clone(), prepared.entry.kept);
    note_groups(home, &prepared.entry, &claim)?;
    let (options, plan, source) = (&prepared.options, &prepared.plan, &prepared._source);
    let mut report = EndReport::of(options)?;
    let at_once = options.init || plan.descends() || plan.pid_namespace.is_some();
    let title = title(&prepared.entry, source, at_once);
    let (mut notify, mut held) = (prepared.notify, (prepared.member, prepared.volumes));
    let own = Belongings::of(prepared.entry, claim);
    // Off the way to the program: the new process still mounts while this is written, and waits for it only then.
    let mut born = |pid: u32, groups: Option<String>| {
        // Without it the container is still found by its id; only its process is not.
        if let Some(claim) = &*own.claim.borrow() {
            let about = (claim, &prepared.spec, options, first);
            best_effort(note_birth(home, &mut own.entry.borrow_mut(), about, pid, groups));
        }
        held = (None, VolumeHold::default());
    };
    let due = RefCell::new(Vec::new());
    let mut runs = || {
        if first == FirstProcess::Coming {
            own.claim.borrow().iter().for_each(Claim::mark_begun);
        }
        due.replace(start(home, (&id, is_kept), title.as_deref(), source));
    };
    let follow = options.tty && rustix::termios::isatty(rustix::stdio::stdin());
    let raw = (follow && options.interactive).then(RawMode::enter).transpose()?;
    let how = how.filter(|_| raw.is_some() && !is_kept && notify.is_none() && may_be_left(plan));
    let connection = RefCell::new(None);
    let mut leave = |left: &mut Option<Left>, why: Leave| {
        let about = (options, &prepared.spec, &prepared.init);
        connection.replace(own.hand_over(home, &id, (left, why), about)?);
        Ok(())
    };
    let mut leaves_cgroup = false;
    let observer = Observer {
        born: &mut born,
        runs: &mut runs,
        warn: &mut *warn,
        leave: &mut leave,
        stays: &mut || leaves_cgroup = true,
    };
    let mut front_door = FrontDoor::new(home, &id, &own.door);
    let answers = Answers::of(home, &id, options, &own.entry.borrow().state.networks);
    let mut answers = FrontAnswers::new(answers, &own.answers);
    let door = (!is_kept).then_some(&mut front_door);
    let mut asides = asides(notify.as_mut(), door, &mut answers);
    let more = others.into_iter().map(|other| other as &mut dyn Aside);
    asides.extend(more.chain(report.as_mut().map(|report| report as &mut dyn Aside)));
    let begun = (prepared.cgroup.as_ref(), prepared.network.as_ref());
    let keys = how.map(Attaching::keys).transpose()?;
    let ends = (stdio, follow, asides);
    let watched = foreground((plan, options), begun, &prepared.ids, ends, keys);
    let result = tote_runtime::run(watched, timings.as_deref_mut(), observer);
    if let (Ok(Parting::Left(why)), Some(how)) = (&result, how) {
        // The monitor has the same lock.
        drop(own.claim.take());
        return succession::go_on(home, &id, (*why, connection.take()), how, raw);
    }
    drop(raw);
    if let (Some(report), Ok(Parting::Ended(how))) = (report, &result) {
        hand_in(home, report, &own.entry.borrow(), (how, options), warn);
    }
    let told = (options, front_door.close(), timings);
    let last = (own.claim.take(), leaves_cgroup);
    end(home, own.entry.into_inner(), last, (result, due.take()), told)
}

/// Returns how far the process is when the parent writes the record. One that descends has the rights of its program when the parent
/// learns of it.
fn first_process(plan: &Plan) -> FirstProcess {
    match plan.awaits_record() {
        true => FirstProcess::Coming,
        false => FirstProcess::Begun,
    }
}

/// The error of a container whose claim is gone.
fn missing(entry: &Entry) -> EngineError {
    EngineError::Life(LifeError::NoContainer(entry.container.id.to_string()))
}

/// Everything of its own that the watching process looks after.
fn asides<'a>(
    notify: Option<&'a mut Notify>,
    door: Option<&'a mut FrontDoor<'_>>,
    answers: &'a mut FrontAnswers<'_>,
) -> Vec<&'a mut dyn Aside> {
    let notify = notify.map(|notify| notify as &mut dyn Aside);
    let door = door.map(|door| door as &mut dyn Aside);
    notify.into_iter().chain(door).chain(answers.aside()).collect()
}

/// The steps that are left for when the program runs already. Gives the containers that are to be started again.
fn start(
    home: &Home,
    (id, is_kept): (&ContainerId, bool),
    title: Option<&str>,
    source: &Source,
) -> Vec<ContainerId> {
    // process: command
    title.into_iter().for_each(set_title);
    if is_kept {
        // One that stays has room for its last state.
        container::keep_room(home, id);
    }
    clear_up(home, source)
}

/// The description of a run in the foreground, with the caller's ends; `keys` let the caller leave it.
fn foreground<'a>(
    (plan, options): (&'a Plan, &RunOptions),
    (cgroup, network): (Option<&'a tote_cgroup::Plan>, Option<&'a tote_sys::ComingNetwork>),
    ids: &'a Ids,
    (stdio, follow_size, asides): (Stdio, bool, Vec<&'a mut dyn Aside>),
    keys: Option<DetachKeys>,
) -> Foreground<'a> {
    Foreground {
        plan,
        cgroup,
        maps: ids.maps.as_ref().filter(|_| plan.user_namespace.is_none()),
        network,
        stdio,
        interactive: options.interactive,
        follow_size,
        timeout: given(options.timeout),
        cpu_time: given(options.cpu_time),
        asides,
        guarded: keys.is_some(),
        keys,
    }
}

/// Puts away what has ended, or never began, and then tells those who wait.
fn end(
    home: &Home,
    entry: Entry,
    (claim, leaves_cgroup): (Option<Claim>, bool),
    (result, due): (Result<Parting, RuntimeError>, Vec<ContainerId>),
    (options, door, timings): (&RunOptions, Option<Door>, Option<&mut Timings>),
) -> Result<Finished, EngineError> {
    let gone = EngineError::Life(LifeError::NoContainer(entry.container.id.to_string()));
    let ended = match result {
        Ok(Parting::Ended(ended)) => Ok(ended),
        // Only containers that can be left are left.
        Ok(Parting::Left(_)) => Err(gone),
        Err(error) => Err(error.into()),
    };
    if let Some(claim) = claim {
        put_away(
            home,
            entry,
            (ended.as_ref().ok(), options),
            (claim, leaves_cgroup),
        );
    }
    timings
        .into_iter()
        .for_each(|timings| timings.mark("parent: forget the container"));
    let finished = Finished::of(ended?, options);
    if let Some(door) = door {
        door.farewell(i32::from(finished.exit_code), "");
    }
    // A monitor is a copy of the process that makes it, and this one had a container's ends until now.
    container::revive(home, &due);
    Ok(finished)
}

/// Title of this process while the container runs, unless it has that title at once: the container's process
/// begins as a copy of it, which an init stays, and which others in the PID namespace see.
fn title(entry: &Entry, source: &Source, at_once: bool) -> Option<String> {
    let title = match source {
        Source::Build(_) => "tote build".to_owned(),
        _ => format!("tote run {}", entry.container.display()),
    };
    if at_once {
        // process: command
        set_title(&title);
    }
    Some(title).filter(|_| !at_once)
}

/// Removes leftovers once the program runs: the names of a build's secrets, and what killed commands have left. Gives the containers whose
/// monitor was killed and whose restart policy wants them back.
fn clear_up(home: &Home, source: &Source) -> Vec<ContainerId> {
    let Source::Build(tree) = source else {
        return container::mend_all(home);
    };
    tree.unname_secrets();
    container::sweep(home);
    // The process of a step may be in namespaces that are no place for a monitor.
    Vec::new()
}

/// A limit of time that is one.
fn given(limit: Option<Duration>) -> Option<Duration> {
    limit.filter(|limit| *limit != Duration::ZERO)
}

/// Leaves nothing of the container, or its record. Where its cgroup could not be removed the claim stays, unheld: by it the
/// next command finds the cgroup.
fn put_away(
    home: &Home,
    entry: Entry,
    (result, options): (Option<&Ended>, &RunOptions),
    (claim, leaves_cgroup): (Claim, bool),
) {
    let Entry {
        container,
        state,
        kept,
        ..
    } = entry;
    let leave = if kept {
        crate::network::leave_recorded
    } else {
        crate::network::leave
    };
    let left = leave(home, &container.id, &state.networks);
    let leaves_cgroup = leaves_cgroup || left.is_err();
    if !kept || result.is_none() {
        container::discard(home, &container.id, &container.name, (claim, leaves_cgroup));
    } else {
        let mut last = ended(state.clone(), options, result);
        last.cgroup = state.cgroup.filter(|_| leaves_cgroup);
        // Its exit code is told all the same; the claim, unheld, says that there is something to look for.
        match last.write_last(home, &container.id) {
            Ok(()) if !leaves_cgroup => claim.release(),
            _ => drop(claim),
        }
    }
    crate::pod::member_ended(home, &container);
    crate::network::linger(home, &left.unwrap_or_default());
}

/// Writes down where its cgroups will be, where the id does not say so.
pub fn note_groups(home: &Home, entry: &Entry, claim: &Claim) -> Result<(), EngineError> {
    let groups = entry.state.cgroup.as_deref();
    if groups.is_some() && !entry.kept {
        return claim.note(entry, &Inside::default(), FirstProcess::Coming);
    }
    State::note_groups(home, &entry.container.id, groups)
}

/// Writes down that there is a process; one without a name gets it now.
fn note_birth(
    home: &Home,
    entry: &mut Entry,
    (claim, spec, options, first): (&Claim, &Spec, &RunOptions, FirstProcess),
    pid: u32,
    groups: Option<String>,
) -> Result<(), EngineError> {
    fault::point("unnoted");
    let own = ProcessId::of(std::process::id());
    let state = &mut entry.state;
    (state.status, state.started_at) = (Status::Running, now());
    (state.process, state.monitor) = (ProcessId::of(pid), own);
    (state.boot, state.cgroup, state.ended_by) = (container::boot(), groups, None);
    if entry.kept {
        tote_state::record::write(&home.container(&entry.container.id).join("config.json"), spec)?;
        return entry.state.write(home, &entry.container.id);
    }
    if entry.container.name.is_empty() {
        entry.container.name = container::name::take_any(home, &entry.container.id)?.to_string();
        let (id, name) = (&entry.container.id, &*entry.container.name);
        crate::network::call(home, (id, name), options, &entry.state.networks)?;
    }
    let inside = Inside::of(spec, options.seccomp() == SeccompChoice::Default);
    claim.note(entry, &inside, first)?;
    fault::point("noted");
    Ok(())
}

/// Writes the report of a container that has ended. What was refused to it is noted in its networks, which it still has.
fn hand_in(
    home: &Home,
    report: EndReport,
    entry: &Entry,
    (how, options): (&Ended, &RunOptions),
    warn: &mut dyn FnMut(String),
) {
    let state = ended(entry.state.clone(), options, Some(how));
    let last = LastFacts {
        outcome: how.outcome,
        refused: end_report::refused(home, &entry.container, options),
    };
    if let Err(error) = report.write(&entry.container, &state, &last) {
        warn(tote_sys::chain(&error));
    }
}

/// How it ended, for its record.
fn ended(mut state: State, options: &RunOptions, result: Option<&Ended>) -> State {
    (state.status, state.finished_at) = (Status::Exited, now());
    (state.process, state.monitor, state.cgroup) = (None, None, None);
    state.networks.clear();
    let Some(ended) = result else { return state };
    state.exit_code = i32::from(ended.outcome.exit_code());
    state.oom_killed = ended.ooms > 0;
    state.ended_by = Some(EndedBy::of(ended.outcome, ended.ooms));
    state.error = over(ended.outcome, options).unwrap_or_default();
    state
}
