//! A container that lives as long as the command that started it.

use crate::caller_signals::{CallerSignals, Wish};
use crate::errand::{self, Errands, Made};
use crate::newborn::{Attendant, Newborn};
use crate::outcome::{Aside, Ended, Leave, Left, Observer, Outcome, Parting, tell_listener};
use crate::relay::Copy;
use crate::wait::{Waiting, Woken, follow_size};
use crate::{DetachKeys, Maps, RuntimeError, Stdio, Timings};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::{Signal, pidfd_send_signal};
use std::time::{Duration, Instant};
use tote_cgroup::Cgroup;
use tote_sandbox::{Errand, Plan};
use tote_sys::{ComingNetwork, Errno, Event, Sealing, Way, best_effort};

/// Container to run, and how to watch it.
#[derive(Debug)]
pub struct Foreground<'a> {
    /// Plan of the new process.
    pub plan: &'a Plan,
    /// Cgroup to make for the process.
    pub cgroup: Option<&'a tote_cgroup::Plan>,
    /// Maps of its user namespace, unless it writes them itself.
    pub maps: Option<&'a Maps>,
    /// Network namespace, if another process is making it already.
    pub network: Option<&'a ComingNetwork>,
    /// Caller's ends of its standard descriptors.
    pub stdio: Stdio,
    /// True if input goes to its console.
    pub interactive: bool,
    /// True if its console's size follows the caller's terminal.
    pub follow_size: bool,
    /// Upper bound of its lifetime.
    pub timeout: Option<Duration>,
    /// Upper bound of its processor time.
    pub cpu_time: Option<Duration>,
    /// Other things to look after meanwhile.
    pub asides: Vec<&'a mut dyn Aside>,
    /// True if the caller may leave before the container ends; the plan must be one that [`may_be_left`].
    pub guarded: bool,
    /// Keys by which the user at the console leaves a guarded container.
    pub keys: Option<DetachKeys>,
}

/// True if the process of a plan can have a guardian for its parent, so that the caller can leave before it ends.
#[must_use]
pub fn may_be_left(plan: &Plan) -> bool {
    let joins = plan.pid_namespace.is_some() || plan.user_namespace.is_some() || !plan.join.is_empty();
    !joins && !plan.descends()
}

/// Runs the container to its end, or until another process watches it.
///
/// # Errors
/// [`RuntimeError`]; the process and its cgroup have been removed then.
pub fn run(
    foreground: Foreground<'_>,
    timings: Option<&mut Timings>,
    observer: Observer<'_>,
) -> Result<Parting, RuntimeError> {
    let seal = crate::seal::for_newborn(foreground.plan)?;
    let mut signals = CallerSignals::new(foreground.follow_size)?;
    let mut timings = timings;
    if let Some(timings) = &mut timings {
        timings.mark("parent: prepare");
    }
    let errands = Errands {
        plan: foreground.plan,
        cgroup: foreground.cgroup,
        joined: None,
        maps: foreground.maps,
        network: foreground.network,
    };
    let mut watch = Watch {
        newborn: Newborn::new(errands),
        console: None,
        program_runs: false,
        leave: None,
        foreground,
        observer,
    };
    let result = watch
        .start(seal.as_ref(), timings.as_deref_mut())
        .and_then(|()| watch.through(&mut signals, &mut timings));
    if let Ok(Stop::Left(leave)) = result {
        return Ok(Parting::Left(leave));
    }
    if watch.newborn.child.is_none() {
        watch.remove_cgroup();
        return Err(result.err().unwrap_or(RuntimeError::Clone(Errno::CHILD)));
    }
    let (ended, ooms) = (watch.end(), watch.ooms());
    if let Some(timings) = &mut timings {
        watch.step_times(timings);
        timings.mark("parent: wait for its end");
    }
    watch.remove_cgroup();
    if let Some(timings) = &mut timings {
        timings.mark("parent: remove the cgroup");
    }
    let outcome = match (result?, ended?) {
        (Stop::Made(outcome), _) => outcome,
        (_, ended) => ended,
    };
    match outcome {
        Outcome::Signaled(signal) if !watch.program_runs => Err(RuntimeError::Killed(signal)),
        outcome => Ok(Parting::Ended(Ended {
            outcome,
            ooms,
            broken: watch.foreground.stdio.broken(),
        })),
    }
}

/// Parties that are told of the parent's errands in the foreground.
struct Beside<'a, 'b, 't> {
    asides: &'a mut [&'b mut dyn Aside],
    born: &'a mut dyn FnMut(u32, Option<String>),
    warn: &'a mut dyn FnMut(String),
    timings: &'a mut Option<&'t mut Timings>,
}

impl Attendant for Beside<'_, '_, '_> {
    fn warn(&mut self) -> &mut dyn FnMut(String) {
        self.warn
    }

    fn attend(
        &mut self,
        errand: &Errand,
        newborn: &mut Newborn<'_>,
        made: &Made,
    ) -> Result<(), RuntimeError> {
        errand::tell(errand, made, self.asides, self.warn);
        if *errand == Errand::Record {
            newborn.tell(self.born)?;
        }
        if let Some(timings) = self.timings {
            timings.mark(errand::words(errand));
        }
        Ok(())
    }
}

