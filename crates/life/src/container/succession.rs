//! Succession: a container in the foreground gets a monitor when the command that runs it leaves, or when another
//! command needs one.
//!
//! The monitor is forked only then, so that no start pays for it. From its first record on the container is one of
//! `run -d --rm`; the facts for it are in the command's memory, of which the monitor has a copy.

use super::attach::{Stay, stay};
use super::attached::Attaching;
use super::born::Running;
use super::ends::Ends;
use super::life::{self, Watcher};
use super::limits::Limits;
use super::report::{Companion, Report, listen};
use super::{Claim, Container, Entry, LifeError, ProcessId, State, fault};
use crate::end_report::EndReport;
use crate::network::Answers;
use crate::{EngineError, Finished, Home, HostInit};
use rustix::fd::OwnedFd;
use std::cell::RefCell;
use std::fs::File;
use tote_bundle::{ContainerId, RunOptions};
use tote_monitor::{Attendant, Door, Streams, pair};
use tote_runtime::{Leave, Left, RawMode};
use tote_spec::Spec;
use tote_sys::best_effort;

/// Resources of a command that watches a container, which it hands to a monitor if it leaves.
#[derive(Debug)]
pub struct Belongings {
    /// Record and state.
    pub entry: RefCell<Entry>,
    /// Claim on the container.
    pub claim: RefCell<Option<Claim>>,
    /// Connections of clients, once the command has left them.
    pub door: RefCell<Option<Door>>,
    /// Answers to questions for names, once the command has left them.
    pub answers: RefCell<Option<Answers>>,
}

impl Belongings {
    /// Returns those of a container that is about to start.
    #[must_use]
    pub fn of(entry: Entry, claim: Claim) -> Self {
        Self {
            entry: RefCell::new(entry),
            claim: RefCell::new(Some(claim)),
            door: RefCell::default(),
            answers: RefCell::default(),
        }
    }

    /// Does `hand_over` with them.
    ///
    /// # Errors
    /// Those of `hand_over`.
    pub fn hand_over(
        &self,
        home: &Home,
        id: &ContainerId,
        (left, why): (&mut Option<Left>, Leave),
        (options, spec, init): (&RunOptions, &Spec, &HostInit),
    ) -> Result<Option<OwnedFd>, String> {
        let estate = || Estate {
            entry: self.entry.borrow().clone(),
            options,
            spec,
            init,
            claim: self.claim.take(),
            door: self.door.take(),
            answers: self.answers.take(),
        };
        let connection = hand_over(home, id, (left, why), estate)?;
        // A waiting command sees the connection closed when the monitor has closed its own.
        drop((self.door.take(), self.answers.take()));
        Ok(connection)
    }
}

/// Resources that a monitor inherits from the command that has watched the container.
#[derive(Debug)]
struct Estate<'a> {
    /// Record and state.
    pub entry: Entry,
    /// Options of the request.
    pub options: &'a RunOptions,
    /// Specification.
    pub spec: &'a Spec,
    /// Descriptors and settings of the host's init.
    pub init: &'a HostInit,
    /// Claim on the container.
    pub claim: Option<Claim>,
    /// Connections of clients.
    pub door: Option<Door>,
    /// Answers to questions for names.
    pub answers: Option<Answers>,
}

/// Forks a monitor and releases the container. Returns a connection to that monitor if the caller stays.
///
/// # Errors
/// Returns one line for people; the caller watches the container as before.
fn hand_over<'a>(
    home: &Home,
    id: &ContainerId,
    (left, why): (&mut Option<Left>, Leave),
    estate: impl FnOnce() -> Estate<'a>,
) -> Result<Option<OwnedFd>, String> {
    let failed =
        |source| format!("cannot let a monitor watch the container, so this command goes on: {source}");
    let guarded = |left: &Option<Left>| left.as_ref().is_some_and(|left| left.child.guardian.is_some());
    if !guarded(left) {
        return Err(failed("its first process has no guardian".to_owned()));
    }
    let kernel = |errno: tote_sys::Errno| failed(errno.to_string());
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(kernel)?;
    let (ours, theirs) = match why {
        Leave::Asked => pair()
            .map(|(ours, theirs)| (Some(ours), Some(theirs)))
            .map_err(kernel)?,
        Leave::Keys | Leave::Hangup => (None, None),
    };
    let report = Report::new(writer);
    // process: monitor
    let forked = tote_sys::fork_worker(|| {
        let companion = theirs.map(|socket| (socket, Streams::ALL));
        match left.take() {
            Some(left) => take_over(home, left, estate(), companion, report),
            None => 1,
        }
    });
    forked.map_err(kernel)?;
    if let Err(error) = listen(&mut File::from(reader), &mut |_| {}) {
        forget_records(home, id);
        return Err(failed(tote_sys::chain(&error)));
    }
    if let Some(guardian) = left.as_ref().and_then(|left| left.child.guardian.as_ref()) {
        // A guardian that is gone has taken the container with it, and the monitor notices.
        best_effort(guardian.release());
    }
    // This closes the process's end of the guardian's pipe, which only the monitor should hold.
    *left = None;
    Ok(ours)
}

