//! The command `exec`: another process in an existing container.

use crate::bundle::{self, check_process, finish_environment};
use crate::create::{Made, exit_code, send};
use crate::passed;
use crate::record::{self, Kept, Record};
use crate::states::Status;
use crate::status::{self, status};
use crate::store::Place;
use crate::subgroup::Joined;
use crate::{ContainerError, Id, Level, OciError, Say, Store, home, pidfile, plan, seccomp};
use rustix::fd::{AsFd as _, OwnedFd};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tote_runtime::{
    Attendance, Entry, Listen, Namespaces, RawMode, Reception, Refusal, Stdio, StdioMode, attend,
    groups_allowed,
};
use tote_sandbox::{Facts, Newcomer, Plan, Stdin, clone_flag};
use tote_spec::{Capabilities, NamespaceType, Process, Spec};
use tote_sys::{Child, Op};

/// Options of `exec` beside the id.
#[derive(Clone, Debug, Default)]
pub struct ExecOptions {
    /// Command and its arguments; empty with `process`.
    pub args: Vec<String>,
    /// Path of a `process.json`, which replaces the other options.
    pub process: Option<PathBuf>,
    /// Socket that gets the master of a new terminal.
    pub console_socket: Option<PathBuf>,
    /// Socket that gets the pidfd of the new process.
    pub pidfd_socket: Option<PathBuf>,
    /// File that gets the pid of the new process.
    pub pid_file: Option<PathBuf>,
    /// Working directory.
    pub cwd: Option<String>,
    /// Variables beside those of the container's process.
    pub env: Vec<String>,
    /// True if the process gets a terminal.
    pub tty: bool,
    /// User as `UID[:GID]`.
    pub user: Option<String>,
    /// Groups beside those of the container's process.
    pub additional_gids: Vec<u32>,
    /// True if the process is left alone once it runs.
    pub detach: bool,
    /// SELinux label.
    pub process_label: Option<String>,
    /// AppArmor profile.
    pub apparmor: Option<String>,
    /// Value of PR_SET_NO_NEW_PRIVS, if it differs from the container's process.
    pub no_new_privs: Option<bool>,
    /// Capabilities beside those of the container's process.
    pub caps: Vec<String>,
    /// Number of descriptors from 3 on that the process keeps.
    pub preserve_fds: u32,
    /// Groups below the container's cgroup, `[CONTROLLER,…:]PATH` each.
    pub cgroups: Vec<String>,
    /// True if exec into a paused container is allowed.
    pub ignore_paused: bool,
    /// Turns the process into another one, where [`crate::Elsewhere`] has turned the bundle.
    pub elsewhere: Option<ElsewhereToo>,
}

/// Process in the place of another one, by the bundle and a descriptor of the container's first process. An error is one line.
pub type ElsewhereToo = fn(&Path, Process, OwnedFd) -> Result<Process, String>;

/// Runs a process in a container.
///
/// # Errors
/// [`OciError`]; the process has been killed then.
pub fn exec(store: &Store, id: &Id, options: &ExecOptions, say: Say<'_>) -> Result<Made, OciError> {
    let listen = Listen::look();
    let preserve_fds = passed::count(options.preserve_fds, &listen)?;
    let place = store.open(id)?;
    let (record, document) = place
        .read()?
        .ok_or(OciError::Container(ContainerError::NotFound))?;
    let (init, pid) = enterable(&place, &record, options.ignore_paused)?;
    let kept = record::kept(&document)?;
    let mut process = process(options, &record)?;
    check_process(&process)?;
    plan::check_console(process.terminal, options.detach, options.console_socket.is_some())?;
    let home = |uid| home::of_process(pid, init.as_fd(), uid);
    finish_environment(&mut process, &home, &listen);
    plan::leave_size(&mut process);
    if !options.detach {
        plan::fit_terminal(&mut process);
    }
    if let Some(elsewhere) = options.elsewhere {
        let held = init
            .try_clone()
            .map_err(OciError::file("hold the process of", "the container"))?;
        process = elsewhere(Path::new(&record.bundle), process, held).map_err(OciError::Usage)?;
    }
    let joined = Joined::open(&record, &options.cgroups)?;
    let given = kept.linux.iter().flat_map(|linux| &linux.namespaces);
    let given = given.fold(0, |flags, one| flags | clone_flag(one.kind));
    let namespaces = Namespaces::to_join(given, pid);
    let terminal = process.terminal;
    let profile = kept.linux.as_ref().and_then(|linux| linux.seccomp.clone());
    let keyring = record.own_keyring.then(|| plan::keyring(id));
    let how = (namespaces.flags, preserve_fds, keyring.as_deref());
    let annotations = record.annotations.clone();
    let mut planned = plan(process, (kept, annotations), (pid, &init), how)?;
    tell_plan(&planned, say);
    let mut attendance = None;
    if !options.detach {
        let mode = StdioMode {
            interactive: true,
            terminal,
            passes_files: true,
            attached: [true; 3],
            output_limit: None,
        };
        let (stdio, ops) = Stdio::new(mode).map_err(OciError::kernel("make pipes for the process"))?;
        planned.insert_stdio(ops);
        plan::relay_line_ends(&mut planned);
        attendance = Some(Attendance::new(stdio).map_err(OciError::Runtime)?);
    }
    let entry = Entry {
        plan: &planned,
        cgroup: Some(joined.cgroup()),
        init: init.as_fd(),
        namespaces,
        shares_memory: false,
        deadline: None,
    };
    let mut reception = Reception {
        warn: &mut |text| say(Level::Warning, &text),
        console: &mut |master| take_console(options.console_socket.as_deref(), attendance.as_mut(), master),
        listener: &mut |fd, pid| {
            let about = (id, &record, Status::Running);
            Ok(seccomp::hand_over(&fd, profile.as_ref(), pid, about)?)
        },
    };
    let child = joined.exec(entry, (&record.cgroup, pid), &mut reception)?;
    say(Level::Debug, "child process in init(): it is in the container");
    say(
        Level::Debug,
        &format!("setns_init: about to exec: process {} is its program", child.pid),
    );
    tell(options, &child)?;
    let Some(attendance) = attendance else {
        return Ok(Made::Detached);
    };
    let raw = terminal.then(|| RawMode::enter().ok()).flatten();
    let outcome = attend(attendance, &child.pidfd).map_err(OciError::Runtime)?;
    drop(raw);
    Ok(Made::Ended(exit_code(outcome)))
}