/// Reason why the wait is over.
enum Stop {
    /// The container has ended by itself.
    Ended,
    /// The container has to end, with this outcome.
    Made(Outcome),
    /// Another process watches the container now.
    Left(Leave),
}

/// Resources that exist while the process does. [`Watch::end`] clears them, whatever happened.
struct Watch<'a, 'o> {
    observer: Observer<'o>,
    newborn: Newborn<'a>,
    console: Option<OwnedFd>,
    program_runs: bool,
    /// Reason why another process has to watch it, as soon as nothing is on the way between it and the caller.
    leave: Option<Leave>,
    foreground: Foreground<'a>,
}

impl Watch<'_, '_> {
    fn start(&mut self, seal: Option<&Sealing>, timings: Option<&mut Timings>) -> Result<(), RuntimeError> {
        let how = (seal, timings.is_some());
        let way = if self.foreground.guarded {
            Way::Guarded
        } else {
            Way::Copied
        };
        self.newborn.bear(how, way, self.observer.warn)?;
        if let Some(timings) = timings {
            timings.mark("parent: clone the process");
        }
        Ok(())
    }

    /// Does the parent's part of the start and then waits; returns the outcome if this side caused it.
    fn through(
        &mut self,
        signals: &mut CallerSignals,
        timings: &mut Option<&mut Timings>,
    ) -> Result<Stop, RuntimeError> {
        let mut beside = Beside {
            asides: &mut self.foreground.asides,
            born: self.observer.born,
            warn: self.observer.warn,
            timings,
        };
        self.newborn.pass_gates(&mut beside)?;
        if self.foreground.plan.awaits_record() {
            tote_sys::settle_seal();
        } else if !self.foreground.plan.descends() {
            self.tell_born()?;
        }
        self.wait(signals)
    }

    fn tell_born(&mut self) -> Result<(), RuntimeError> {
        self.newborn.tell(self.observer.born)?;
        tote_sys::settle_seal();
        Ok(())
    }

    fn wait(&mut self, signals: &mut CallerSignals) -> Result<Stop, RuntimeError> {
        let begin = Instant::now();
        let mut cpu_check = self.foreground.cpu_time;
        loop {
            let deadline = self.foreground.timeout.map(|timeout| begin + timeout);
            let next = [deadline, cpu_check.map(|check| begin + check)]
                .into_iter()
                .flatten()
                .min();
            let woken = self.sleep(signals, next)?;
            if woken.channel {
                self.hear()?;
            }
            if woken.signal && self.forward(signals)? {
                return Ok(Stop::Made(Outcome::Insisted));
            }
            self.advance(&woken);
            if self.foreground.stdio.exceeds_limit() {
                return Ok(Stop::Made(Outcome::OutputOver));
            }
            if woken.process && !woken.channel {
                return Ok(Stop::Ended);
            }
            if let Some(leave) = self.hand_over(deadline) {
                return Ok(Stop::Left(leave));
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(Stop::Made(Outcome::TimedOut));
            }
            if cpu_check.is_some_and(|check| now >= begin + check) {
                match self.cpu_time_left() {
                    Some(Duration::ZERO) => return Ok(Stop::Made(Outcome::CpuTimeOver)),
                    Some(left) => cpu_check = Some(now - begin + soonest(left)),
                    None => cpu_check = None,
                }
            }
        }
    }

    fn advance(&mut self, woken: &Woken) {
        let stdio = &mut self.foreground.stdio;
        stdio.advance(woken);
        if stdio.is_left() {
            self.leave = Some(Leave::Keys);
        }
        if woken.aside {
            let asked = self.foreground.asides.iter_mut().map(|aside| aside.advance());
            match asked.fold(false, |asked, is_one| asked | is_one) {
                true if self.foreground.guarded => _ = self.leave.get_or_insert(Leave::Asked),
                true => self.foreground.asides.iter_mut().for_each(|aside| aside.refuse()),
                false => {}
            }
        }
    }

    /// Lets another process watch the container if that is wanted and the program runs; returns the reason.
    fn hand_over(&mut self, deadline: Option<Instant>) -> Option<Leave> {
        let leave = self
            .leave
            .filter(|_| self.program_runs && self.foreground.guarded)?;
        let is_gone = leave == Leave::Hangup;
        if !is_gone && self.foreground.stdio.copies.iter().any(|copy| !copy.is_empty()) {
            return None;
        }
        let mut left = Some(Left {
            child: self.newborn.child.take()?,
            cgroup: self.newborn.cgroup.take(),
            console: self.console.take(),
            timeout: deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
            output: self.foreground.stdio.output_left(),
        });
        self.foreground.asides.iter_mut().for_each(|aside| aside.leave());
        let gone = (self.observer.leave)(&mut left, leave);
        let Err(reason) = gone else { return Some(leave) };
        (self.observer.warn)(reason);
        self.leave = None;
        self.foreground.asides.iter_mut().for_each(|aside| aside.stay());
        self.foreground.stdio.copies.iter_mut().for_each(Copy::stay);
        if let Some(left) = left {
            (self.newborn.child, self.newborn.cgroup) = (Some(left.child), left.cgroup);
            self.console = left.console;
        }
        None
    }

