//! A container with a life of its own: born up to its start gate, or up to its program, and then left alone.

use crate::errand::{Errands, Made};
use crate::newborn::{Attendant, Newborn, agreed};
use crate::patience::Patience;
use crate::step::{Step, StepKind};
use crate::{Maps, Refusal, RuntimeError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal};
use tote_cgroup::Cgroup;
use tote_sandbox::{Errand, Plan};
use tote_sys::{Child, ComingNetwork, Errno, Event, Starting, Wait, Way, best_effort};

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
    /// Records the process, which does nothing irrevocable before. If it descends it is recorded once more, by its last number.
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
pub fn create(creation: Creation<'_>, mut witness: Witness<'_>) -> Result<Created, RuntimeError> {
    crate::seal::seal_in_place()?;
    let Creation {
        plan,
        cgroup,
        maps,
        network,
    } = creation;
    let mut newborn = Newborn::new(Errands {
        plan,
        cgroup,
        joined: None,
        maps,
        network,
    });
    let delivered = witness.deliver(&mut newborn);
    let Newborn { child, cgroup, .. } = newborn;
    match (delivered, child) {
        (Ok(()), Some(child)) => Ok(Created { child, cgroup }),
        (delivered, child) => {
            if let Err(error) = undo(child.as_ref(), cgroup.as_ref()) {
                (witness.stays)();
                (witness.warn)(format!("the container's cgroup stays behind: {error}"));
            }
            Err(delivered.err().unwrap_or(RuntimeError::Clone(Errno::CHILD)))
        }
    }
}

/// Makes a container as [`create`] does, for a caller who has no part in its making: `warn` gets the warnings, and `stays` is called if a cgroup
/// stays.
///
/// # Errors
/// Those of [`create`].
pub fn create_alone(
    creation: Creation<'_>,
    warn: &mut dyn FnMut(String),
    stays: &mut dyn FnMut(),
) -> Result<Created, RuntimeError> {
    let witness = Witness {
        record: &mut |_, _| Ok(()),
        network: &mut |_| Ok(()),
        hooks: &mut || Ok(()),
        root: &mut |_| Ok(()),
        console: &mut |_| Ok(()),
        listener: &mut |_| Ok(()),
        warn,
        stays,
    };
    create(creation, witness)
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
            // Only a hook that has run fails so; before the program there are those of one point.
            Event::Failed {
                errno: errno @ (Errno::CANCELED | Errno::TIMEDOUT),
                text,
                ..
            } => {
                return Err(RuntimeError::Hook {
                    name: "startContainer hook".to_owned(),
                    errno,
                    text,
                });
            }
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

impl Attendant for Witness<'_> {
    fn warn(&mut self) -> &mut dyn FnMut(String) {
        self.warn
    }

    fn attend(
        &mut self,
        errand: &Errand,
        newborn: &mut Newborn<'_>,
        made: &Made,
    ) -> Result<(), RuntimeError> {
        match (errand, &made.tree, &made.network) {
            (Errand::Record, ..) => agreed((self.record)(newborn.child()?, newborn.cgroup.as_ref())),
            (Errand::Hooks, ..) if !matches!(self.hear(newborn)?, Event::Ready) => Err(end(newborn)),
            (Errand::Hooks, ..) => agreed((self.hooks)()),
            (Errand::Root(_), Some(tree), _) => agreed((self.root)(tree.as_fd())),
            (Errand::Network, _, Some(network)) => agreed((self.network)(network.as_fd())),
            _ => Ok(()),
        }
    }
}

impl Witness<'_> {
    /// Brings the process to its start gate, or to its program if it has no such gate.
    fn deliver(&mut self, newborn: &mut Newborn<'_>) -> Result<(), RuntimeError> {
        let plan = newborn.errands.plan;
        newborn.bear((None, false), Way::Copied, self.warn)?;
        newborn.pass_gates(self)?;
        tote_sys::settle_seal();
        let waits = plan
            .ops
            .iter()
            .any(|op| matches!(op, tote_sys::Op::AwaitStart(_) | tote_sys::Op::Park(_)));
        let last = match plan.descends() {
            true => self.hear_descendant(newborn)?,
            false => self.hear(newborn)?,
        };
        match last {
            Event::Exec if waits => Err(end(newborn)),
            _ => Ok(()),
        }
    }

    /// Returns the next event of the process that goes on in another's PID namespace. That one may be quicker than its maker, which
    /// names it: what it says before waits until its number is known. Its neighbours may keep it from going on.
    fn hear_descendant(&mut self, newborn: &mut Newborn<'_>) -> Result<Event, RuntimeError> {
        let mut patience = Patience::until(None);
        let (mut early, mut failure, mut has_terminal) = (Vec::new(), None, false);
        while newborn.descends {
            if let Err(error) = patience.wait(newborn.child()?) {
                return Err(failure.unwrap_or(error));
            }
            match newborn.hear(self.warn) {
                // Its maker sends a terminal before it clones the process, which must not send one.
                Ok(Event::Console(master)) if !has_terminal => {
                    has_terminal = true;
                    agreed((self.console)(master))?;
                }
                Ok(Event::Descended(_)) => {}
                Ok(Event::Exec) => return Err(failure.unwrap_or_else(|| end(newborn))),
                Ok(event) => early.push(event),
                Err(step @ (RuntimeError::Step(_) | RuntimeError::Hook { .. })) => {
                    failure = Some(step);
                    patience.hurry();
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(failure) = failure {
            return Err(failure);
        }
        if newborn.errands.plan.awaits_record() {
            // Its number is another one now.
            agreed((self.record)(newborn.child()?, newborn.cgroup.as_ref()))?;
        }
        let mut early = early.into_iter();
        loop {
            let event = match early.next() {
                Some(event) => event,
                None => {
                    patience.wait(newborn.child()?)?;
                    newborn.hear(self.warn)?
                }
            };
            match event {
                Event::Console(_) => {}
                Event::Seccomp(fd) => agreed((self.listener)(fd))?,
                event => return Ok(event),
            }
        }
    }

    /// Returns the next event that does not carry a descriptor for the witness.
    fn hear(&mut self, newborn: &mut Newborn<'_>) -> Result<Event, RuntimeError> {
        loop {
            match newborn.hear(self.warn)? {
                Event::Console(master) => agreed((self.console)(master))?,
                Event::Seccomp(fd) => agreed((self.listener)(fd))?,
                event => return Ok(event),
            }
        }
    }
}

/// Returns the reason why a process has gone without a report.
fn end(newborn: &Newborn<'_>) -> RuntimeError {
    let killed = newborn.child.as_ref().and_then(|child| {
        let pidfd = child.pidfd.as_fd();
        // It closes its descriptors a moment before it can be reaped.
        best_effort(Wait::ending().readable(pidfd));
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        #[expect(clippy::disallowed_methods, reason = "it does not wait")]
        let status = rustix::process::waitid(WaitId::PidFd(pidfd), look);
        status.ok().flatten()?.terminating_signal()
    });
    killed.map_or(RuntimeError::Ended, RuntimeError::Killed)
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
        // One that the kernel holds up is left to the next sweep.
        best_effort(Wait::ending().reap(child.pidfd.as_fd()));
    }
    let Some(cgroup) = cgroup else { return Ok(()) };
    best_effort(cgroup.kill_all());
    cgroup.remove()
}