/// Reports warnings and noteworthy parts of a plan.
fn tell_plan(plan: &Plan, say: Say<'_>) {
    for warning in &plan.warnings {
        say(Level::Warning, warning);
    }
    say(
        Level::Debug,
        "nsexec container setup: the process will join the container's namespaces",
    );
    if let Some(Op::Affinity(mask)) = plan.ops.first() {
        let mask = mask
            .iter()
            .rev()
            .fold(String::new(), |text, word| match &text[..] {
                "" if *word == 0 => text,
                "" => format!("{word:x}"),
                _ => format!("{text}{word:016x}"),
            });
        say(
            Level::Debug,
            &format!("nsexec[{}]: affinity: 0x{mask}", std::process::id()),
        );
    }
    if let Some(flags) = seccomp::flags(plan) {
        say(Level::Debug, &format!("seccomp filter flags: {flags}"));
    }
}

/// Returns the first process of a container in which others can run.
fn enterable(place: &Place, record: &Record, ignore_paused: bool) -> Result<(OwnedFd, u32), OciError> {
    let refuse = |text| Err(OciError::Container(ContainerError::NotExecutable(text)));
    match status(place, record) {
        Status::Creating => refuse("cannot exec in a container that is created"),
        Status::Paused if !ignore_paused => {
            refuse("cannot exec in a paused container (use --ignore-paused to override)")
        }
        Status::Stopped => refuse("cannot exec in a stopped container"),
        Status::Paused | Status::Created | Status::Running => match (status::init(record), record.pid) {
            (Some(init), Some(pid)) => Ok((init, pid)),
            _ => refuse("cannot exec in a stopped container"),
        },
    }
}

/// Reports the new process to the caller.
fn tell(options: &ExecOptions, child: &Child) -> Result<(), OciError> {
    if let Some(socket) = &options.pidfd_socket {
        send("pidfd", socket, "setns", &child.pidfd)?;
    }
    match &options.pid_file {
        Some(path) => pidfile::write(path, child.pid),
        None => Ok(()),
    }
}

fn take_console(
    socket: Option<&Path>,
    attendance: Option<&mut Attendance>,
    master: OwnedFd,
) -> Result<(), Refusal> {
    match (socket, attendance) {
        (Some(socket), _) => Ok(send("console", socket, "/dev/ptmx", &master)?),
        (None, Some(attendance)) => Ok(attendance.take_console(master)?),
        (None, None) => Ok(()),
    }
}

/// Returns the process: the file's, or the container's own with changes.
fn process(options: &ExecOptions, record: &Record) -> Result<Process, OciError> {
    if let Some(path) = &options.process {
        let text = bundle::read(path)?;
        return serde_json::from_str(&text).map_err(OciError::json(path.display().to_string()));
    }
    if options.args.is_empty() {
        return Err(OciError::Usage("process args cannot be empty".to_owned()));
    }
    let spec = bundle::read_spec(Path::new(&record.bundle))?;
    let process = spec
        .process
        .ok_or_else(|| OciError::Property("config.json: process is missing".to_owned()))?;
    change(process, options)
}