    fn sleep(&self, signals: &CallerSignals, until: Option<Instant>) -> Result<Woken, RuntimeError> {
        let child = self.newborn.child()?;
        let asides = self.foreground.asides.iter();
        let asides: Vec<_> = asides.flat_map(|aside| aside.fds()).collect();
        self.foreground.stdio.wait(&Waiting {
            process: child.pidfd.as_fd(),
            signals: signals.as_fd(),
            asides: &asides,
            channel: (!self.program_runs).then(|| child.channel()),
            until,
        })
    }

    fn hear(&mut self) -> Result<(), RuntimeError> {
        match self.newborn.hear(self.observer.warn)? {
            Event::Console(master) => {
                self.foreground
                    .stdio
                    .console(&master, self.foreground.interactive, self.foreground.keys.take())
                    .map_err(|source| RuntimeError::Terminal {
                        attempt: "use the container's console",
                        source,
                    })?;
                self.console = Some(master);
            }
            Event::Seccomp(listener) => tell_listener(&mut self.foreground.asides, listener)?,
            Event::Exec => {
                self.program_runs = true;
                for aside in &mut self.foreground.asides {
                    if let Err(warning) = aside.begin() {
                        (self.observer.warn)(warning);
                    }
                }
                (self.observer.runs)();
            }
            Event::Descended(_) => self.tell_born()?,
            // A knock needs no answer here, and messages about later starts do not come from a container in the
            // foreground.
            _ => {}
        }
        Ok(())
    }

    /// Passes signals on; true if the caller insists on the end.
    fn forward(&mut self, signals: &mut CallerSignals) -> Result<bool, RuntimeError> {
        while let Some(wish) = signals.next()? {
            match wish {
                Wish::Resize => follow_size(self.console.as_ref()),
                // docker's behaviour: a closed window detaches, and the container goes on.
                Wish::Forward(Signal::HUP) if self.foreground.guarded => self.leave = Some(Leave::Hangup),
                // A process that has just ended needs no signal.
                Wish::Forward(signal) => best_effort(pidfd_send_signal(&self.newborn.child()?.pidfd, signal)),
                Wish::Insist => return Ok(true),
            }
        }
        Ok(false)
    }

    fn cpu_time_left(&self) -> Option<Duration> {
        let used = match &self.newborn.cgroup {
            Some(cgroup) if cgroup.counts_cpu() => Duration::from_nanos(cgroup.cpu_usage()),
            _ => crate::cpu::of_tree(self.newborn.child.as_ref()?.pid),
        };
        self.foreground.cpu_time.map(|limit| limit.saturating_sub(used))
    }

    /// Kills the process if it still runs, reaps it, and copies the last of its output.
    fn end(&mut self) -> Result<Outcome, RuntimeError> {
        let child = self.newborn.child()?;
        // ESRCH: the process has ended already, which is the usual case.
        best_effort(pidfd_send_signal(&child.pidfd, Signal::KILL));
        let status = child.reap().map_err(RuntimeError::Wait)?;
        self.foreground.stdio.drain();
        for aside in &mut self.foreground.asides {
            aside.advance();
            aside.end(self.newborn.cgroup.as_ref());
        }
        // The rest in its pipes counts, too: whether the limit ends it or it ends itself is not a matter of time.
        Ok(if self.foreground.stdio.exceeds_limit() {
            Outcome::OutputOver
        } else {
            status.into()
        })
    }

    fn ooms(&self) -> u64 {
        self.newborn.cgroup.as_ref().map_or(0, Cgroup::oom_kills)
    }

    fn step_times(&self, timings: &mut Timings) {
        let Some(child) = &self.newborn.child else { return };
        for (op, at) in self
            .foreground
            .plan
            .ops
            .iter()
            .zip(child.timings())
            .filter(|(_, at)| *at != 0)
        {
            timings.mark_at(tote_sandbox::describe(op).to_string(), at);
        }
    }

    fn remove_cgroup(&mut self) {
        if let Some(cgroup) = self.newborn.cgroup.take()
            && let Err(error) = cgroup.remove()
        {
            (self.observer.stays)();
            (self.observer.warn)(format!(
                "the container's cgroup stays behind until the next command: {error}"
            ));
        }
    }
}

/// Returns the shortest time in which this much processor time can be used up, with every processor at work.
fn soonest(left: Duration) -> Duration {
    let processors =
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    (left / processors).max(Duration::from_millis(5))
}
