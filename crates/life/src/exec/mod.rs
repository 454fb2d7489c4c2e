//! `exec`: another process in a running container.

mod capture;
mod converse;
mod target;

pub use capture::{Captured, capture, capture_planned};
pub use converse::{Conversation, converse, converse_with};
pub(crate) use converse::{converse_apart, converse_as};
pub use target::Target;
pub use tote_records::exec::ExecError;
pub use tote_records::exec::Inside;

use crate::apart::read_among_owners;
use crate::slim::Listening;
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use std::time::Instant;
use tote_bundle::{Capability, ExecContext, ExecOptions, ResolvedUser, exec_process, resolve_user};
use tote_cgroup::{Cgroup, GroupPlace};
use tote_runtime::{
    Attendance, DetachKeys, Entry, ErrandError, Holder, Namespaces, RawMode, Reception, RuntimeError, Stdio,
    StdioMode, attend_or_leave, exec_beside, groups_allowed, host_facts, security_module,
};
use tote_sandbox::{Facts, Newcomer, Plan, SecurityModule, Stdin, Tools};
use tote_spec::{ConsoleSize, NamespaceType, Process, Spec};
use tote_state::events::Event;
use tote_state::events::append;
use tote_state::new_id;
use tote_state::process::set_title;
use tote_sys::{Child, Op, Work};

/// Result of `exec`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Executed {
    /// Process that runs, without a waiting caller.
    Detached,
    /// Process that has ended with this exit code.
    Ended(u8),
    /// Process from which the caller has detached.
    Left,
}

/// Runs a process in a container. One that is detached, or may be left by its user, has another process of this program
/// for its parent, which reports a failure by `report` and ends with the exit code that this returns.
///
/// # Errors
/// [`EngineError`]; the process is gone then.
pub fn exec(
    home: &Home,
    container: &str,
    options: ExecOptions,
    warn: &mut dyn FnMut(String),
    report: &mut dyn FnMut(&EngineError) -> u8,
) -> Result<Executed, EngineError> {
    check_descriptors(options.preserve_fds)?;
    // The user at its terminal may leave the process, which needs a parent then as well.
    let attended = !options.detach;
    if attended && !(options.tty && options.interactive) {
        return enter(home, container, options, warn);
    }
    // process: parent of a detached `exec`
    let worked = tote_sys::fork_parent(attended, || match enter(home, container, options, warn) {
        Ok(Executed::Detached) => Work::GoesOn(BEGUN),
        Ok(Executed::Left) => Work::GoesOn(LEFT),
        Ok(Executed::Ended(code)) => Work::Done(code),
        Err(error) => Work::Done(report(&error)),
    });
    match worked {
        Ok(Work::GoesOn(BEGUN)) => Ok(Executed::Detached),
        Ok(Work::GoesOn(_)) => Ok(Executed::Left),
        Ok(Work::Done(code)) => Ok(Executed::Ended(code)),
        Err(source) => Err(EngineError::Kernel {
            attempt: "make the parent of a process that may be left",
            source,
        }),
    }
}

/// Numbers by which the parent of a process that goes on says whether its caller has attended it.
const BEGUN: u8 = 1;
const LEFT: u8 = 2;

/// Does [`exec`] in this process.
fn enter(
    home: &Home,
    container: &str,
    mut options: ExecOptions,
    warn: &mut dyn FnMut(String),
) -> Result<Executed, EngineError> {
    let keys = detach_keys(&options)?;
    crate::given::read_env_files(&mut options.env)?;
    let target = Target::find(home, container)?;
    let namespaces = target.namespaces();
    let users = users(home, &target, &options)?;
    if let Some(guest) = target.guest.as_ref().filter(|_| !options.tty && !options.detach) {
        return attend_guest(home, (&target, guest), &options, users, warn);
    }
    let plan = plan(&target, &options, users, namespaces, None)?;
    visit(
        home,
        (target, plan, namespaces),
        (&options, keys),
        &mut |_| {},
        warn,
    )
}

/// Runs a process in a virtual machine without a terminal until its end.
fn attend_guest(
    home: &Home,
    (target, guest): (&Target, &Inside),
    options: &ExecOptions,
    users: Option<Users>,
    warn: &mut dyn FnMut(String),
) -> Result<Executed, EngineError> {
    refuse_paused(target)?;
    let mut happened = None;
    let mut sent = || {
        // No process of this one comes near the container.
        tote_sys::settle_seal();
        happened = Some(Happened::begin(home, target, options));
    };
    let ended = crate::vm::attend_here((target, guest), options, users, (&mut sent, warn));
    let code = ended.as_ref().map_or_else(EngineError::exit_code, |code| *code);
    if let Some(happened) = happened {
        happened.end(code);
    }
    ended.map(Executed::Ended)
}