fn change(mut process: Process, options: &ExecOptions) -> Result<Process, OciError> {
    process.args.clone_from(&options.args);
    process.terminal = options.tty;
    process.env.extend(options.env.iter().cloned());
    process.user.additional_gids.extend(&options.additional_gids);
    if let Some(cwd) = &options.cwd {
        process.cwd.clone_from(cwd);
    }
    if let Some(user) = &options.user {
        let number = |what: &str, text: &str| {
            text.parse().map_err(|_| {
                OciError::Usage(format!("bad {what} {text:?}: only numbers can be given to exec"))
            })
        };
        let (uid, gid) = user
            .split_once(':')
            .map_or((&user[..], None), |(uid, gid)| (uid, Some(gid)));
        process.user.uid = number("uid", uid)?;
        if let Some(gid) = gid {
            process.user.gid = number("gid", gid)?;
        }
    }
    if !options.caps.is_empty() {
        let sets = process.capabilities.get_or_insert_with(Capabilities::default);
        for set in [&mut sets.bounding, &mut sets.effective, &mut sets.permitted] {
            set.extend(options.caps.iter().cloned());
        }
        // Ambient as well, so that a program of a non-root user keeps it across execve(2), if it is inheritable.
        let inherited = options.caps.iter().filter(|name| sets.inheritable.contains(name));
        sets.ambient.extend(inherited.cloned());
    }
    if let Some(label) = &options.process_label {
        process.selinux_label = Some(label.clone());
    }
    if let Some(profile) = &options.apparmor {
        process.apparmor_profile = Some(profile.clone());
    }
    if let Some(no_new_privs) = options.no_new_privs {
        process.no_new_privileges = no_new_privs;
    }
    Ok(process)
}

fn plan(
    mut process: Process,
    (kept, annotations): (Kept, BTreeMap<String, String>),
    (pid, init): (u32, &OwnedFd),
    (namespaces, preserve_fds, keyring): (u32, u32, Option<&str>),
) -> Result<Plan, OciError> {
    let affinity = process.exec_cpu_affinity.take().unwrap_or_default();
    let spec = Spec {
        process: Some(process),
        linux: kept.linux,
        annotations,
        ..Spec::default()
    };
    let in_user_namespace = spec.namespace(NamespaceType::User).is_some();
    let newcomer = Newcomer {
        spec: &spec,
        pidfd: init
            .try_clone()
            .map_err(OciError::file("hold the process of", "the container"))?,
        namespaces,
        root: other_root(&spec, pid, init)?,
        tools: None,
        default_filter: None,
        stdin: Stdin::Inherited,
        preserve_fds,
        keyring,
        all_processors: true,
        facts: Facts {
            setgroups: !in_user_namespace || groups_allowed(&format!("/proc/{pid}")),
            ..plan::facts(&spec)
        },
    };
    let mut plan = tote_sandbox::enter(newcomer)?;
    let all = plan.ops.iter_mut().find(|op| matches!(op, Op::Affinity(_)));
    if let (Some(op), false) = (all, affinity.last.is_empty()) {
        *op = tote_sandbox::affinity(&affinity.last)?;
    }
    if !affinity.initial.is_empty() {
        // This comes before the process enters the cgroup, which may be limited to other processors.
        plan.ops.insert(0, tote_sandbox::affinity(&affinity.initial)?);
    }
    Ok(plan)
}

/// Returns the container's root if that is not the root of a mount namespace of its own.
fn other_root(spec: &Spec, pid: u32, init: &OwnedFd) -> Result<Option<OwnedFd>, OciError> {
    if spec.has_new(NamespaceType::Mount) {
        return Ok(None);
    }
    let opened = tote_runtime::root_of(pid, init.as_fd());
    let path = format!("/proc/{pid}/root");
    opened
        .map(Some)
        .map_err(|errno| OciError::file("open the container's root", path)(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_of_the_containers_process() {
        let process = Process {
            cwd: "/".to_owned(),
            terminal: true,
            env: vec!["A=1".to_owned()],
            ..Process::default()
        };
        let options = ExecOptions {
            args: vec!["id".to_owned()],
            user: Some("5:6".to_owned()),
            env: vec!["A=2".to_owned()],
            caps: vec!["CAP_KILL".to_owned()],
            no_new_privs: Some(true),
            ..ExecOptions::default()
        };
        let changed = change(process.clone(), &options).unwrap();
        assert_eq!((changed.user.uid, changed.user.gid), (5, 6));
        assert_eq!(changed.env, ["A=1", "A=2"]);
        assert!(!changed.terminal && changed.no_new_privileges);
        assert_eq!(changed.capabilities.unwrap().permitted, ["CAP_KILL"]);
        for bad in ["", "root", "1:x", "-1", "5000000000"] {
            let options = ExecOptions {
                user: Some(bad.to_owned()),
                ..options.clone()
            };
            assert!(change(process.clone(), &options).is_err(), "{bad}");
        }
    }
}