/// Continues a command whose container has a monitor now: the command ends, or stays as a client like any other if it
/// has a connection.
///
/// # Errors
/// Those of [`super::attach()`].
pub fn go_on(
    home: &Home,
    id: &ContainerId,
    (why, connection): (Leave, Option<OwnedFd>),
    how: &Attaching,
    raw: Option<RawMode>,
) -> Result<Finished, EngineError> {
    let hangup = 128 + rustix::process::Signal::HUP.as_raw();
    let left = Finished {
        exit_code: if why == Leave::Hangup {
            u8::try_from(hangup).unwrap_or(1)
        } else {
            0
        },
        reason: None,
    };
    let Some(socket) = connection else {
        drop(raw);
        return Ok(left);
    };
    let attendant = Attendant::new().map_err(LifeError::from)?;
    let stayed = stay(home, id, socket, &attendant, how, how.keys()?, true);
    drop(raw);
    match stayed? {
        Stay::Over(finished) => Ok(finished),
        Stay::Detached => Ok(left),
    }
}

/// Main function of the monitor that takes over. Returns the container's exit code.
fn take_over(
    home: &Home,
    left: Left,
    estate: Estate<'_>,
    companion: Option<Companion>,
    mut report: Report,
) -> u8 {
    life::settle(&estate.entry.container);
    match succeed(home, left, estate, companion) {
        Err(error) => {
            report.failed(&error);
            error.exit_code()
        }
        Ok((mut watcher, running, claim)) => {
            report.started();
            fault::point("succeeded");
            let id = running.0.id.clone();
            super::keep_room(home, &id);
            let (container, running) = running;
            let state = watcher.watch(&container, running);
            // absence: the record with which the container was started holds
            let container = Container::read(home, &id).ok().flatten().unwrap_or(container);
            watcher.over(claim, &container, &state, "");
            u8::try_from(state.exit_code & 0xff).unwrap_or(1)
        }
    }
}

/// Prepares the monitor before it is announced: the records, the last of which makes the container a kept one, the
/// socket, and the waiting clients.
fn succeed<'a>(
    home: &'a Home,
    left: Left,
    estate: Estate<'_>,
    companion: Option<Companion>,
) -> Result<(Watcher<'a>, (Container, Running), Claim), EngineError> {
    let Estate {
        entry,
        options,
        spec,
        init,
        claim,
        door,
        answers,
    } = estate;
    let container = entry.container;
    let claim = claim.ok_or_else(|| EngineError::Life(LifeError::NoContainer(container.id.to_string())))?;
    let dir = home.container(&container.id);
    tote_state::closed::directory(&dir).map_err(EngineError::file("make", &dir))?;
    tote_state::record::write(&dir.join("config.json"), spec)?;
    let state = State {
        monitor: ProcessId::of(std::process::id()),
        ..entry.state
    };
    state.write(home, &container.id)?;
    let options = &RunOptions {
        timeout: left.timeout,
        output_limit: left.output,
        ..options.clone()
    };
    let mut watcher = Watcher::new(home, &container, (options, spec, init), companion)?;
    fault::point("inherited");
    container.write(home)?;
    // The file of the claim was the record of the container without a directory.
    claim.note_volumes(None);
    if let Some(door) = door {
        watcher.monitor.take_over(door).map_err(LifeError::from)?;
        super::foreground::deafen(home, &container.id);
    }
    let running = Running {
        limits: Limits::new(&container.id, options, left.cgroup.as_ref())?,
        child: left.child,
        cgroup: left.cgroup,
        ends: Ends {
            console: left.console,
            ..Ends::default()
        },
        state,
        notify: None,
        answers,
        misses: None,
        report: EndReport::of(options)?,
        _source: None,
    };
    Ok((watcher, (container, running), claim))
}

/// Removes the records of a monitor that failed to take over: the container has no directory again,
/// or one without records.
fn forget_records(home: &Home, id: &ContainerId) {
    let dir = home.container(id);
    for file in [
        "container.json",
        "state.json",
        "config.json",
        super::socket::SOCKET,
        "log.json",
        "ctr.log",
    ] {
        best_effort(std::fs::remove_file(dir.join(file)));
    }
    // Other entries belong to the container.
    best_effort(std::fs::remove_dir(dir));
}
