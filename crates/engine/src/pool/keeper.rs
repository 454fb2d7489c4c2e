//! Keeper of a parked sandbox: its parent process, from its birth to its end.

use super::error::PoolError;
use super::record::{Pool, open_dir};
use crate::container::claim::FirstProcess;
use crate::container::{self, Claim, Container, Entry, ProcessId, Report, Status, fault};
use crate::exec::Inside;
use crate::network::Answers;
use crate::prepared::Prepared;
use crate::{EngineError, Home, LifeError};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use tote_bundle::{ContainerId, RunOptions, SeccompChoice};
use tote_cgroup::Cgroup;
use tote_runtime::{Aside, Created, Creation, Kept, Outcome, Witness};
use tote_sandbox::Plan;
use tote_state::process::set_title;
use tote_state::record::now;
use tote_sys::{Child, Event, ExitStatus, Footprint, Op, best_effort};

/// Message of the command that takes a sandbox to its keeper: the container's further attributes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Note {
    /// Name, if one was given; the container has it already.
    pub(super) name: String,
    /// Further options.
    pub(super) given: Vec<(String, String)>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) command: Vec<String>,
    pub(super) path_and_args: Vec<String>,
    pub(super) env: Vec<String>,
    pub(super) cwd: String,
    pub(super) terminal: bool,
}

/// Main function of a keeper, in the process that was forked for it.
pub(super) fn live(
    home: &Home,
    pool: &Pool,
    mut prepared: Prepared,
    footprint: &Footprint,
    mut report: Report,
) {
    settle(pool);
    let id = prepared.entry.container.id.clone();
    let socket = pool.sockets(home).join(id.as_str());
    let Some(claim) = prepared.claim.take() else {
        return report.failed(&EngineError::Life(LifeError::NoContainer(id.to_string())));
    };
    match Keeper::new(home, socket.clone(), prepared, &mut report) {
        Ok((keeper, created, source)) => {
            report.started();
            drop(report);
            keeper.through(created, footprint, claim);
            drop(source);
        }
        Err(error) => {
            best_effort(std::fs::remove_file(&socket));
            // A sweep finds a cgroup that is left.
            container::discard(home, &id, "", (claim, true));
            report.failed(&error);
        }
    }
}

/// Detaches from the command: session, directory, descriptors and arguments.
fn settle(pool: &Pool) {
    // A session of its own cannot fail in a process that was just forked; failures of the rest are ignored.
    best_effort(rustix::process::setsid());
    best_effort(rustix::process::chdir("/"));
    best_effort(rustix::thread::set_name(c"tote-keeper"));
    // The old title shows arguments of the command that took the previous sandbox, which are private.
    // process: keeper of a pool
    set_title(&format!("tote pool {}", pool.name));
    // absence: the keeper has the streams that it was given then, which go with it
    if let Ok(null) = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
        best_effort(rustix::stdio::dup2_stdin(&null));
        best_effort(rustix::stdio::dup2_stdout(&null));
        best_effort(rustix::stdio::dup2_stderr(&null));
    }
    tote_sys::close_inherited(0);
}

struct Keeper<'a> {
    home: &'a Home,
    socket: PathBuf,
    entry: Entry,
    inside: Inside,
    options: RunOptions,
    /// Answers to its questions for names, where it is in a network that has some.
    answers: Option<Answers>,
}

/// Nothing to look after.
#[derive(Debug)]
struct Nothing;

impl Aside for Nothing {}

/// Reference to the image's files; the image stays while it is held.
type Held = crate::rootfs::Source;