/// Parses the keys that leave the process alone; refuses `-it` for a caller without a terminal.
pub fn detach_keys(options: &ExecOptions) -> Result<DetachKeys, ExecError> {
    let keys = options.detach_keys.as_deref().map(DetachKeys::parse);
    let keys = keys.transpose().map_err(ExecError::Keys)?.unwrap_or_default();
    let at_terminal = rustix::termios::isatty(rustix::stdio::stdin());
    if options.tty && options.interactive && !options.detach && !at_terminal {
        return Err(ExecError::NotATerminal);
    }
    Ok(keys)
}

/// Starts the planned process, and stays with it until its end if it is attached. `begun` is called with the process when the program runs.
///
/// # Errors
/// [`EngineError`]; the process is gone then.
pub fn visit(
    home: &Home,
    (target, mut plan, namespaces): (Target, Plan, Namespaces),
    (options, keys): (&ExecOptions, DetachKeys),
    begun: &mut dyn FnMut(&Child),
    warn: &mut dyn FnMut(String),
) -> Result<Executed, EngineError> {
    std::mem::take(&mut plan.warnings)
        .into_iter()
        .for_each(&mut *warn);
    let attendance = attendance(options, &mut plan, keys)?;
    let raw = (attendance.is_some() && options.tty && options.interactive)
        .then(RawMode::enter)
        .transpose()?;
    let mut visit = Visit {
        target,
        plan,
        namespaces,
        attendance,
        console: None,
        listening: None,
    };
    // Only a detached terminal needs the holder, but at the detach it would be too late to make one.
    let holder = options.tty.then(Holder::new).transpose()?;
    let child = visit.start(None, warn)?;
    begun(&child);
    let happened = Happened::begin(home, &visit.target, options);
    let Some(mut attendance) = visit.attendance else {
        if let (Some(master), Some(holder)) = (visit.console, holder) {
            holder.give(&master)?;
        }
        return Ok(Executed::Detached);
    };
    let outcome = attend_or_leave(&mut attendance, &child.pidfd)?;
    drop(raw);
    let Some(outcome) = outcome else {
        if let (Some(master), Some(holder)) = (attendance.give_console(), holder) {
            holder.give(&master)?;
        }
        return Ok(Executed::Left);
    };
    let code = outcome.exit_code();
    happened.end(code);
    // The command ends now as well: the kernel takes back its memory and its descriptors in less time than this process gives them up
    // one by one, on pages that it has shared with the other.
    std::mem::forget((visit.target, visit.plan));
    match attendance.broken() {
        Some(broken) if code == 0 => Err(RuntimeError::Stream(broken).into()),
        broken => {
            broken.iter().for_each(|broken| warn(broken.to_string()));
            Ok(Executed::Ended(code))
        }
    }
}

/// Process on its way into a container.
struct Visit<'a> {
    target: Target,
    plan: Plan,
    namespaces: Namespaces,
    attendance: Option<Attendance>,
    /// Master of the process's terminal, if no caller attends.
    console: Option<OwnedFd>,
    /// Listener of its calls, for plans that report them.
    listening: Option<&'a mut Listening>,
}

impl<'a> Visit<'a> {
    /// A process that the caller does not attend.
    fn alone(target: Target, plan: Plan, listening: Option<&'a mut Listening>) -> Self {
        Self {
            namespaces: target.namespaces(),
            target,
            plan,
            attendance: None,
            console: None,
            listening,
        }
    }

