//! A new process in a container, for a caller that has other things to wait for as well.

use crate::RuntimeError;
use crate::errand;
use crate::exec::may_share;
use crate::newborn::hear;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd as _, BorrowedFd};
use tote_sandbox::Plan;
use tote_sys::{Child, Event, Op, Way, best_effort};

/// Messages that are heard at a time: processes of the container may have got hold of the other end.
const MOST: usize = 16;

/// Flag of a filter whose listener a parent has to take, linux/seccomp.h.
const NEW_LISTENER: u32 = 1 << 3;

/// A process in the container that is about to become its program.
#[derive(Debug)]
pub struct Entering {
    /// Its plan, whose operations up to [`Op::Descend`] are done and forgotten.
    plan: Plan,
    child: Child,
}

impl Entering {
    /// True for a plan whose process needs nothing of its parent.
    #[must_use]
    pub fn is_possible(plan: &Plan) -> bool {
        let asks = |op: &Op| match op {
            Op::Terminal { .. } => true,
            Op::Privilege(privilege) => {
                let flags = privilege.filter.as_ref().map_or(0, |(_, flags)| *flags);
                flags & NEW_LISTENER != 0
            }
            _ => false,
        };
        may_share(plan) && !plan.ops.iter().any(asks)
    }

    /// Makes the process, in the caller's memory until it is in the container, for which the caller waits; so the caller has no environment
    /// any more afterwards.
    ///
    /// # Errors
    /// [`RuntimeError`]; no process is left then.
    pub fn begin(plan: Plan, warn: &mut dyn FnMut(String)) -> Result<Self, RuntimeError> {
        crate::seal::seal_in_place()?;
        let child = errand::bear(&plan, None, (None, false), Way::Shared, &[])?;
        let mut entering = Self { plan, child };
        match entering.settle(warn) {
            Ok(()) => Ok(entering),
            Err(error) => {
                entering.child.kill();
                Err(error)
            }
        }
    }

    /// Takes what the process has said on its way. The one before it has ended, so its last message is there.
    fn settle(&mut self, warn: &mut dyn FnMut(String)) -> Result<(), RuntimeError> {
        let (mut descends, mut failure) = (true, None);
        while descends && self.has_said() {
            match hear(&self.plan, &mut self.child, &mut descends, warn) {
                // The one in the container may have failed before the other one names it.
                Err(step @ (RuntimeError::Step(_) | RuntimeError::Hook { .. })) => failure = Some(step),
                Err(error) => return Err(error),
                Ok(Event::Exec) => break,
                Ok(_) => {}
            }
        }
        match failure {
            Some(failure) => return Err(failure),
            None if descends => return Err(RuntimeError::Ended),
            None => {}
        }
        let last = self
            .plan
            .ops
            .iter()
            .position(|op| matches!(op, Op::Descend { .. }));
        // Descriptors that they had are the new process's alone. The others keep their numbers.
        self.plan.ops[..last.unwrap_or_default()].fill_with(|| Op::Ready);
        Ok(())
    }

    /// Returns whether the process has become its program, once that is known. What it had to do without it has said before.
    pub fn outcome(&mut self) -> Option<Result<(), RuntimeError>> {
        for _ in 0..MOST {
            if !self.has_said() {
                return None;
            }
            match hear(&self.plan, &mut self.child, &mut false, &mut |_| {}) {
                Err(error) => return Some(Err(error)),
                Ok(Event::Exec) => return Some(Ok(())),
                Ok(_) => {}
            }
        }
        None
    }

    fn has_said(&self) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.child.channel(), PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&now)) == Ok(1)
    }

    /// Returns the descriptor that is readable when [`Entering::outcome`] has more to say.
    #[must_use]
    pub fn channel(&self) -> BorrowedFd<'_> {
        self.child.channel()
    }

    /// Returns the process: its pid, and its pidfd. The caller is its parent.
    #[must_use]
    pub fn process(&self) -> (u32, BorrowedFd<'_>) {
        (self.child.pid, self.child.pidfd.as_fd())
    }

    /// Has the process end.
    pub fn kill(&self) {
        // One that has ended needs no signal.
        best_effort(rustix::process::pidfd_send_signal(
            &self.child.pidfd,
            rustix::process::Signal::KILL,
        ));
    }
}