impl<'a> Keeper<'a> {
    /// Makes the sandbox, which is ready when this returns.
    fn new(
        home: &'a Home,
        socket: PathBuf,
        prepared: Prepared,
        report: &mut Report,
    ) -> Result<(Self, Created, Held), EngineError> {
        let Prepared {
            entry,
            options,
            spec,
            mut plan,
            cgroup,
            ids,
            _source,
            beside: _beside,
            ..
        } = prepared;
        plan.warnings.iter().for_each(|text| report.warn(text));
        let listener = listen(&socket, &entry.container.id)?;
        fault::point("pool-bound");
        // docker's default profile allows the calls of a parked sandbox; another one may not.
        let known = options.seccomp() == SeccompChoice::Default;
        plan.insert_stdio([1, 2].map(|number| Op::NoOutput { number }).into());
        let machine = park(&mut plan, listener, known, &entry.container)?;
        let creation = Creation {
            plan: &plan,
            cgroup: cgroup.as_ref(),
            maps: ids.maps.as_ref().filter(|_| plan.user_namespace.is_none()),
            network: None,
        };
        // The container that it may become is found by its names, and the sandbox is not.
        crate::network::hide(home, &entry.state.networks)?;
        let id = &entry.container.id;
        let mut answers = Answers::of(home, id, &options, &entry.state.networks);
        let mut deaf = None;
        let created = tote_runtime::create(
            creation,
            Witness {
                record: &mut |_, _| Ok(()),
                network: &mut |network| {
                    deaf = answers.as_mut().and_then(|answers| answers.open(network).err());
                    Ok(())
                },
                hooks: &mut || Ok(()),
                root: &mut |_| Ok(()),
                console: &mut |_| Ok(()),
                listener: &mut |_| Err("a filter of system calls that asks somebody".into()),
                warn: &mut |text| report.warn(&text),
                stays: &mut || {},
            },
        );
        let mut created = created?;
        if let Some(channel) = machine {
            // The attendant alone has the other end.
            drop(plan);
            await_machine(&mut created.child, channel)?;
        }
        deaf.iter().for_each(|text| report.warn(text));
        fault::point("pool-parked");
        let inside = Inside::of(&spec, known);
        let keeper = Self {
            home,
            socket,
            entry,
            inside,
            options,
            answers,
        };
        Ok((keeper, created, _source))
    }

    fn through(mut self, created: Created, footprint: &Footprint, claim: Claim) {
        footprint.trim();
        let id = self.entry.container.id.clone();
        let cgroup = created.cgroup.as_ref().map(Cgroup::record);
        let (mut answers, mut nothing) = (self.answers.take(), Nothing);
        answers.iter().for_each(Answers::prepare);
        let aside = answers.as_mut().map_or(&mut nothing as &mut dyn Aside, |own| own);
        let kept = tote_runtime::keep(&created, footprint, aside, &mut |kept| match kept {
            Kept::Taken => {
                fault::point("pool-taken");
                // The socket has no listener any more.
                best_effort(std::fs::remove_file(&self.socket));
            }
            Kept::Noted(text) => {
                if let Ok(note) = serde_json::from_slice(&text) {
                    // Without the record the container is still found by its id, but not listed.
                    best_effort(note_birth(
                        self.home,
                        (&mut self.entry, &mut self.inside),
                        (&claim, &self.options),
                        (note, created.child.pid, cgroup.clone()),
                    ));
                    fault::point("pool-noted");
                }
            }
        });
        fault::point("pool-ended");
        let ooms = created.cgroup.as_ref().map_or(0, Cgroup::oom_kills);
        let mut leaves_cgroup = false;
        if let Some(cgroup) = &created.cgroup {
            // A sweep clears the remains.
            best_effort(cgroup.kill_all());
            leaves_cgroup = cgroup.remove().is_err();
        }
        best_effort(std::fs::remove_file(&self.socket));
        let left = crate::network::leave(self.home, &id, &self.entry.state.networks);
        leaves_cgroup |= left.is_err();
        if self.entry.container.name.is_empty() {
            // The container has a name if its taker was killed before it told the keeper.
            container::name::release_any(self.home, &id);
        }
        let name = &self.entry.container.name;
        container::discard(self.home, &id, name, (claim, leaves_cgroup));
        fault::point("pool-cleared");
        crate::network::linger(self.home, &left.unwrap_or_default());
        if let Ok((outcome, Some(taker))) = kept {
            match outcome {
                Outcome::Exited(code) => taker.ended(code, false, ooms),
                Outcome::Signaled(signal) => taker.ended(signal, true, ooms),
                Outcome::TimedOut | Outcome::CpuTimeOver | Outcome::OutputOver | Outcome::Insisted => {}
            }
        }
    }
}