    /// Starts the process. On return it executes its program, or was killed at the deadline.
    fn start(
        &mut self,
        deadline: Option<Instant>,
        warn: &mut dyn FnMut(String),
    ) -> Result<Child, EngineError> {
        let cgroup = refuse_paused(&self.target)?;
        let entry = Entry {
            plan: &self.plan,
            cgroup: Some(&cgroup),
            init: self.target.init.as_fd(),
            namespaces: self.namespaces,
            shares_memory: false,
            deadline,
        };
        let (attendance, console) = (&mut self.attendance, &mut self.console);
        let mut reception = Reception {
            console: &mut |master| match attendance.as_mut() {
                Some(attendance) => Ok(attendance.take_console(master)?),
                None => {
                    *console = Some(master);
                    Ok(())
                }
            },
            listener: &mut |listener, _| match self.listening.as_mut() {
                Some(listening) => {
                    listening.answer(&listener);
                    Ok(())
                }
                None => Err(RuntimeError::Listener.into()),
            },
            warn,
        };
        let first = (self.target.cgroup.as_str(), self.target.pid);
        // The new process begins as a copy of this one, whose arguments the container would see.
        // process: parent of a detached `exec`
        set_title(&format!("tote exec {}", self.target.display()));
        let made = exec_beside(entry, first, &mut reception);
        Ok(made.map_err(|error| self.target.or_ended(ExecError::Start(error)))?)
    }
}

/// Opens the cgroup of a container that is not paused.
pub(crate) fn refuse_paused(target: &Target) -> Result<Cgroup, EngineError> {
    let cgroup = Cgroup::open(&target.cgroup).map_err(ErrandError::Cgroup)?;
    if cgroup.is_frozen().unwrap_or(false) {
        return Err(ExecError::Paused(target.id.clone()).into());
    }
    Ok(cgroup)
}

/// Checks the descriptors to keep. This comes before this process opens any itself.
fn check_descriptors(wanted: u32) -> Result<(), ExecError> {
    // absence: each error is one of a descriptor that cannot be passed on, which the user is told
    let missing = (3..wanted.saturating_add(3))
        .find(|number| rustix::fs::lstat(format!("/proc/self/fd/{number}")).is_err());
    missing.map_or(Ok(()), |missing| Err(ExecError::Descriptor { wanted, missing }))
}

/// Connects the caller to the process, and adds the steps to the plan; `None` for a detached process.
fn attendance(
    options: &ExecOptions,
    plan: &mut Plan,
    keys: DetachKeys,
) -> Result<Option<Attendance>, EngineError> {
    let failed = |source| EngineError::Kernel {
        attempt: "connect the process's standard streams",
        source,
    };
    if options.detach {
        if !options.tty {
            plan.insert_stdio([1, 2].map(|number| Op::NoOutput { number }).into());
        }
        return Ok(None);
    }
    let mode = StdioMode {
        interactive: options.interactive,
        terminal: options.tty,
        passes_files: false,
        attached: [true; 3],
        output_limit: None,
    };
    let (stdio, ops) = Stdio::new(mode).map_err(failed)?;
    plan.insert_stdio(ops);
    Ok(Some(
        Attendance::new(stdio)?.with_input(options.interactive, Some(keys)),
    ))
}

/// Plans the process, and the root that it brings if that is not the container's.
pub fn plan(
    target: &Target,
    options: &ExecOptions,
    users: Option<Users>,
    namespaces: Namespaces,
    tools: Option<Tools<'_>>,
) -> Result<Plan, EngineError> {
    match &target.guest {
        Some(guest) => crate::vm::enter(target, guest, options, users),
        None => plan_here((target, &target.inside), options, users, namespaces, tools),
    }
}

/// Names all capabilities of these bits.
pub fn all_capabilities(available: u64) -> Vec<String> {
    let names = tote_sandbox::ALL_CAPABILITIES.iter().enumerate();
    names
        .filter(|(number, _)| available & (1 << number) != 0)
        .map(|(_, name)| format!("CAP_{name}"))
        .collect()
}

/// Returns the capabilities by which the default filter is chosen: the container's own, and those that are added.
pub(crate) fn capabilities_of_filter(own: &Process, options: &ExecOptions) -> Vec<String> {
    let bounding = own.capabilities.as_ref().map_or(&[][..], |sets| &sets.bounding);
    let added = options.cap_add.iter().flat_map(|capability| match capability {
        Capability::One(name) => vec![(*name).to_owned()],
        Capability::All => {
            let names = tote_sandbox::ALL_CAPABILITIES.iter();
            names.map(|name| format!("CAP_{name}")).collect()
        }
    });
    bounding.iter().cloned().chain(added).collect()
}

