//! A container with a life of its own: born up to its start gate, or up to its program, and then left alone.

use crate::errand::{self, Errands, Made};
use crate::step::{Step, StepKind};
use crate::{Maps, Refusal, RuntimeError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use tote_cgroup::Cgroup;
use tote_sandbox::{Errand, Plan};
use tote_sys::{Child, ComingNetwork, Errno, Event, Starting, best_effort};

/// Request for a container.
#[derive(Clone, Copy, Debug)]
pub struct Creation<'a> {
    /// Plan of the new process.
    pub plan: &'a Plan,
    /// Cgroup to make for the process.
    pub cgroup: Option<&'a tote_cgroup::Plan>,
    /// Maps of its user namespace, unless it writes them itself.
    pub maps: Option<&'a Maps>,
    /// Network namespace, if another process is making it already.
    pub network: Option<&'a ComingNetwork>,
}

/// Function that records a process and the cgroup that it is in.
type Record<'a> = &'a mut dyn FnMut(&Child, Option<&Cgroup>) -> Result<(), Refusal>;

/// Functions that are called during the birth. Each may refuse, and then the container is not made.
pub struct Witness<'a> {
    /// Records the process, which does nothing irrevocable before.
    pub record: Record<'a>,
    /// Records the mount that is about to become the container's root, in a mount namespace that outlives the
    /// container.
    pub root: &'a mut dyn FnMut(BorrowedFd<'_>) -> Result<(), Refusal>,
    /// Takes the container's network namespace, when its links exist.
    pub network: &'a mut dyn FnMut(BorrowedFd<'_>) -> Result<(), Refusal>,
    /// Runs the hooks on the runtime's side, when the container's mounts and namespaces exist.
    pub hooks: &'a mut dyn FnMut() -> Result<(), Refusal>,
    /// Takes the master of the console.
    pub console: &'a mut dyn FnMut(OwnedFd) -> Result<(), Refusal>,
    /// Takes the listener of the system call filter.
    pub listener: &'a mut dyn FnMut(OwnedFd) -> Result<(), Refusal>,
    /// Takes a warning of one line about something that the container has to do without.
    pub warn: &'a mut dyn FnMut(String),
    /// Notes that the cgroup could not be removed after a failure, so that it can be found later.
    pub stays: &'a mut dyn FnMut(),
}

impl std::fmt::Debug for Witness<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Witness")
    }
}

/// A container that waits for its start, or whose program runs.
#[derive(Debug)]
pub struct Created {
    /// First process of the container.
    pub child: Child,
    /// Cgroup of the container.
    pub cgroup: Option<Cgroup>,
}

/// Makes a container; returns when it waits at its start gate or, without a gate, has become its program.
///
/// # Errors
/// [`RuntimeError`]; the process and its cgroup have been removed then.
pub fn create(creation: Creation<'_>, witness: Witness<'_>) -> Result<Created, RuntimeError> {
    crate::seal::seal_in_place()?;
    let mut midwife = Midwife {
        creation,
        witness,
        child: None,
        cgroup: None,
    };
    match midwife.deliver() {
        Ok(()) => match midwife.child.take() {
            Some(child) => Ok(Created {
                child,
                cgroup: midwife.cgroup.take(),
            }),
            None => Err(RuntimeError::Clone(Errno::CHILD)),
        },
        Err(error) => {
            midwife.undo();
            Err(error)
        }
    }
}

/// Opens a container's gate and waits until its process has become the program.
///
/// `dir` and `name` are those of [`tote_sys::start_gate`]. A failed operation is reported by its index in a list that
/// only the creator had; the error has the words of the last operation. `listener` takes the listener of a system
/// call filter.
///
/// # Errors
/// [`RuntimeError::NoGate`] if no process waits behind it; [`RuntimeError::Step`] and [`RuntimeError::Refused`] as
/// for `create`.
pub fn start(
    dir: BorrowedFd<'_>,
    name: &str,
    program: &str,
    listener: &mut dyn FnMut(OwnedFd) -> Result<(), Refusal>,
) -> Result<(), RuntimeError> {
    let starting = Starting::open(dir, name).map_err(RuntimeError::NoGate)?;
    match starting.event().map_err(RuntimeError::Wait)? {
        Event::Ready => {}
        _ => return Err(RuntimeError::NoGate(Errno::CONNRESET)),
    }
    loop {
        match starting.event().map_err(RuntimeError::Wait)? {
            Event::Seccomp(fd) => listener(fd).map_err(RuntimeError::Refused)?,
            Event::Failed { errno, text, .. } => {
                return Err(RuntimeError::Step(Step {
                    words: format!("start {program}"),
                    kind: StepKind::Execute,
                    mounting: None,
                    errno,
                    text,
                    program: Some(program.to_owned()),
                }));
            }
            // Every operation after the gate is required.
            _ => return Ok(()),
        }
    }
}

struct Midwife<'a, 'w> {
    creation: Creation<'a>,
    witness: Witness<'w>,
    child: Option<Child>,
    cgroup: Option<Cgroup>,
}