/// Has the plan's process wait at the socket: itself, or, in a virtual machine, the attendant, whose channel is returned.
fn park(
    plan: &mut Plan,
    listener: OwnedFd,
    known: bool,
    container: &Container,
) -> Result<Option<OwnedFd>, EngineError> {
    if !crate::vm::is_in_vm(container) {
        plan.park(listener, known);
        return Ok(None);
    }
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    let pair = socketpair(family, kind, SocketFlags::CLOEXEC, None);
    let (ours, theirs) = pair.map_err(|source| EngineError::Kernel {
        attempt: "make a socket for a sandbox of the pool",
        source,
    })?;
    plan.hand_over(listener, theirs);
    Ok(Some(ours))
}

/// Waits until the machine of a sandbox is up.
fn await_machine(child: &mut Child, channel: OwnedFd) -> Result<(), EngineError> {
    child.hear_program(channel);
    let reason = match child.event() {
        Ok(Event::Ready) => return Ok(()),
        Ok(Event::Failed { text, .. }) => text,
        Ok(_) | Err(_) => "its attendant has ended".to_owned(),
    };
    // The reason is known; what is left ends with its namespaces.
    best_effort(pidfd_send_signal(&child.pidfd, Signal::KILL));
    best_effort(ExitStatus::of(child.pidfd.as_fd()));
    Err(PoolError::Machine(reason).into())
}

/// Suffix of the name of a socket without a listener.
pub(super) const FRESH: &str = ".fresh";

/// Makes the socket of a sandbox. It gets its name once it listens: connect(2) refuses a bound socket without a
/// listener just like one of a dead keeper, and the refused caller removes the name.
fn listen(socket: &std::path::Path, id: &ContainerId) -> Result<OwnedFd, EngineError> {
    let dir = open_dir(socket.parent().unwrap_or(socket))?;
    let fresh = format!("{id}{FRESH}");
    let failed = |source| EngineError::Kernel {
        attempt: "make the socket of a sandbox",
        source,
    };
    let listener = tote_sys::start_gate(dir.as_fd(), &fresh).map_err(failed)?;
    let renamed = rustix::fs::renameat(&dir, &*fresh, &dir, id.as_str());
    if renamed.is_err() {
        best_effort(rustix::fs::unlinkat(&dir, &*fresh, rustix::fs::AtFlags::empty()));
    }
    renamed.map(|()| listener).map_err(failed)
}

/// Records the container; one without a name gets a generated name.
fn note_birth(
    home: &Home,
    (entry, inside): (&mut Entry, &mut Inside),
    (claim, options): (&Claim, &RunOptions),
    (note, pid, cgroup): (Note, u32, Option<String>),
) -> Result<(), EngineError> {
    let container: &mut Container = &mut entry.container;
    container.name = note.name;
    if container.name.is_empty() {
        container.name = container::name::take_any(home, &container.id)?.to_string();
    }
    container.created = now();
    container.options.extend(note.given);
    container.labels.extend(note.labels);
    (container.command, container.path_and_args) = (note.command, note.path_and_args);
    let state = &mut entry.state;
    (state.status, state.started_at) = (Status::Running, now());
    (state.process, state.monitor) = (ProcessId::of(pid), ProcessId::of(std::process::id()));
    (state.boot, state.cgroup) = (container::boot(), cgroup);
    let called = (&container.id, container.name.as_str());
    // Without its names it is still found by its address.
    best_effort(crate::network::call(home, called, options, &state.networks));
    inside.process.env = note.env;
    inside.process.cwd = note.cwd;
    inside.process.terminal = note.terminal;
    claim.note(entry, inside, FirstProcess::Begun)
}
