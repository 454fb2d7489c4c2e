//! A process on its way to its program: born, led through the gates of its plan, and listened to.

use crate::errand::{self, Errands, Made};
use crate::{Refusal, RuntimeError};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::OwnedFd;
use tote_cgroup::Cgroup;
use tote_sandbox::Errand;
use tote_sys::{Child, Errno, Event, Sealing, Wait, Way};

/// Process that is becoming a container, or part of one, with the cgroup that was made for it.
pub(crate) struct Newborn<'a> {
    pub(crate) errands: Errands<'a>,
    pub(crate) child: Option<Child>,
    pub(crate) cgroup: Option<Cgroup>,
    /// Its user namespace, where that has to be opened before the process goes on.
    owner: Option<OwnedFd>,
    /// Number of gates that were open at the birth.
    opened: usize,
    /// True if the process has yet to name its descendant. It does so once: afterwards others could send such an event.
    pub(crate) descends: bool,
}

/// Party that the parent's part of a birth is told to.
pub(crate) trait Attendant {
    /// Takes a warning of one line about something that the process has to do without.
    fn warn(&mut self) -> &mut dyn FnMut(String);

    /// Does the part of an errand that is not the same for all births. `made` has what came of the other part.
    fn attend(&mut self, errand: &Errand, newborn: &mut Newborn<'_>, made: &Made)
    -> Result<(), RuntimeError>;
}

impl<'a> Newborn<'a> {
    pub(crate) fn new(errands: Errands<'a>) -> Self {
        Self {
            errands,
            child: None,
            cgroup: None,
            owner: None,
            opened: 0,
            descends: errands.plan.descends(),
        }
    }

    /// Clones the process. A cgroup v2 is made before, so that the process is born in it; a v1 cgroup is made
    /// afterwards, while the new process already has work to do.
    pub(crate) fn bear(
        &mut self,
        how: (Option<&Sealing>, bool),
        way: Way,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), RuntimeError> {
        if let Some(groups) = self.errands.cgroup.filter(|groups| groups.uses_v2()) {
            self.cgroup = Some(crate::cgroup::create(groups, warn)?);
        }
        self.child = Some(errand::bear(
            self.errands.plan,
            self.cgroup.as_ref(),
            how,
            way,
            &[],
        )?);
        Ok(())
    }

    pub(crate) fn child(&self) -> Result<&Child, RuntimeError> {
        self.child.as_ref().ok_or(RuntimeError::Wait(Errno::CHILD))
    }

    /// Tells of the process and its cgroup, as [`Observer::born`](crate::Observer::born) wants it.
    pub(crate) fn tell(&self, born: &mut dyn FnMut(u32, Option<String>)) -> Result<(), RuntimeError> {
        born(self.child()?.pid, self.cgroup.as_ref().map(Cgroup::record));
        Ok(())
    }

    /// Does the errands of the first gates before the birth, and returns what was made for each of them.
    pub(crate) fn open_gates(&mut self, warn: &mut dyn FnMut(String)) -> Result<Vec<Made>, RuntimeError> {
        let made = self.errands.run_before(&mut self.cgroup, warn)?;
        self.opened = made.len();
        Ok(made)
    }

    /// Does the parent's errands for each gate of the plan that is not open yet, and opens it.
    pub(crate) fn pass_gates(&mut self, attendant: &mut dyn Attendant) -> Result<(), RuntimeError> {
        let plan = self.errands.plan;
        for errands in plan.gates.iter().skip(self.opened) {
            let made = match self.run(errands, attendant) {
                Ok(made) => made,
                Err(error) => return Err(self.reported(attendant).unwrap_or(error)),
            };
            made.hand_over(self.child()?)?;
        }
        Ok(())
    }

    fn run(&mut self, errands: &[Errand], attendant: &mut dyn Attendant) -> Result<Made, RuntimeError> {
        let mut made = Made::default();
        for errand in errands {
            let child = self.child.as_ref().ok_or(RuntimeError::Ended)?;
            let own = self.errands;
            let kept = (&mut self.cgroup, &mut self.owner);
            own.run(errand, child, kept, &mut made, attendant.warn())?;
            attendant.attend(errand, self, &made)?;
        }
        Ok(made)
    }

    /// Returns the next event that tells more than a warning. The process's number is that of its descendant from the
    /// event about it on.
    pub(crate) fn hear(&mut self, warn: &mut dyn FnMut(String)) -> Result<Event, RuntimeError> {
        loop {
            match self.child()?.event().map_err(RuntimeError::Wait)? {
                Event::Failed { op, errno, text } => {
                    return Err(RuntimeError::of_step(self.errands.plan, op, errno, text));
                }
                Event::Without { op, errno } => warn(crate::error::without(self.errands.plan, op, errno)),
                Event::Descended(pid) if self.descends => {
                    self.descends = false;
                    let child = self.child.as_mut().ok_or(RuntimeError::Ended)?;
                    child.descend(pid).map_err(RuntimeError::Wait)?;
                    return Ok(Event::Descended(pid));
                }
                Event::Descended(_) => {}
                event => return Ok(event),
            }
        }
    }

    /// Returns the process's own report of a failure if there is one: an errand for a process that has failed fails as
    /// well, with an error that tells less.
    fn reported(&mut self, attendant: &mut dyn Attendant) -> Option<RuntimeError> {
        loop {
            let mut fds = [PollFd::from_borrowed_fd(
                self.child.as_ref()?.channel(),
                PollFlags::IN,
            )];
            let is_there = Wait::now().poll(&mut fds) == Ok(1);
            match is_there.then(|| self.hear(attendant.warn()))? {
                Err(step @ (RuntimeError::Step(_) | RuntimeError::Hook { .. })) => return Some(step),
                // The end of the channel is readable for ever.
                Err(_) | Ok(Event::Exec) => return None,
                Ok(_) => {}
            }
        }
    }
}

/// Turns the answer of a function that may refuse into a result of the birth.
pub(crate) fn agreed(answer: Result<(), Refusal>) -> Result<(), RuntimeError> {
    answer.map_err(RuntimeError::Refused)
}