/// Plans the process in the kernel of this machine, as one of `inside`.
pub fn plan_here(
    (target, inside): (&Target, &Inside),
    options: &ExecOptions,
    users: Option<Users>,
    namespaces: Namespaces,
    tools: Option<Tools<'_>>,
) -> Result<Plan, EngineError> {
    let in_user_namespace = target.has(NamespaceType::User);
    let setgroups = !in_user_namespace || groups_allowed(&format!("/proc/{}", target.pid));
    let own = &inside.process;
    let filter_for = capabilities_of_filter(own, options);
    let context = ExecContext {
        linux: in_user_namespace.then_some(&inside.linux),
        users,
        setgroups,
        all_capabilities: &|| {
            all_capabilities(if in_user_namespace {
                u64::MAX
            } else {
                tote_sys::bounding_capabilities()
            })
        },
        environment: &|name| std::env::var(name).ok(),
    };
    let is_labelled =
        target.entry.is_none() && (own.apparmor_profile.is_some() || own.selinux_label.is_some());
    let process = exec_process(own.clone(), options, &context);
    let spec = Spec {
        process: Some(with_size(process)),
        linux: Some(inside.linux.clone()),
        ..Spec::default()
    }
    .with_groups_kept(inside.keeps_groups);
    let plan = tote_sandbox::enter(Newcomer {
        spec: &spec,
        pidfd: target.hold()?,
        namespaces: namespaces.flags,
        root: None,
        tools,
        default_filter: inside.default_filter.then_some(&filter_for),
        stdin: if options.interactive && !options.detach {
            Stdin::Inherited
        } else {
            Stdin::Null
        },
        preserve_fds: options.preserve_fds,
        keyring: target.keyring().as_deref(),
        all_processors: false,
        facts: Facts {
            setgroups,
            // Only processes of other engines' containers have labels here, see `debug`.
            security_module: if is_labelled {
                security_module()
            } else {
                SecurityModule::None
            },
            waits_for_cgroup: GroupPlace::readable(&target.cgroup).any(|place| !place.is_v2),
            ..host_facts(own.oom_score_adj.is_some())
        },
    });
    Ok(plan.map_err(ExecError::Plan)?)
}

/// Sets the size of the terminal from the start, because the program may ask at once.
pub fn with_size(process: Process) -> Process {
    let size = process.terminal.then(tote_runtime::terminal_size).flatten();
    Process {
        console_size: size.map(|(height, width)| ConsoleSize { height, width }),
        ..process
    }
}

/// Users: the container's own, and the requested one.
pub type Users = (ResolvedUser, ResolvedUser);

/// Looks up the container's own user and the requested one in the container's files; only with `--user`.
pub fn users(home: &Home, target: &Target, options: &ExecOptions) -> Result<Option<Users>, EngineError> {
    let Some(wanted) = &options.user else {
        return Ok(None);
    };
    if let (Some(guest), Some(entry)) = (&target.guest, &target.entry) {
        return crate::vm::users(home, entry, guest, wanted).map(Some);
    }
    let root = target.root()?;
    let read = |path| {
        let failed = |error| ExecError::UserFile(error).into();
        let read = |limit| tote_rootfs::read_in_root(root.as_fd(), path, limit);
        let bytes = read_among_owners(home, read, failed)?;
        Ok::<_, EngineError>(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
    };
    let (passwd, group) = (read("etc/passwd")?, read("etc/group")?);
    let to = resolve_user(wanted, &passwd, &group).map_err(ExecError::from)?;
    let own = target.inside.process.user.uid.to_string();
    // Only the home directory is needed; an oversized group list is fine.
    let from = resolve_user(&own, &passwd, "").unwrap_or_default();
    Ok(Some((from, to)))
}

/// Events of the process, recorded while the program runs already.
struct Happened<'a> {
    home: &'a Home,
    target: &'a Target,
    id: String,
}

impl<'a> Happened<'a> {
    fn begin(home: &'a Home, target: &'a Target, options: &ExecOptions) -> Self {
        let id = new_id().map(|id| id.to_string()).unwrap_or_default();
        let command = options.command.join(" ");
        let happened = Self { home, target, id };
        let event = |action: &str| happened.event(&format!("{action}: {command}"));
        let events: Vec<Event> = ["exec_create", "exec_start"]
            .into_iter()
            .filter_map(event)
            .collect();
        append(home, &events);
        happened
    }

    /// Makes an event; other engines' containers have none here.
    fn event(&self, action: &str) -> Option<Event> {
        let entry = self.target.entry.as_ref()?;
        let event = entry.container.event_by_name(self.home, action);
        Some(event.with("execID", &self.id))
    }

    fn end(&self, code: u8) {
        if let Some(event) = self.event("exec_die") {
            append(self.home, &[event.with("exitCode", code)]);
        }
    }
}
