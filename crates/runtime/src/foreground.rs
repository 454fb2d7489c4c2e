//! A container that lives as long as the command that started it.

use crate::caller_signals::{CallerSignals, Wish};
use crate::errand::{self, Errands, Made};
use crate::relay::Copy;
use crate::{BrokenStream, Maps, RuntimeError, Stdio, Step, Timings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::time::{Duration, Instant};
use tote_cgroup::Cgroup;
use tote_sandbox::{Errand, Plan};
use tote_sys::{Child, ComingNetwork, Errno, Event, Sealing, best_effort};

/// What to run and how to watch it.
#[derive(Debug)]
pub struct Foreground<'a> {
    /// What the new process does.
    pub plan: &'a Plan,
    /// The cgroup to make and put it into.
    pub cgroup: Option<&'a tote_cgroup::Plan>,
    /// The maps of its user namespace, where it does not write them itself.
    pub maps: Option<&'a Maps>,
    /// The network namespace, where it has been begun.
    pub network: Option<&'a ComingNetwork>,
    /// The caller's ends of its standard descriptors.
    pub stdio: Stdio,
    /// Whether input goes to its console.
    pub interactive: bool,
    /// Whether its console's size follows the caller's terminal.
    pub follow_size: bool,
    /// The longest it may live.
    pub timeout: Option<Duration>,
    /// The most processor time it may use.
    pub cpu_time: Option<Duration>,
    /// What else is looked after meanwhile.
    pub aside: Option<&'a mut dyn Aside>,
}

/// Something that is looked after while a container runs.
pub trait Aside: std::fmt::Debug {
    /// The container's program runs.
    ///
    /// # Errors
    /// A warning for people.
    fn begin(&mut self) -> Result<(), String>;

    /// What it waits for.
    fn fd(&self) -> Option<BorrowedFd<'_>>;

    /// Takes what can be read from that, and waits for nothing.
    fn advance(&mut self);
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// By itself, with this code.
    Exited(i32),
    /// By a signal.
    Signaled(i32),
    /// Its time was over.
    TimedOut,
    /// Its processor time was used up.
    CpuTimeOver,
    /// The caller was asked to end for the third time.
    Insisted,
}

/// Who is told what happens.
pub struct Observer<'a> {
    /// The process exists, and its cgroup: its id, and what [`Cgroup::open`] needs to find the other. It is not yet the
    /// program.
    pub born: &'a mut dyn FnMut(u32, Option<String>),
    /// It has become the program.
    pub runs: &'a mut dyn FnMut(),
    /// Something the container has to do without, in one line.
    pub warn: &'a mut dyn FnMut(String),
    /// Its cgroup could not be removed, and somebody must be able to find it later. This may follow an error as well.
    pub stays: &'a mut dyn FnMut(),
}

impl std::fmt::Debug for Observer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Observer")
    }
}

/// A container that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended {
    /// How.
    pub outcome: Outcome,
    /// How many of its processes the kernel killed for want of memory.
    pub ooms: u64,
    /// The caller's stream that failed meanwhile.
    pub broken: Option<BrokenStream>,
}

/// Runs it to its end.
///
/// # Errors
/// [`RuntimeError`]; the process and its cgroup are gone then.
pub fn run(
    foreground: Foreground<'_>,
    timings: Option<&mut Timings>,
    observer: Observer<'_>,
) -> Result<Ended, RuntimeError> {
    let seal = crate::seal::for_newborn(foreground.plan)?;
    let mut signals = CallerSignals::new(foreground.follow_size)?;
    let mut timings = timings;
    if let Some(timings) = &mut timings {
        timings.mark("parent: prepare");
    }
    let mut watch = Watch {
        child: None,
        cgroup: None,
        console: None,
        program_runs: false,
        foreground,
        observer,
    };
    let result = watch
        .start(seal.as_ref(), timings.as_deref_mut())
        .and_then(|()| watch.through(&mut signals, &mut timings));
    if watch.child.is_none() {
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
        (Some(outcome), _) => outcome,
        (None, ended) => ended,
    };
    match outcome {
        Outcome::Signaled(signal) if !watch.program_runs => Err(RuntimeError::Killed(signal)),
        outcome => Ok(Ended {
            outcome,
            ooms,
            broken: watch.foreground.stdio.broken(),
        }),
    }
}

/// Everything that exists while the process does. What is left of it is cleared in [`Watch::end`], whatever happened.
struct Watch<'a, 'o> {
    observer: Observer<'o>,
    child: Option<Child>,
    cgroup: Option<Cgroup>,
    console: Option<OwnedFd>,
    program_runs: bool,
    foreground: Foreground<'a>,
}

impl Watch<'_, '_> {
    /// The clone. A cgroup v2 is made before it, so that the process is born there; a v1 one after it, while the new
    /// process already has work to do.
    fn start(&mut self, seal: Option<&Sealing>, timings: Option<&mut Timings>) -> Result<(), RuntimeError> {
        let plan = self.foreground.plan;
        if let Some(groups) = self.foreground.cgroup.filter(|groups| groups.uses_v2()) {
            self.make_cgroup(groups)?;
        }
        self.child = Some(errand::bear(
            plan,
            self.cgroup.as_ref(),
            (seal, timings.is_some()),
        )?);
        if let Some(timings) = timings {
            timings.mark("parent: clone the process");
        }
        Ok(())
    }

