//! Attendance of a program in a sandbox that was parked: it is a child of the sandbox's keeper, which reports how it
//! ends.

use crate::step::{Step, StepKind};
use crate::wait::Waiting;
use crate::{Attendance, Outcome, RuntimeError};
use rustix::fd::AsFd;
use rustix::process::Signal;
use std::time::{Duration, Instant};
use tote_sys::{Event, Taking, best_effort};

/// Result of an attempt to take a sandbox.
#[derive(Debug)]
pub enum Attended {
    /// Another taker has it.
    Lost,
    /// The program could not be run.
    Failed(Step),
    /// The program has ended; the number is that of its processes which were killed for want of memory.
    Ended(Outcome, u64),
    /// The keeper was killed, and the sandbox with it.
    Orphaned,
}

/// Stage on the way to that result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The sandbox belongs to this taker, and has received the letter.
    Taken,
    /// The program runs.
    Began,
    /// The program has run for a moment, or has ended: work done now takes no time from its start.
    Settled,
}

/// Time for which a program has the processors to itself at first.
const MOMENT: Duration = Duration::from_millis(1);

/// Attends a sandbox to which a program was brought until the program has ended and its output has been passed on.
///
/// # Errors
/// poll(2)'s and recvmsg(2)'s.
pub fn attend_taken(
    attendance: &mut Attendance,
    taking: &Taking,
    (program, timeout): (&str, Option<Duration>),
    reached: &mut dyn FnMut(Moment),
) -> Result<Attended, RuntimeError> {
    let mut stay = Stay {
        attendance,
        taking,
        deadline: timeout.map(|timeout| Instant::now() + timeout),
        settles: None,
        is_ours: false,
        is_unread: false,
        failure: None,
        is_over: false,
    };
    loop {
        if let Some(end) = stay.turn(program, reached)? {
            if stay.settles.is_some() {
                reached(Moment::Settled);
            }
            if !matches!(end, Attended::Lost) {
                stay.attendance.stdio.drain();
            }
            return Ok(end);
        }
    }
}

struct Stay<'a> {
    attendance: &'a mut Attendance,
    taking: &'a Taking,
    deadline: Option<Instant>,
    /// Time of [`Moment::Settled`], once the program runs.
    settles: Option<Instant>,
    is_ours: bool,
    /// True if the letter was not read completely.
    is_unread: bool,
    failure: Option<Step>,
    /// True if its time limit was reached.
    is_over: bool,
}

impl Stay<'_> {
    fn turn(
        &mut self,
        program: &str,
        reached: &mut dyn FnMut(Moment),
    ) -> Result<Option<Attended>, RuntimeError> {
        let woken = self.attendance.stdio.wait(&Waiting {
            process: self.taking.as_fd(),
            signals: self.attendance.signals.as_fd(),
            asides: &[],
            channel: None,
            until: self.deadline.into_iter().chain(self.settles).min(),
        })?;
        if woken.signal {
            // A keeper that is gone says so on the connection.
            let taking = self.taking;
            let send = |signal: Signal| best_effort(taking.signal(signal.as_raw()));
            self.attendance.forward(&send)?;
        }
        self.attendance.stdio.advance(&woken);
        if self.settles.is_some_and(|moment| Instant::now() >= moment) {
            self.settles = None;
            reached(Moment::Settled);
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            (self.deadline, self.is_over) = (None, true);
            best_effort(self.taking.signal(Signal::KILL.as_raw()));
        }
        if woken.process {
            self.hear(program, reached)
        } else {
            Ok(None)
        }
    }

    fn hear(
        &mut self,
        program: &str,
        reached: &mut dyn FnMut(Moment),
    ) -> Result<Option<Attended>, RuntimeError> {
        let event = self.taking.event().map_err(RuntimeError::Wait)?;
        if matches!(event, Event::Unread) {
            self.is_unread = true;
            return Ok(None);
        }
        let is_lost = matches!(event, Event::Exec) && self.is_unread;
        if !self.is_ours && !is_lost {
            self.is_ours = true;
            reached(Moment::Taken);
        }
        match event {
            Event::Console(master) => self.attendance.take_console(master)?,
            Event::Failed { op, errno, text } => {
                let program = (op == Event::PROGRAM).then(|| program.to_owned());
                self.failure = Some(Step {
                    words: "take over the sandbox".to_owned(),
                    kind: if op == Event::PROGRAM {
                        StepKind::Execute
                    } else {
                        StepKind::Other
                    },
                    mounting: None,
                    errno,
                    text,
                    program,
                });
            }
            Event::Began => {
                self.settles = Some(Instant::now() + MOMENT);
                reached(Moment::Began);
            }
            Event::Ended { .. } if self.failure.is_some() => {
                return Ok(self.failure.take().map(Attended::Failed));
            }
            Event::Ended { ooms, .. } if self.is_over => {
                return Ok(Some(Attended::Ended(Outcome::TimedOut, ooms)));
            }
            Event::Ended {
                status,
                signaled,
                ooms,
            } => {
                let outcome = if signaled {
                    Outcome::Signaled(status)
                } else {
                    Outcome::Exited(status)
                };
                return Ok(Some(Attended::Ended(outcome, ooms)));
            }
            Event::Exec if self.is_ours => return Ok(Some(Attended::Orphaned)),
            Event::Exec => return Ok(Some(Attended::Lost)),
            // A warning that the container has to do without something is ignored.
            _ => {}
        }
        Ok(None)
    }
}
