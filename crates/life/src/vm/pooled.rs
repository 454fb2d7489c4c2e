//! A machine of a pool, which is up and waits for the program of its container.
//!
//! The attendant has the part of a parked process ([`tote_sys::Park`]): it waits for a taker, whose program it puts into the plan that
//! was made with the sandbox. Keeper and taker notice no difference.

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use tote_sandbox::{Plan, Substitute};
use tote_sys::{Errno, Given, Parked, best_effort};
use tote_vmm::{Bringer, VmmError};

/// The plan without its program, and the way to the taker.
#[derive(Debug)]
pub(crate) struct Pooled {
    plan: Vec<u8>,
    parked: Option<Parked>,
    /// Channel to the keeper, whose end tells it that the program runs.
    channel: Option<OwnedFd>,
}

impl Pooled {
    /// Takes the plan, if this is the attendant of such a machine; returns it otherwise.
    pub(crate) fn own(plan: Vec<u8>) -> Result<Self, Vec<u8>> {
        match Parked::own() {
            None => Err(plan),
            parked => Ok(Self {
                plan,
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
