//! A process in a container that exists.

use crate::errand::Made;
use crate::patience::Patience;
use crate::{Namespaces, Refusal, RuntimeError};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::time::Instant;
use tote_cgroup::Cgroup;
use tote_sandbox::{Errand, Plan};
use tote_sys::{Birth, Child, Errno, Event, birth, set_namespaces};

/// Who enters what.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// What the new process does: [`tote_sandbox::enter`].
    pub plan: &'a Plan,
    /// The container's cgroup.
    pub cgroup: Option<&'a Cgroup>,
    /// A process of the container.
    pub init: BorrowedFd<'a>,
    /// What it joins: those that the plan was made with.
    pub namespaces: Namespaces,
    /// When the new process is killed if it is not its program by then.
    pub deadline: Option<Instant>,
}

const NEW_USER: u32 = 0x1000_0000;

/// cgroups(7): a user whose session is not in what systemd has delegated to it (`user@UID.service`) may end what is there,
/// and put nothing into it.
const OUTSIDE: &str = "the process is not in the container's cgroup, so its limits do not hold for it: from outside of what \
    was delegated to this user nothing can be moved in (`systemd-run --user --scope` goes inside)";

/// Takes what the new process sends. Each may refuse, and then there is no process.
pub struct Reception<'a> {
    /// Takes the master of its terminal.
    pub console: &'a mut dyn FnMut(OwnedFd) -> Result<(), Refusal>,
    /// Takes the listener of its system call filter, with its id.
    pub listener: &'a mut dyn FnMut(OwnedFd, u32) -> Result<(), Refusal>,
    /// Something the process has to do without, in one line.
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
/// [`RuntimeError`]; the process is gone then.
pub fn exec(entry: Entry<'_>, reception: &mut Reception<'_>) -> Result<Child, RuntimeError> {
    let seal = crate::seal::for_joining(entry.plan, entry.namespaces.user)?;
    if entry.namespaces.user {
        set_namespaces(entry.init, NEW_USER).map_err(|source| RuntimeError::Join { what: "user", source })?;
    }
    let born_in = |cgroup| {
        birth(&Birth {
            ops: &entry.plan.ops,
            namespaces: 0,
            ancestry: crate::errand::ancestry(entry.plan),
            cgroup,
            timings: false,
            seal: seal.as_ref(),
            guarded: false,
        })
    };
    let cgroup = entry.cgroup.and_then(Cgroup::v2_dir);
    let mut child = match born_in(cgroup) {
        Err(Errno::ACCESS) if cgroup.is_some() => {
            (reception.warn)(OUTSIDE.to_owned());
            born_in(None)
        }
        other => other,
    }
    .map_err(RuntimeError::Clone)?;
    match through(entry, &mut child, reception) {
        Ok(()) => Ok(child),
        Err(error) => {
            child.kill();
            Err(error)
        }
    }
}

/// [`exec`] where the container may have moved its first process out of the group that is recorded, which then takes no
/// other: the new process goes where that one, of this number, is.
///
/// # Errors
/// As [`exec`].
pub fn exec_beside(
    entry: Entry<'_>,
    (record, first): (&str, u32),
    reception: &mut Reception<'_>,
) -> Result<Child, RuntimeError> {
    match exec(entry, reception) {
        Err(RuntimeError::Clone(Errno::BUSY)) if record.lines().any(|line| line.starts_with("v2 ")) => {
            let cgroup = tote_cgroup::beside(record, first).map_err(RuntimeError::Cgroup)?;
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

fn through(entry: Entry<'_>, child: &mut Child, reception: &mut Reception<'_>) -> Result<(), RuntimeError> {
    for errands in &entry.plan.gates {
        let mut made = Made::default();
        if let (true, Some(cgroup)) = (errands.contains(&Errand::Cgroup), entry.cgroup) {
            made.tasks = cgroup.open_tasks().map_err(RuntimeError::Cgroup)?;
        }
        made.hand_over(child)?;
    }
    tote_sys::settle_seal();
    let mut patience = Patience::until(entry.deadline);
    let mut descends = entry.plan.descends();
    let (mut failure, mut filter) = (None, None);
    loop {
        if let Err(error) = patience.wait(child) {
            return Err(failure.unwrap_or(error));
        }
        match child.event().map_err(RuntimeError::Wait)? {
            // A process in the container has no terminal to send: that was done before.
            Event::Console(master) if descends || !entry.plan.descends() => {
                (reception.console)(master).map_err(RuntimeError::Refused)?
            }
            // A process that was born in the container may say so before the one that made it says which it is. Both
            // are gone at the end of file.
            Event::Failed { op, errno, text } => {
                failure = Some(RuntimeError::of_step(entry.plan, op, errno, text));
                patience.hurry();
            }
            Event::Seccomp(fd) => filter = Some(fd),
            Event::Without { op, errno } => (reception.warn)(crate::error::without(entry.plan, op, errno)),
            Event::Descended(pid) if descends => {
                child.descend(pid).map_err(RuntimeError::Wait)?;
                descends = false;
            }
            Event::Exec if descends && failure.is_none() => return Err(RuntimeError::Ended),
            Event::Exec => return failure.map_or(Ok(()), Err),
            _ => {}
        }
        // Whoever takes the listener is told which process it is of.
        if let Some(fd) = filter.take_if(|_| !descends) {
            (reception.listener)(fd, child.pid).map_err(RuntimeError::Refused)?;
        }
    }
}