    fn child(&self) -> Result<&Child, RuntimeError> {
        self.child.as_ref().ok_or(RuntimeError::Wait(Errno::CHILD))
    }

    /// The parent's part of the start, and then waiting; gives the outcome where it was of this side's making.
    fn through(
        &mut self,
        signals: &mut CallerSignals,
        timings: &mut Option<&mut Timings>,
    ) -> Result<Option<Outcome>, RuntimeError> {
        let plan = self.foreground.plan;
        for errands in &plan.gates {
            let parcel = match self.run_errands(errands, timings) {
                Ok(parcel) => parcel,
                Err(error) => return Err(self.own_failure().unwrap_or(error)),
            };
            parcel.hand_over(self.child()?)?;
        }
        if !plan.descends() {
            self.tell_born()?;
        }
        self.wait(signals)
    }

    fn tell_born(&mut self) -> Result<(), RuntimeError> {
        let (pid, groups) = (self.child()?.pid, self.cgroup.as_ref().map(Cgroup::record));
        (self.observer.born)(pid, groups);
        tote_sys::settle_seal();
        Ok(())
    }

    /// Why the child failed, if it has: an errand for a process that is gone fails too, and its error would tell less.
    fn own_failure(&mut self) -> Option<RuntimeError> {
        let child = self.child.as_ref()?;
        let mut fds = [PollFd::from_borrowed_fd(child.channel(), PollFlags::IN)];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        match poll(&mut fds, Some(&now)) {
            Ok(1) => self.hear().err(),
            _ => None,
        }
    }

    fn make_cgroup(&mut self, plan: &tote_cgroup::Plan) -> Result<(), RuntimeError> {
        self.cgroup = Some(crate::cgroup::create(plan, &mut self.observer.warn)?);
        Ok(())
    }

    fn run_errands(
        &mut self,
        errands: &[Errand],
        timings: &mut Option<&mut Timings>,
    ) -> Result<Made, RuntimeError> {
        let mut made = Made::default();
        let Foreground {
            plan,
            cgroup,
            maps,
            network,
            ..
        } = self.foreground;
        let own = Errands {
            plan,
            cgroup,
            maps,
            network,
        };
        for errand in errands {
            let child = self.child.as_ref().ok_or(RuntimeError::Ended)?;
            own.run(errand, child, &mut self.cgroup, &mut made, self.observer.warn)?;
            if let Some(timings) = timings {
                timings.mark(words(errand));
            }
        }
        Ok(made)
    }

