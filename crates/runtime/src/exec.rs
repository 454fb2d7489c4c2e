//! A process in a container that exists.

use crate::errand::Made;
use crate::join::NEW_PID;
use crate::{Namespaces, Refusal, RuntimeError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tote_cgroup::Cgroup;
use tote_sandbox::{Errand, Plan};
use tote_sys::{Birth, Child, Errno, Event, best_effort, birth, set_namespaces};

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
    crate::seal::seal_in_place()?;
    if entry.namespaces.user {
        set_namespaces(entry.init, NEW_USER).map_err(|source| RuntimeError::Join { what: "user", source })?;
    }
    let home = (entry.namespaces.flags & NEW_PID != 0)
        .then(|| PidNamespace::of(entry.init))
        .transpose()?;
    let born_in = |cgroup| {
        birth(&Birth {
            ops: &entry.plan.ops,
            namespaces: 0,
            ancestry: crate::errand::ancestry(entry.plan),
            cgroup,
            timings: false,
            seal: None,
        })
    };
    let cgroup = entry.cgroup.and_then(Cgroup::v2_dir);
    let child = match born_in(cgroup) {
        Err(Errno::ACCESS) if cgroup.is_some() => {
            (reception.warn)(OUTSIDE.to_owned());
            born_in(None)
        }
        other => other,
    }
    .map_err(RuntimeError::Clone)?;
    drop(home);
    match through(entry, &child, reception) {
        Ok(()) => Ok(child),
        Err(error) => {
            // ESRCH: it has ended already, as one that reported a failure does.
            best_effort(pidfd_send_signal(&child.pidfd, Signal::KILL));
            // A dead child that nobody reaps keeps the container's first process from ending.
            while let Err(Errno::INTR) = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED) {}
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

fn through(entry: Entry<'_>, child: &Child, reception: &mut Reception<'_>) -> Result<(), RuntimeError> {
    for errands in &entry.plan.gates {
        let mut made = Made::default();
        if let (true, Some(cgroup)) = (errands.contains(&Errand::Cgroup), entry.cgroup) {
            made.tasks = cgroup.open_tasks().map_err(RuntimeError::Cgroup)?;
        }
        made.hand_over(child)?;
    }
    tote_sys::settle_seal();
    loop {
        match child.event().map_err(RuntimeError::Wait)? {
            Event::Console(master) => (reception.console)(master).map_err(RuntimeError::Refused)?,
            Event::Failed { op, errno, text } => {
                return Err(RuntimeError::of_step(entry.plan, op, errno, text));
            }
            Event::Seccomp(fd) => (reception.listener)(fd, child.pid).map_err(RuntimeError::Refused)?,
            Event::Without { op, errno } => (reception.warn)(crate::error::without(entry.plan, op, errno)),
            Event::Exec => return Ok(()),
            _ => {}
        }
    }
}

/// This process's children are born in the container's PID namespace while this lives.
struct PidNamespace {
    own: OwnedFd,
}

impl PidNamespace {
    fn of(init: BorrowedFd<'_>) -> Result<Self, RuntimeError> {
        let failed = |source| RuntimeError::Join { what: "PID", source };
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let own = rustix::fs::open("/proc/self/ns/pid", flags, Mode::empty()).map_err(failed)?;
        set_namespaces(init, NEW_PID).map_err(failed)?;
        Ok(Self { own })
    }
}

impl Drop for PidNamespace {
    fn drop(&mut self) {
        // Refused to a process that has gone into another user namespace, which makes no more children.
        best_effort(rustix::thread::move_into_link_name_space(self.own.as_fd(), None));
    }
}
