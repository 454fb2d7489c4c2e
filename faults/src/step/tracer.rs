//! Tracer of one command by ptrace(2): counts its system calls, and makes one of them the last, or fail.
//!
//! The tracer seizes the command instead of attaching to it, so that no SIGSTOP stays behind in a process that is let
//! go. It follows all children until they execute another program, because calls of a container's own program are not
//! the engine's.

use super::call::{Call, is_entry, name_of};
use super::scenario::Front;
use super::terminal::Terminal;
use super::waiting::{TimeLimit, Waiting};
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::WaitStatus;
use nix::unistd::Pid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// First word of this program's command line when it waits to be seized before it becomes the command.
pub(crate) const HOLD: &str = "--hold";

/// Like [`HOLD`], for a command in a terminal whose path is the next word.
pub(crate) const HOLD_TERMINAL: &str = "--hold-terminal";

/// Time without events after which sleeping processes count as those that stay.
const QUIET: Duration = Duration::from_millis(4);

/// Fault of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    /// Kill of the process at the call's entry.
    Kill,
    /// Error result of the call, which is not carried out.
    Fail {
        errno: Errno,
        /// True if every later call of this name in this process fails as well.
        always: bool,
    },
}

/// Fault and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Ordinal of the process, from 1 in the order of appearance; 1 is the command itself.
    pub(crate) process: usize,
    /// Number of the process's call, from 1 for the first call after it became the command.
    pub(crate) call: usize,
    /// Name of the call. If the number of earlier calls differs this time, the next call of this name is meant.
    pub(crate) name: Option<&'static str>,
    pub(crate) deed: Deed,
}

/// Options of a traced run.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Fault to inject; without one, all calls of all processes are recorded.
    pub(crate) fault: Option<Fault>,
    /// Files at the command's standard streams.
    pub(crate) front: Front,
    /// True if the command leaves processes behind, which are let go as soon as all of them sleep. Otherwise the
    /// tracer waits for their ends.
    pub(crate) lingers: bool,
    /// Time after which the command counts as hung, and all its processes are killed.
    pub(crate) limit: Duration,
    /// Directory of the files `out` and `err` for standard output and standard error without a terminal.
    pub(crate) scratch: PathBuf,
}

/// End of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Code(i32),
    Killed(Signal),
    /// End by the tracer, after the time limit.
    Hung,
}

/// Outcome of a traced command.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) end: End,
    pub(crate) out: String,
    pub(crate) err: String,
    /// Killed or failed call, and its number; `None` if the command made no such call this time.
    pub(crate) hit: Option<(usize, Call)>,
    /// Calls of each process, if they were recorded.
    pub(crate) calls: Vec<Vec<Call>>,
}

/// Process that is followed.
#[derive(Debug)]
struct Tracee {
    ordinal: usize,
    calls: usize,
    /// True once the process is the command; the first process becomes it by execve(2).
    begun: bool,
    /// Error that the current call will return.
    pending: Option<Errno>,
}

struct Tracer<'a> {
    plan: &'a Plan,
    /// Device and inode of the program whose processes are followed.
    program: (u64, u64),
    tracees: BTreeMap<Pid, Tracee>,
    /// All processes that were ever followed.
    known: BTreeSet<Pid>,
    seen: usize,
    hit: Option<(usize, Call)>,
    calls: Vec<Vec<Call>>,
    /// Places where the processes waited when the time was over.
    waits: String,
    terminal: Option<Terminal>,
}

/// Runs `program` with these arguments to its end, and lets go of processes that stay.
///
/// # Errors
/// Fails if the program cannot be started or traced.
pub(crate) fn run(waiting: &Waiting, program: &Path, arguments: &[String], plan: &Plan) -> Result<Outcome> {
    let file = fs::metadata(program).with_context(|| format!("look at {}", program.display()))?;
    let out = plan.scratch.join("out");
    let err = plan.scratch.join("err");
    let (terminal, name) = Terminal::open(plan.front)?.unzip();
    let mut held = Command::new(std::env::current_exe().context("find this program")?);
    match name {
        Some(name) => held.arg(HOLD_TERMINAL).arg(name),
        None => held.arg(HOLD),
    };
    let child = held
        .arg(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(fresh(&out)?)
        .stderr(fresh(&err)?)
        .spawn()
        .context("start this program once more")?;
    let main = Pid::from_raw(i32::try_from(child.id()).context("a process id")?);
    let mut tracer = Tracer {
        plan,
        program: (file.dev(), file.ino()),
        tracees: BTreeMap::new(),
        known: BTreeSet::new(),
        seen: 0,
        hit: None,
        calls: Vec::new(),
        waits: String::new(),
        terminal,
    };
    waiting
        .stopped(main)
        .context("wait until the command can be seized")?;
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(main, options).context("trace the command: is ptrace(2) allowed here?")?;
    tracer.adopt(main);
    kill(main, Signal::SIGCONT).context("let the command go on")?;
    let end = tracer.follow(waiting, main)?;
    let read = |path: &Path| -> Result<String> {
        let bytes = fs::read(path).with_context(|| format!("read {}", path.display()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let (out, err) = match &tracer.terminal {
        Some(terminal) => (terminal.shown.clone(), terminal.shown.clone()),
        None => (read(&out)?, read(&err)?),
    };
    Ok(Outcome {
        end,
        out,
        err: err + &tracer.waits,
        hit: tracer.hit,
        calls: tracer.calls,
    })
}

/// Makes a new empty file in the place of an old one, to which processes of an earlier command may still write.
pub(super) fn fresh(path: &Path) -> Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("remove {}", path.display()));
        }
        _ => {}
    }
    File::create_new(path).with_context(|| format!("make {}", path.display()))
}

