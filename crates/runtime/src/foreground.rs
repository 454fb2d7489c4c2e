//! A container that lives as long as the command that started it.

use crate::relay::Copy;
use crate::{Maps, RuntimeError, Stdio, Step, Timings};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::process::{Signal, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::time::{Duration, Instant};
use tote_cgroup::Cgroup;
use tote_sandbox::{Errand, Plan};
use tote_sys::{Birth, Child, Errno, Event, Parcel, SignalFd, SignalSet, best_effort, birth};

/// What to run and how to watch it.
#[derive(Debug)]
pub struct Foreground<'a> {
    /// What the new process does.
    pub plan: &'a Plan,
    /// The cgroup to make and put it into.
    pub cgroup: Option<&'a tote_cgroup::Plan>,
    /// The maps of its user namespace, where it does not write them itself.
    pub maps: Option<&'a Maps>,
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
}

/// Signals of the caller that are passed on.
const FORWARDED: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

/// Runs it to its end; gives how it ended and how many of its processes the kernel killed for want of memory.
///
/// `started` is called once the program runs, with its process id and with what [`Cgroup::open`] needs to find its cgroup.
///
/// # Errors
/// [`RuntimeError`]; the process and its cgroup are gone then.
pub fn run(
    foreground: Foreground<'_>,
    timings: Option<&mut Timings>,
    started: &mut dyn FnMut(u32, Option<String>),
    warn: &mut dyn FnMut(String),
) -> Result<(Outcome, u64), RuntimeError> {
    let mut signals = FORWARDED
        .iter()
        .fold(SignalSet::empty(), |set, signal| set.with(signal.as_raw()));
    if foreground.follow_size {
        signals = signals.with(Signal::WINCH.as_raw());
    }
    let signals = SignalFd::new(&signals).map_err(RuntimeError::Wait)?;
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
    };
    let result = watch
        .start(timings.as_deref_mut(), warn)
        .and_then(|()| watch.through(&signals, &mut timings, started, warn));
    if watch.child.is_none() {
        watch.remove_cgroup(warn);
        return Err(result.err().unwrap_or(RuntimeError::Clone(Errno::CHILD)));
    }
    let (ended, ooms) = (watch.end(), watch.ooms());
    if let Some(timings) = &mut timings {
        watch.step_times(timings);
        timings.mark("parent: wait for its end");
    }
    watch.remove_cgroup(warn);
    if let Some(timings) = &mut timings {
        timings.mark("parent: remove the cgroup");
    }
    let outcome = match (result?, ended?) {
        (Some(outcome), _) => outcome,
        (None, ended) => ended,
    };
    match outcome {
        Outcome::Signaled(signal) if !watch.program_runs => Err(RuntimeError::Killed(signal)),
        outcome => Ok((outcome, ooms)),
    }
}

/// Everything that exists while the process does. What is left of it is cleared in [`Watch::end`], whatever happened.
struct Watch<'a> {
    child: Option<Child>,
    cgroup: Option<Cgroup>,
    console: Option<OwnedFd>,
    program_runs: bool,
    foreground: Foreground<'a>,
}

