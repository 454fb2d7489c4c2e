//! A machine of a pool, which is up and waits for the program of its container.
//!
//! The attendant has the part of a parked process ([`tote_sys::Park`]): it waits for a taker, whose program it puts into the plan that
//! was made with the sandbox. Keeper and taker notice no difference.

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use tote_sandbox::{Plan, Substitute};
use tote_sys::{Errno, Exec, Given, Parked, Program, best_effort};
use tote_vmm::{Bringer, Machine, VmmError};

/// The plan without its program, and the way to the taker.
#[derive(Debug)]
pub(crate) struct Pooled {
    plan: Vec<u8>,
    /// True if nothing of a plan but its process is left when that has ended.
    leaves_nothing: bool,
    parked: Option<Parked>,
    /// Channel to the keeper, whose end tells it that the program runs.
    channel: Option<OwnedFd>,
}

impl Pooled {
    /// Takes the plan, if this is the attendant of such a machine; returns it otherwise.
    pub(crate) fn own(plan: Vec<u8>, machine: &Machine) -> Result<Self, Vec<u8>> {
        match Parked::own() {
            None => Err(plan),
            parked => Ok(Self {
                plan,
                // A link comes back only a while after the end of the namespace that had it, and volumes keep what is done to them.
                leaves_nothing: machine.links.is_empty()
                    && machine.shares.is_none()
                    && machine.disks.iter().all(|disk| disk.readonly),
                parked,
                channel: None,
            }),
        }
    }
}

impl Bringer for Pooled {
    fn comes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.parked.as_ref()?.as_fd())
    }

    fn rehearsal(&self) -> Option<Vec<u8>> {
        let mut plan = Plan::from_bytes(&self.plan, Vec::new())
            .ok()
            .filter(|_| self.leaves_nothing)?;
        // Its last step, and nothing else, fails: no kernel executes a directory.
        plan.replace_program(Substitute {
            exec: Exec {
                file: None,
                candidates: vec![c"/".into()],
                program: Program::new(vec![c"/".into()], Vec::new()),
                never: None,
            },
            cwd: None,
            terminal: None,
            has_input: false,
        });
        Some(plan.to_bytes().bytes)
    }

    fn ready(&mut self) -> Result<(), VmmError> {
        self.parked.as_ref().map_or(Ok(()), |parked| {
            let told = parked.ready();
            told.map_err(|source| failed("tell the keeper of the pool that the machine is ready", source))
        })
    }

    fn bring(&mut self) -> Result<Option<Vec<u8>>, VmmError> {
        let taken = self.parked.take().map(Parked::take).transpose();
        let taken = taken.map_err(|source| failed("take the program of the pool's container", source))?;
        let Some(given) = taken.flatten() else {
            return Ok(None);
        };
        let Given {
            exec,
            cwd,
            terminal,
            has_input,
            channel,
        } = given;
        self.channel = Some(channel);
        let plan = Plan::from_bytes(&self.plan, Vec::new());
        let mut plan = plan.map_err(|_| failed("read the plan of the pool's container", Errno::PROTO))?;
        plan.replace_program(Substitute {
            exec,
            cwd,
            terminal,
            has_input,
        });
        Ok(Some(plan.to_bytes().bytes))
    }

    fn failed(&mut self, reason: &str) {
        if let Some(parked) = &self.parked {
            // A keeper that has gone needs no reason.
            best_effort(parked.failed(reason));
        }
    }
}

fn failed(attempt: &'static str, source: Errno) -> VmmError {
    VmmError::Kernel { attempt, source }
}