impl Tracer<'_> {
    fn follow(&mut self, waiting: &Waiting, main: Pid) -> Result<End> {
        let mut limit = TimeLimit::new(self.plan.limit);
        let mut end = None;
        let mut asleep = 0;
        loop {
            let happened = waiting.next(QUIET)?;
            if let Some(terminal) = &mut self.terminal {
                terminal.look()?;
            }
            match happened {
                Some(WaitStatus::Exited(pid, code)) => {
                    self.tracees.remove(&pid);
                    if pid == main {
                        end = Some(End::Code(code));
                    }
                }
                Some(WaitStatus::Signaled(pid, signal, _)) => {
                    self.tracees.remove(&pid);
                    if pid == main {
                        end = Some(End::Killed(signal));
                    }
                }
                Some(status) => self.stopped(status)?,
                None if end.is_some() && self.plan.lingers && self.all_sleep() => asleep += 1,
                None => asleep = 0,
            }
            match end {
                Some(end) if self.tracees.is_empty() => return Ok(end),
                Some(end) if asleep > 1 => {
                    self.let_go(waiting)?;
                    return Ok(end);
                }
                _ => {}
            }
            if limit.is_over() {
                self.waits = crate::waits::below(std::process::id());
                self.kill_all(waiting)?;
                return Ok(End::Hung);
            }
        }
    }

    fn adopt(&mut self, pid: Pid) {
        // A child may have ended, or been let go, before its parent reports its creation.
        if !self.known.insert(pid) {
            return;
        }
        self.seen += 1;
        self.calls.push(Vec::new());
        let tracee = Tracee {
            ordinal: self.seen,
            calls: 0,
            begun: self.seen > 1,
            pending: None,
        };
        self.tracees.insert(pid, tracee);
    }

    /// Finds out why a process has stopped, and resumes it.
    fn stopped(&mut self, status: WaitStatus) -> Result<()> {
        match status {
            WaitStatus::PtraceSyscall(pid) => self.call(pid),
            WaitStatus::PtraceEvent(pid, _, event) => self.event(pid, event),
            WaitStatus::Stopped(pid, signal) => {
                self.adopt(pid);
                self.go_on(pid, Some(signal))
            }
            _ => Ok(()),
        }
    }

    fn event(&mut self, pid: Pid, event: i32) -> Result<()> {
        let is = |kind: ptrace::Event| event == kind as i32;
        if is(ptrace::Event::PTRACE_EVENT_EXEC) {
            let own = fs::metadata(format!("/proc/{pid}/exe"))
                .is_ok_and(|file| (file.dev(), file.ino()) == self.program);
            if !own {
                self.tracees.remove(&pid);
                return gone(ptrace::detach(pid, None));
            }
            if let Some(tracee) = self.tracees.get_mut(&pid) {
                tracee.begun = true;
            }
        } else if is(ptrace::Event::PTRACE_EVENT_FORK)
            || is(ptrace::Event::PTRACE_EVENT_VFORK)
            || is(ptrace::Event::PTRACE_EVENT_CLONE)
        {
            if let Ok(child) = ptrace::getevent(pid) {
                self.adopt(Pid::from_raw(i32::try_from(child).context("a process id")?));
            }
        } else {
            self.adopt(pid);
        }
        self.go_on(pid, None)
    }

    /// Handles entry to, or exit from, a system call.
    fn call(&mut self, pid: Pid) -> Result<()> {
        let Ok(info) = ptrace::syscall_info(pid) else {
            return Ok(()); // killed meanwhile
        };
        let Some(tracee) = self.tracees.get_mut(&pid) else {
            return gone(ptrace::syscall(pid, None));
        };
        if !is_entry(info.op) {
            if let Some(errno) = tracee.pending.take() {
                answer(pid, errno)?;
            }
            return self.go_on(pid, None);
        }
        if !tracee.begun {
            return gone(ptrace::syscall(pid, None));
        }
        tracee.calls += 1;
        let (ordinal, count) = (tracee.ordinal, tracee.calls);
        let Some(fault) = self.plan.fault else {
            let call = Call::read(pid)?;
            self.calls[ordinal - 1].push(call);
            return self.go_on(pid, None);
        };
        if ordinal != fault.process {
            return self.go_on(pid, None);
        }
        let is_called =
            |name: &str| ptrace::getregs(pid).is_ok_and(|registers| name_of(registers.orig_rax) == name);
        let meant = match (&self.hit, fault.name) {
            (None, None) => count == fault.call,
            (None, Some(name)) => count >= fault.call && is_called(name),
            (Some((_, hit)), _) => {
                matches!(fault.deed, Deed::Fail { always: true, .. }) && is_called(hit.name)
            }
        };
        if meant {
            if self.hit.is_none() {
                self.hit = Some((count, Call::read(pid)?));
            }
            match fault.deed {
                Deed::Kill => return gone(kill(pid, Signal::SIGKILL)),
                Deed::Fail { errno, .. } => {
                    skip(pid)?;
                    tracee.pending = Some(errno);
                }
            }
        }
        self.go_on(pid, None)
    }

    /// Resumes a stopped process: to its next call if its calls matter, otherwise at full speed.
    fn go_on(&self, pid: Pid, signal: Option<Signal>) -> Result<()> {
        let Some(tracee) = self.tracees.get(&pid) else {
            return gone(ptrace::cont(pid, signal));
        };
        let wanted = match self.plan.fault {
            None => true,
            Some(fault) => {
                let always = matches!(fault.deed, Deed::Fail { always: true, .. });
                tracee.ordinal == fault.process && (self.hit.is_none() || tracee.pending.is_some() || always)
            }
        };
        if wanted {
            gone(ptrace::syscall(pid, signal))
        } else {
            gone(ptrace::cont(pid, signal))
        }
    }

    fn all_sleep(&self) -> bool {
        self.tracees.keys().all(|pid| {
            fs::read_to_string(format!("/proc/{pid}/stat"))
                .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S")))
        })
    }

    /// Detaches from all remaining processes, which go on as if untraced.
    fn let_go(&mut self, waiting: &Waiting) -> Result<()> {
        for pid in self.tracees.keys() {
            gone(ptrace::interrupt(*pid))?;
        }
        let start = Instant::now();
        while !self.tracees.is_empty() && start.elapsed() < self.plan.limit {
            match waiting.next(QUIET)? {
                Some(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => {
                    self.tracees.remove(&pid);
                }
                Some(WaitStatus::Stopped(pid, signal)) => {
                    self.tracees.remove(&pid);
                    gone(ptrace::detach(pid, signal))?;
                }
                Some(WaitStatus::PtraceEvent(pid, _, _) | WaitStatus::PtraceSyscall(pid)) => {
                    self.tracees.remove(&pid);
                    gone(ptrace::detach(pid, None))?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn kill_all(&mut self, waiting: &Waiting) -> Result<()> {
        for pid in self.tracees.keys() {
            gone(kill(*pid, Signal::SIGKILL))?;
        }
        let start = Instant::now();
        while !self.tracees.is_empty() && start.elapsed() < Duration::from_secs(5) {
            if let Some(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) = waiting.next(QUIET)? {
                self.tracees.remove(&pid);
            }
        }
        Ok(())
    }
}

/// Cancels the call that a process is entering.
fn skip(pid: Pid) -> Result<()> {
    let Ok(mut registers) = ptrace::getregs(pid) else {
        return Ok(());
    };
    registers.orig_rax = u64::MAX;
    gone(ptrace::setregs(pid, registers))
}

/// Makes an error the result of the call that a process is leaving.
fn answer(pid: Pid, errno: Errno) -> Result<()> {
    let Ok(mut registers) = ptrace::getregs(pid) else {
        return Ok(());
    };
    registers.rax = i64::from(-(errno as i32)).cast_unsigned();
    gone(ptrace::setregs(pid, registers))
}

/// Accepts ESRCH: a tracee may be killed by others at any moment.
fn gone(result: nix::Result<()>) -> Result<()> {
    match result {
        Ok(()) | Err(Errno::ESRCH) => Ok(()),
        Err(errno) => Err(errno).context("trace a process"),
    }
}