impl Midwife<'_, '_> {
    fn deliver(&mut self) -> Result<(), RuntimeError> {
        let plan = self.creation.plan;
        if let Some(groups) = self.creation.cgroup.filter(|groups| groups.uses_v2()) {
            self.make_cgroup(groups)?;
        }
        self.child = Some(errand::bear(plan, self.cgroup.as_ref(), (None, false), false)?);
        for errands in &plan.gates {
            let made = self.run(errands).map_err(|error| self.reason(error))?;
            made.hand_over(self.child()?)?;
        }
        tote_sys::settle_seal();
        let waits = plan
            .ops
            .iter()
            .any(|op| matches!(op, tote_sys::Op::AwaitStart(_) | tote_sys::Op::Park(_)));
        match self.hear()? {
            Event::Exec if waits => Err(self.end()),
            _ => Ok(()),
        }
    }

    fn child(&self) -> Result<&Child, RuntimeError> {
        self.child.as_ref().ok_or(RuntimeError::Wait(Errno::CHILD))
    }

    fn make_cgroup(&mut self, plan: &tote_cgroup::Plan) -> Result<(), RuntimeError> {
        self.cgroup = Some(crate::cgroup::create(plan, &mut self.witness.warn)?);
        Ok(())
    }

    fn run(&mut self, errands: &[Errand]) -> Result<Made, RuntimeError> {
        let mut made = Made::default();
        let Creation {
            plan,
            cgroup,
            maps,
            network,
        } = self.creation;
        let own = Errands {
            plan,
            cgroup,
            maps,
            network,
        };
        for errand in errands {
            let child = self.child.as_ref().ok_or(RuntimeError::Ended)?;
            match errand {
                Errand::Record => {
                    (self.witness.record)(child, self.cgroup.as_ref()).map_err(RuntimeError::Refused)?;
                }
                Errand::Hooks => {
                    if !matches!(self.hear()?, Event::Ready) {
                        return Err(self.end());
                    }
                    (self.witness.hooks)().map_err(RuntimeError::Refused)?;
                }
                other => own.run(other, child, &mut self.cgroup, &mut made, self.witness.warn)?,
            }
            if let (Errand::Root(_), Some(tree)) = (errand, &made.tree) {
                (self.witness.root)(tree.as_fd()).map_err(RuntimeError::Refused)?;
            }
            if let (Errand::Network, Some(network)) = (errand, &made.network) {
                (self.witness.network)(network.as_fd()).map_err(RuntimeError::Refused)?;
            }
        }
        Ok(made)
    }

    /// Returns the next event that does not carry a descriptor for the witness.
    fn hear(&mut self) -> Result<Event, RuntimeError> {
        loop {
            match self.child()?.event().map_err(RuntimeError::Wait)? {
                Event::Console(master) => (self.witness.console)(master).map_err(RuntimeError::Refused)?,
                Event::Failed { op, errno, text } => {
                    return Err(RuntimeError::of_step(self.creation.plan, op, errno, text));
                }
                Event::Seccomp(fd) => (self.witness.listener)(fd).map_err(RuntimeError::Refused)?,
                Event::Without { op, errno } => {
                    (self.witness.warn)(crate::error::without(self.creation.plan, op, errno));
                }
                Event::Descended(pid) => {
                    let child = self.child.as_mut().ok_or(RuntimeError::Ended)?;
                    child.descend(pid).map_err(RuntimeError::Wait)?;
                }
                event => return Ok(event),
            }
        }
    }

    /// Returns the child's own report if there is one: an errand for a process that has failed fails as well.
    fn reason(&mut self, error: RuntimeError) -> RuntimeError {
        let reported = self.child.as_ref().is_some_and(|child| {
            let mut fds = [PollFd::from_borrowed_fd(child.channel(), PollFlags::IN)];
            let now = Timespec {
                tv_sec: 0,
                tv_nsec: 0,
            };
            poll(&mut fds, Some(&now)) == Ok(1)
        });
        match reported.then(|| self.hear()) {
            Some(Err(step @ (RuntimeError::Step(_) | RuntimeError::Hook { .. }))) => step,
            _ => error,
        }
    }

    /// Returns the reason why a process has gone without a report.
    fn end(&self) -> RuntimeError {
        let killed = self.child.as_ref().and_then(|child| {
            let status = waitid(
                WaitId::PidFd(child.pidfd.as_fd()),
                WaitIdOptions::EXITED | WaitIdOptions::NOWAIT,
            );
            status.ok().flatten()?.terminating_signal()
        });
        killed.map_or(RuntimeError::Ended, RuntimeError::Killed)
    }

    fn undo(&mut self) {
        if let Err(error) = undo(self.child.as_ref(), self.cgroup.take().as_ref()) {
            (self.witness.stays)();
            (self.witness.warn)(format!("the container's cgroup stays behind: {error}"));
        }
    }
}

impl Created {
    /// Kills the container, and removes its cgroup.
    ///
    /// # Errors
    /// Those of the removal; the cgroup stays behind.
    pub fn undo(self) -> Result<(), tote_cgroup::Error> {
        undo(Some(&self.child), self.cgroup.as_ref())
    }
}

fn undo(child: Option<&Child>, cgroup: Option<&Cgroup>) -> Result<(), tote_cgroup::Error> {
    if let Some(child) = child {
        // ESRCH: the process has ended already, like one that reported a failure.
        best_effort(pidfd_send_signal(&child.pidfd, Signal::KILL));
        while let Err(Errno::INTR) = waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED) {}
    }
    let Some(cgroup) = cgroup else { return Ok(()) };
    best_effort(cgroup.kill_all());
    cgroup.remove()
}