impl Watch<'_> {
    /// The clone. A cgroup v2 is made before it, so that the process is born there; a v1 one after it, while the new
    /// process already has work to do.
    fn start(
        &mut self,
        timings: Option<&mut Timings>,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), RuntimeError> {
        let plan = self.foreground.plan;
        if let Some(groups) = self.foreground.cgroup.filter(|groups| groups.uses_v2()) {
            self.make_cgroup(groups, warn)?;
        }
        let pid_namespace = PidNamespace::enter(plan.pid_namespace.as_ref())?;
        let child = birth(&Birth {
            ops: &plan.ops,
            namespaces: plan.namespaces,
            ancestry: crate::errand::ancestry(plan),
            cgroup: self.cgroup.as_ref().and_then(Cgroup::v2_dir),
            timings: timings.is_some(),
        })
        .map_err(RuntimeError::Clone)?;
        drop(pid_namespace);
        self.child = Some(child);
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
        signals: &SignalFd,
        timings: &mut Option<&mut Timings>,
        started: &mut dyn FnMut(u32, Option<String>),
        warn: &mut dyn FnMut(String),
    ) -> Result<Option<Outcome>, RuntimeError> {
        let plan = self.foreground.plan;
        for errands in &plan.gates {
            let parcel = match self.run_errands(errands, timings, warn) {
                // Of two failures the child's came first, or is the cause.
                Err(error) => return Err(self.report().unwrap_or(error)),
                Ok(parcel) => parcel,
            };
            self.hand_over(&parcel)?;
        }
        self.wait(signals, started)
    }

    fn make_cgroup(
        &mut self,
        plan: &tote_cgroup::Plan,
        warn: &mut dyn FnMut(String),
    ) -> Result<(), RuntimeError> {
        self.cgroup = Some(crate::cgroup::create(plan, warn)?);
        Ok(())
    }

    fn run_errands(
        &mut self,
        errands: &[Errand],
        timings: &mut Option<&mut Timings>,
        warn: &mut dyn FnMut(String),
    ) -> Result<Made, RuntimeError> {
        let mut made = Made::default();
        for errand in errands {
            let what = match errand {
                Errand::Maps => {
                    if let Some(maps) = self.foreground.maps {
                        maps.write(self.child()?.pid)?;
                    }
                    "parent: map the ids"
                }
                Errand::Idmap => {
                    made.idmap = Some(tote_sys::user_namespace(NOBODY).map_err(RuntimeError::Idmap)?);
                    "parent: make the user namespace of the id map"
                }
                Errand::OomScore(score) => {
                    crate::errand::set_oom_score(self.child()?.pid, *score)?;
                    "parent: set the oom score"
                }
                Errand::Tree(tree) => {
                    made.tree = Some(crate::errand::open_tree(
                        tree,
                        self.child()?,
                        self.foreground.plan,
                    )?);
                    "parent: open a tree"
                }
                Errand::NetDevices(path) => {
                    crate::errand::move_net_devices(self.foreground.plan, path)?;
                    "parent: move network devices"
                }
                Errand::Network => {
                    let plan = self.foreground.plan;
                    made.network = Some(crate::errand::make_network(plan, self.child()?)?);
                    "parent: make the network namespace"
                }
                Errand::Cgroup => {
                    if let (Some(plan), None) = (self.foreground.cgroup, &self.cgroup) {
                        self.make_cgroup(plan, warn)?;
                    }
                    let tasks = self
                        .cgroup
                        .as_ref()
                        .map_or_else(|| Ok(Vec::new()), Cgroup::open_tasks);
                    made.tasks = tasks.map_err(RuntimeError::Cgroup)?;
                    "parent: make the cgroup"
                }
            };
            if let Some(timings) = timings {
                timings.mark(what);
            }
        }
        Ok(made)
    }

    /// What the child has said of a failure, if it has.
    fn report(&self) -> Option<RuntimeError> {
        let child = self.child().ok()?;
        let channel = PollFd::from_borrowed_fd(child.channel(), PollFlags::IN);
        let spoke = poll(&mut [channel], Some(&Timespec::default())) == Ok(1);
        match spoke.then(|| child.event())? {
            Ok(Event::Failed { op, errno, text }) => Some(RuntimeError::Step(Step::new(
                self.foreground.plan,
                op,
                errno,
                text,
            ))),
            _ => None,
        }
    }

    /// A child that failed before its gate does not hear; its report says why, so this is no failure of its own.
    fn hand_over(&self, made: &Made) -> Result<(), RuntimeError> {
        let tasks: Vec<_> = made.tasks.iter().map(AsFd::as_fd).collect();
        let parcel = Parcel {
            idmap: made.idmap.as_ref().map(AsFd::as_fd),
            tree: made.tree.as_ref().map(AsFd::as_fd),
            join: made.network.as_ref().map(AsFd::as_fd),
            tasks: &tasks,
        };
        match self.child()?.open_gate(&parcel) {
            Err(Errno::PIPE | Errno::CONNRESET) | Ok(()) => Ok(()),
            Err(errno) => Err(RuntimeError::Wait(errno)),
        }
    }

    fn wait(
        &mut self,
        signals: &SignalFd,
        started: &mut dyn FnMut(u32, Option<String>),
    ) -> Result<Option<Outcome>, RuntimeError> {
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
                self.hear(started)?;
            }
            if ready.signal {
                self.forward(signals)?;
            }
            for (copy, ready) in self.foreground.stdio.copies.iter_mut().zip(&ready.copies) {
                if *ready {
                    copy.advance();
                }
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

    fn poll(&self, signals: &SignalFd, deadline: Option<Instant>) -> Result<Ready, RuntimeError> {
        let child = self.child()?;
        let copies: Vec<_> = self.foreground.stdio.copies.iter().map(Copy::poll_fd).collect();
        let mut fds = Vec::with_capacity(3 + copies.len());
        fds.push(PollFd::new(&child.pidfd, PollFlags::IN));
        fds.push(PollFd::new(signals, PollFlags::IN));
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
        let copies = copies
            .iter()
            .map(|copy| copy.is_some() && ready.next() == Some(true))
            .collect();
        Ok(Ready {
            ended,
            signal,
            copies,
            channel: ready.next() == Some(true),
        })
    }

    fn hear(&mut self, started: &mut dyn FnMut(u32, Option<String>)) -> Result<(), RuntimeError> {
        match self.child()?.event().map_err(RuntimeError::Wait)? {
            Event::Console(master) => {
                self.foreground
                    .stdio
                    .console(&master, self.foreground.interactive)
                    .map_err(|source| RuntimeError::Terminal {
                        attempt: "use the container's console",
                        source,
                    })?;
                self.console = Some(master);
            }
            Event::Knock => {} // whatever it is about, nobody here is late for it
            Event::Seccomp(_) => return Err(RuntimeError::Listener),
            Event::Exec => {
                self.program_runs = true;
                let groups = self.cgroup.as_ref().map(Cgroup::record);
                started(self.child()?.pid, groups);
            }
            Event::Failed { op, errno, text } => {
                return Err(RuntimeError::Step(Step::new(
                    self.foreground.plan,
                    op,
                    errno,
                    text,
                )));
            }
        }
        Ok(())
    }

    fn forward(&mut self, signals: &SignalFd) -> Result<(), RuntimeError> {
        while let Some(signo) = signals.next().map_err(RuntimeError::Wait)? {
            if signo == Signal::WINCH.as_raw() {
                self.follow_size();
            } else if let Some(signal) = Signal::from_named_raw(signo) {
                // A process that has just ended needs no signal.
                best_effort(pidfd_send_signal(&self.child()?.pidfd, signal));
            }
        }
        Ok(())
    }

    fn follow_size(&self) {
        let Some(console) = &self.console else { return };
        if let Ok(size) = rustix::termios::tcgetwinsize(rustix::stdio::stdin()) {
            // A console that is gone has no size.
            best_effort(rustix::termios::tcsetwinsize(console, size));
        }
    }

    fn cpu_time_left(&self) -> Option<Duration> {
        let used = Duration::from_nanos(self.cgroup.as_ref()?.cpu_usage());
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

    fn remove_cgroup(&mut self, warn: &mut dyn FnMut(String)) {
        if let Some(cgroup) = self.cgroup.take()
            && let Err(error) = cgroup.remove()
        {
            warn(format!(
                "the container's cgroup stays behind until the next command: {error}"
            ));
        }
    }
}

/// What the parent has made for one gate.
#[derive(Default)]
struct Made {
    idmap: Option<OwnedFd>,
    tree: Option<OwnedFd>,
    network: Option<OwnedFd>,
    tasks: Vec<OwnedFd>,
}

/// The one id that the map of an id-mapped mount has: the last that is an id, which no file has. A map must not be
/// empty.
const NOBODY: u32 = u32::MAX - 1;

struct Ready {
    ended: bool,
    signal: bool,
    channel: bool,
    copies: Vec<bool>,
}

/// The soonest that this much processor time can be used up, with every processor at work.
fn soonest(left: Duration) -> Duration {
    let processors =
        std::thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(1));
    (left / processors).max(Duration::from_millis(5))
}

/// This process's children are born in another PID namespace while this lives.
struct PidNamespace {
    own: OwnedFd,
}

impl PidNamespace {
    fn enter(target: Option<&OwnedFd>) -> Result<Option<Self>, RuntimeError> {
        let Some(target) = target else { return Ok(None) };
        let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
        let own = rustix::fs::open("/proc/self/ns/pid", flags, rustix::fs::Mode::empty())
            .map_err(RuntimeError::Clone)?;
        rustix::thread::move_into_link_name_space(target.as_fd(), None).map_err(RuntimeError::Clone)?;
        Ok(Some(Self { own }))
    }
}

impl Drop for PidNamespace {
    fn drop(&mut self) {
        // Back to one's own is always allowed.
        best_effort(rustix::thread::move_into_link_name_space(self.own.as_fd(), None));
    }
}