    fn wait(&mut self, signals: &mut CallerSignals) -> Result<Option<Outcome>, RuntimeError> {
        let begin = Instant::now();
        let mut cpu_check = self.foreground.cpu_time;
        loop {
            let deadline = self.foreground.timeout.map(|timeout| begin + timeout);
            let next = [deadline, cpu_check.map(|check| begin + check)]
                .into_iter()
                .flatten()
                .min();
            let ready = self.poll(signals, next)?;
            if ready.channel {
                self.hear()?;
            }
            if ready.signal && self.forward(signals)? {
                return Ok(Some(Outcome::Insisted));
            }
            for (copy, ready) in self.foreground.stdio.copies.iter_mut().zip(&ready.copies) {
                if *ready {
                    copy.advance();
                }
            }
            if let Some(aside) = self.foreground.aside.as_mut().filter(|_| ready.aside) {
                aside.advance();
            }
            if ready.ended && !ready.channel {
                return Ok(None);
            }
            let now = Instant::now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Ok(Some(Outcome::TimedOut));
            }
            if cpu_check.is_some_and(|check| now >= begin + check) {
                match self.cpu_time_left() {
                    Some(Duration::ZERO) => return Ok(Some(Outcome::CpuTimeOver)),
                    Some(left) => cpu_check = Some(now - begin + soonest(left)),
                    None => cpu_check = None,
                }
            }
        }
    }

    fn poll(&self, signals: &CallerSignals, deadline: Option<Instant>) -> Result<Ready, RuntimeError> {
        let child = self.child()?;
        let copies: Vec<_> = self.foreground.stdio.copies.iter().map(Copy::poll_fd).collect();
        let aside = self.foreground.aside.as_ref().and_then(|aside| aside.fd());
        let mut fds = Vec::with_capacity(4 + copies.len());
        fds.push(PollFd::new(&child.pidfd, PollFlags::IN));
        fds.push(PollFd::new(signals, PollFlags::IN));
        fds.extend(aside.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        fds.extend(copies.iter().flatten().cloned());
        if !self.program_runs {
            fds.push(PollFd::from_borrowed_fd(child.channel(), PollFlags::IN));
        }
        let timeout = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(RuntimeError::Wait(errno)),
        }
        let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
        let (ended, signal) = (ready.next() == Some(true), ready.next() == Some(true));
        let aside = aside.is_some() && ready.next() == Some(true);
        let copies = copies
            .iter()
            .map(|copy| copy.is_some() && ready.next() == Some(true))
            .collect();
        Ok(Ready {
            ended,
            signal,
            aside,
            copies,
            channel: ready.next() == Some(true),
        })
    }

    fn hear(&mut self) -> Result<(), RuntimeError> {
        match self.child()?.event().map_err(RuntimeError::Wait)? {
            Event::Console(master) => {
                self.foreground
                    .stdio
                    .console(&master, self.foreground.interactive, None)
                    .map_err(|source| RuntimeError::Terminal {
                        attempt: "use the container's console",
                        source,
                    })?;
                self.console = Some(master);
            }
            Event::Without { op, errno } => {
                (self.observer.warn)(crate::error::without(self.foreground.plan, op, errno));
            }
            Event::Seccomp(_) => return Err(RuntimeError::Listener),
            Event::Exec => {
                self.program_runs = true;
                if let Some(Err(warning)) = self.foreground.aside.as_mut().map(|aside| aside.begin()) {
                    (self.observer.warn)(warning);
                }
                (self.observer.runs)();
            }
            Event::Failed { op, errno, text } => {
                return Err(RuntimeError::Step(Step::new(
                    self.foreground.plan,
                    op,
                    errno,
                    text,
                )));
            }
            Event::Descended(pid) => {
                let child = self.child.as_mut().ok_or(RuntimeError::Ended)?;
                child.descend(pid).map_err(RuntimeError::Wait)?;
                self.tell_born()?;
            }
            // A knock, whatever it is about: nobody here is late for it. What waits for others is not in the foreground.
            _ => {}
        }
        Ok(())
    }

    /// Whether somebody insists on the end.
    fn forward(&mut self, signals: &mut CallerSignals) -> Result<bool, RuntimeError> {
        while let Some(wish) = signals.next()? {
            match wish {
                Wish::Resize => self.follow_size(),
                // A process that has just ended needs no signal.
                Wish::Forward(signal) => best_effort(pidfd_send_signal(&self.child()?.pidfd, signal)),
                Wish::Insist => return Ok(true),
            }
        }
        Ok(false)
    }

    fn follow_size(&self) {
        let Some(console) = &self.console else { return };
        if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdin()) {
            // A console that is gone has no size.
            best_effort(rustix::termios::tcsetwinsize(console, size));
        }
    }

    fn cpu_time_left(&self) -> Option<Duration> {
        let used = match &self.cgroup {
            Some(cgroup) if cgroup.counts_cpu() => Duration::from_nanos(cgroup.cpu_usage()),
            _ => crate::cpu::of_tree(self.child.as_ref()?.pid),
        };
        self.foreground.cpu_time.map(|limit| limit.saturating_sub(used))
    }

    /// Kills what still runs, reaps it, and copies the last of its output.
    fn end(&mut self) -> Result<Outcome, RuntimeError> {
        let child = self.child()?;
        // ESRCH: it has ended already, which is the usual case.
        best_effort(pidfd_send_signal(&child.pidfd, Signal::KILL));
        let status = loop {
            match waitid(WaitId::PidFd(child.pidfd.as_fd()), WaitIdOptions::EXITED) {
                Ok(Some(status)) => break status,
                Ok(None) | Err(Errno::INTR) => {}
                Err(errno) => return Err(RuntimeError::Wait(errno)),
            }
        };
        self.foreground.stdio.drain();
        if let Some(aside) = &mut self.foreground.aside {
            aside.advance();
        }
        Ok(match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Outcome::Exited(code),
            (None, Some(signal)) => Outcome::Signaled(signal),
            (None, None) => Outcome::Signaled(Signal::KILL.as_raw()),
        })
    }

    fn ooms(&self) -> u64 {
        self.cgroup.as_ref().map_or(0, Cgroup::oom_kills)
    }

    fn step_times(&self, timings: &mut Timings) {
        let Some(child) = &self.child else { return };
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
        if let Some(cgroup) = self.cgroup.take()
            && let Err(error) = cgroup.remove()
        {
            (self.observer.stays)();
            (self.observer.warn)(format!(
                "the container's cgroup stays behind until the next command: {error}"
            ));
        }
    }
}

struct Ready {
    ended: bool,
    signal: bool,
    aside: bool,
    channel: bool,
    copies: Vec<bool>,
}

/// The soonest that this much processor time can be used up, with every processor at work.
fn soonest(left: Duration) -> Duration {
    let processors =
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    (left / processors).max(Duration::from_millis(5))
}

/// What `--timings` calls an errand.
fn words(errand: &Errand) -> &'static str {
    match errand {
        Errand::Maps => "parent: map the ids",
        Errand::Idmap => "parent: make the user namespace of the id map",
        Errand::OomScore(_) => "parent: set the oom score",
        Errand::Tree(_) | Errand::Root(_) => "parent: open a tree",
        Errand::Node(_) => "parent: make a device node",
        Errand::NetDevices(_) => "parent: move network devices",
        Errand::Network => "parent: make the network namespace",
        Errand::Cgroup => "parent: make the cgroup",
        Errand::Record | Errand::Hooks => "parent: go on",
    }
}
