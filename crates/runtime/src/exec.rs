//! A new process in an existing container.

use crate::errand::{self, Errands, Made};
use crate::newborn::{Attendant, Newborn, agreed};
use crate::patience::Patience;
use crate::{ErrandError, Namespaces, Refusal, RuntimeError};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;
use tote_cgroup::{Cgroup, GroupPlace};
use tote_sandbox::{Errand, Plan};
use tote_sys::{Child, Errno, Event, Op, Way, set_namespaces};

/// Request for a process in a container.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Plan of the new process: [`tote_sandbox::enter`].
    pub plan: &'a Plan,
    /// Cgroup of the container.
    pub cgroup: Option<&'a Cgroup>,
    /// Pidfd of a process of the container.
    pub init: BorrowedFd<'a>,
    /// Namespaces to join, which the plan was made with.
    pub namespaces: Namespaces,
    /// True for a caller whose memory the new process may share until it is in the container, if the plan allows that: the caller has no
    /// environment any more afterwards.
    pub shares_memory: bool,
    /// Time at which the new process is killed if it has not become its program.
    pub deadline: Option<Instant>,
}

const NEW_USER: u32 = 0x1000_0000;

/// Namespaces that a process can enter while it shares memory: those of mounts, control groups, host names, IPC, processes and networks.
const SHAREABLE: u32 = 0x6e02_0000;

/// Warning for a process that stays outside of the cgroup, cgroups(7): a user whose session is outside of what
/// systemd has delegated to the user (`user@UID.service`) may kill processes in there but not move any into it.
const OUTSIDE: &str = "the process is not in the container's cgroup, so its limits do not hold for it: from outside of what \
    was delegated to this user nothing can be moved in (`systemd-run --user --scope` goes inside)";

/// Functions that take what the new process sends. Each may refuse, and then the process is killed.
pub struct Reception<'a> {
    /// Takes the master of its terminal.
    pub console: &'a mut dyn FnMut(OwnedFd) -> Result<(), Refusal>,
    /// Takes the listener of its system call filter, with its pid.
    pub listener: &'a mut dyn FnMut(OwnedFd, u32) -> Result<(), Refusal>,
    /// Takes a warning of one line about something that the process has to do without.
    pub warn: &'a mut dyn FnMut(String),
}

impl std::fmt::Debug for Reception<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reception")
    }
}

/// Makes the process; returns when it has become its program.
///
/// # Errors
/// [`RuntimeError`]; the process has been killed then.
pub fn exec(entry: Entry<'_>, reception: &mut Reception<'_>) -> Result<Child, RuntimeError> {
    let seal = crate::seal::for_joining(entry.plan, entry.namespaces.user)?;
    if entry.namespaces.user {
        set_namespaces(entry.init, NEW_USER).map_err(|source| RuntimeError::Join { what: "user", source })?;
    }
    let mut newborn = Newborn::new(Errands {
        plan: entry.plan,
        cgroup: None,
        joined: entry.cgroup,
        maps: None,
        network: None,
    });
    let made = newborn.open_gates(reception.warn)?;
    let way = if entry.shares_memory && seal.is_none() && entry.cgroup.is_none() && may_share(entry.plan) {
        Way::Shared
    } else {
        Way::Copied
    };
    let born_in = |cgroup| errand::bear(entry.plan, cgroup, (seal.as_ref(), false), way, &made);
    let child = match born_in(entry.cgroup) {
        Err(RuntimeError::Clone(Errno::ACCESS))
            if entry.cgroup.is_some_and(|cgroup| cgroup.v2_dir().is_some()) =>
        {
            (reception.warn)(OUTSIDE.to_owned());
            born_in(None)
        }
        other => other,
    }?;
    drop(made);
    newborn.child = Some(child);
    let passed = through(entry, &mut newborn, reception);
    match (passed, newborn.child) {
        (Ok(()), Some(child)) => Ok(child),
        (passed, child) => {
            if let Some(child) = child {
                child.kill();
            }
            Err(passed.err().unwrap_or(RuntimeError::Wait(Errno::CHILD)))
        }
    }
}

/// True if the process of a plan can share the caller's memory until it is in the container: it asks its parent for nothing, and goes on in
/// a copy of its own there. The kernel refuses a time namespace to a process that shares memory.
fn may_share(plan: &Plan) -> bool {
    let joins = |op: &Op| match op {
        Op::JoinProcess(how) => how.namespaces & !SHAREABLE == 0,
        _ => true,
    };
    let apart = plan.namespaces == 0 && plan.join.is_empty() && plan.user_namespace.is_none();
    apart
        && plan.pid_namespace.is_none()
        && plan.gates.is_empty()
        && plan.descends()
        && plan.ops.iter().all(joins)
}

/// Does [`exec`] for a container that may have moved its first process out of the recorded group, which then accepts
/// no other process: the new process goes to the group of the first one, whose pid is `first`.
///
/// # Errors
/// Those of [`exec`].
pub fn exec_beside(
    entry: Entry<'_>,
    (record, first): (&str, u32),
    reception: &mut Reception<'_>,
) -> Result<Child, RuntimeError> {
    match exec(entry, reception) {
        Err(RuntimeError::Clone(Errno::BUSY)) if GroupPlace::readable(record).any(|place| place.is_v2) => {
            let cgroup = tote_cgroup::beside(record, first).map_err(ErrandError::Cgroup)?;
            // The first attempt has entered the user namespace, which can be entered only once.
            let namespaces = Namespaces {
                user: false,
                ..entry.namespaces
            };
            let entry = Entry {
                cgroup: Some(&cgroup),
                namespaces,
                ..entry
            };
            exec(entry, reception)
        }
        other => other,
    }
}

impl Attendant for Reception<'_> {
    fn warn(&mut self) -> &mut dyn FnMut(String) {
        self.warn
    }

    fn attend(&mut self, _: &Errand, _: &mut Newborn<'_>, _: &Made) -> Result<(), RuntimeError> {
        Ok(())
    }
}

fn through(
    entry: Entry<'_>,
    newborn: &mut Newborn<'_>,
    reception: &mut Reception<'_>,
) -> Result<(), RuntimeError> {
    newborn.pass_gates(reception)?;
    tote_sys::settle_seal();
    let mut patience = Patience::until(entry.deadline);
    let mut descends = entry.plan.descends();
    let (mut failure, mut filter) = (None, None);
    loop {
        if let Err(error) = patience.wait(newborn.child()?) {
            return Err(failure.unwrap_or(error));
        }
        match newborn.hear(reception.warn) {
            // A process that was born in the container may report before its maker names it. Both are gone at the end
            // of file.
            Err(step @ (RuntimeError::Step(_) | RuntimeError::Hook { .. })) => {
                failure = Some(step);
                patience.hurry();
            }
            Err(error) => return Err(error),
            // A process in the container must not send a terminal: the process before it does that.
            Ok(Event::Console(master)) if descends || !entry.plan.descends() => {
                agreed((reception.console)(master))?;
            }
            Ok(Event::Seccomp(fd)) => filter = Some(fd),
            Ok(Event::Descended(_)) => descends = false,
            Ok(Event::Exec) if descends && failure.is_none() => return Err(RuntimeError::Ended),
            Ok(Event::Exec) => return failure.map_or(Ok(()), Err),
            Ok(_) => {}
        }
        // The receiver of the listener is told the pid of its process.
        if let Some(fd) = filter.take_if(|_| !descends) {
            agreed((reception.listener)(fd, newborn.child()?.pid))?;
        }
    }
}
