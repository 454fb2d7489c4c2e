//! Another process in a container that is in a virtual machine: a process in the sandbox, whose program has the guest perform
//! the plan of the one in the container.

use super::VmFault;
use super::attend::{PROGRAM, VISIT, packed, place};
use super::guest::facts;
use super::user;
use crate::container::Entry;
use crate::exec::{ExecError, Inside, Target, Users, all_capabilities, capabilities_of_filter, plan_here};
use crate::rootfs::Source;
use crate::{EngineError, Home};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::{AddressFamily, SocketType};
use std::fs::File;
use tote_bundle::{ExecContext, ExecOptions, exec_process, resolve_user};
use tote_sandbox::{Newcomer, Plan, Stdin, Tools, clone_flag};
use tote_spec::{Capabilities, IdMapping, Linux, Namespace, NamespaceType, Process, Spec, User};
use tote_vmm::Streams;

/// Namespaces of each sandbox.
const NAMESPACES: [NamespaceType; 5] = [
    NamespaceType::Mount,
    NamespaceType::Pid,
    NamespaceType::Ipc,
    NamespaceType::Uts,
    NamespaceType::Network,
];

/// Returns what a process in the sandbox of a container's machine shares with the attendant.
///
/// # Errors
/// [`VmFault::File`] where the ids of this user namespace cannot be read.
pub fn sandbox_of(home: &Home, entry: &Entry) -> Result<Inside, VmFault> {
    user::of_running(home.caller, entry).map(sandbox)
}

/// Returns what a process in a machine's sandbox shares with the attendant; without a user it has a user namespace, in which it is root.
pub(crate) fn sandbox(id: Option<u32>) -> Inside {
    let user = id.is_none().then_some(NamespaceType::User);
    let namespaces = NAMESPACES.into_iter().chain(user);
    let id = id.unwrap_or_default();
    // Whatever ids the sandbox has, its processes use this one.
    let map = IdMapping {
        container_id: 0,
        host_id: 0,
        size: 1,
    };
    let maps = Vec::from_iter(user.map(|_| map));
    Inside {
        process: Process {
            user: User {
                uid: id,
                gid: id,
                ..User::default()
            },
            cwd: "/".to_owned(),
            capabilities: Some(Capabilities::default()),
            no_new_privileges: true,
            ..Process::default()
        },
        linux: Linux {
            namespaces: namespaces.map(|kind| Namespace { kind, path: None }).collect(),
            uid_mappings: maps.clone(),
            gid_mappings: maps,
            ..Linux::default()
        },
        default_filter: true,
        ..Inside::default()
    }
}

/// Plans the process in the sandbox, with the plan of the one in the container among its variables: the sandbox has no place
/// for it that others could not write to.
pub fn enter(
    target: &Target,
    guest: &Inside,
    options: &ExecOptions,
    users: Option<Users>,
) -> Result<Plan, EngineError> {
    let inner = wanted((target, guest), options, users)?;
    let mut plan = sandboxed(target, &inner.to_bytes().bytes, options)?;
    plan.warnings.extend(inner.warnings);
    Ok(plan)
}

/// Plans the process in the container, if it may be there.
fn wanted(
    (target, guest): (&Target, &Inside),
    options: &ExecOptions,
    users: Option<Users>,
) -> Result<Plan, EngineError> {
    if options.preserve_fds > 0 {
        return Err(VmFault::Option {
            option: "--preserve-fds",
            reason: "descriptors of the host cannot be in a virtual machine",
        }
        .into());
    }
    inner((target, guest), options, users, None)
}

/// Runs a process in the container without one in the sandbox: this process speaks to the attendant itself, which takes a third less
/// time than to join the sandbox for that. `sent` is called when the guest is at work.
///
/// # Errors
/// [`EngineError`]; a process that cannot begin has a [`VmFault::Exec`].
pub fn attend_here(
    (target, guest): (&Target, &Inside),
    options: &ExecOptions,
    users: Option<Users>,
    (sent, warn): (&mut dyn FnMut(), &mut dyn FnMut(String)),
) -> Result<u8, EngineError> {
    let plan = wanted((target, guest), options, users)?;
    plan.warnings.iter().cloned().for_each(&mut *warn);
    let nothing = File::open("/dev/null").map_err(EngineError::file("open", "/dev/null"))?;
    let mut streams = Streams::own().map_err(VmFault::Vmm)?;
    streams.plain = true;
    if !options.interactive {
        (streams.input, streams.mute) = (nothing.as_fd(), true);
    }
    let (socket, name) = way(target)?;
    let verdict = tote_vmm::visit_by((socket, &name), &plan.to_bytes().bytes, streams, (sent, warn));
    match verdict.message {
        None => Ok(verdict.code),
        Some(message) => Err(VmFault::Exec(message, verdict.code).into()),
    }
}

/// Returns a socket of the sandbox, and the name by which it reaches the container's attendant.
pub(crate) fn way(target: &Target) -> Result<(OwnedFd, String), EngineError> {
    let user = if target.namespaces().user {
        NamespaceType::User
    } else {
        NamespaceType::Network
    };
    let namespaces = clone_flag(NamespaceType::Network) | clone_flag(user);
    let kind = (AddressFamily::UNIX, SocketType::STREAM, None);
    let socket = tote_sys::socket_of(target.init.as_fd(), namespaces, kind);
    let socket = socket.map_err(|source| {
        target.or_ended(ExecError::Root {
            id: target.id.clone(),
            source,
        })
    })?;
    let container = target.entry.as_ref().map(|entry| &entry.container);
    Ok((socket, super::member::attendant(container)))
}

/// Plans a process in the sandbox, and one in the container that has these tools for its root: the guest mounts them from the
/// machine's spare disk, which has to have this superblock then.
pub fn enter_with_tools(
    (target, guest): (&Target, &Inside),
    options: &ExecOptions,
    users: Option<Users>,
    (tools, superblock): (Tools<'_>, &[u8; tote_guest::SUPERBLOCK]),
) -> Result<Plan, EngineError> {
    let inner = inner((target, guest), options, users, Some(tools))?;
    let bytes = [tote_guest::WITH_TOOLS, superblock, &inner.to_bytes().bytes].concat();
    let mut plan = sandboxed(target, &bytes, options)?;
    // The tools are there for as long as the caller holds them, in the guest as on this machine.
    plan.end_with_parent();
    plan.warnings.extend(inner.warnings);
    Ok(plan)
}

/// Plans a process in the sandbox that has the guest do something.
pub(crate) fn sandboxed(target: &Target, bytes: &[u8], options: &ExecOptions) -> Result<Plan, EngineError> {
    visitor(target, (VISIT, bytes), options)
}

/// Plans a process of tote in the sandbox that is called by this word, and has the guest do something.
pub(crate) fn visitor(
    target: &Target,
    (word, bytes): (&str, &[u8]),
    options: &ExecOptions,
) -> Result<Plan, EngineError> {
    let outer = ExecOptions {
        command: vec![place(PROGRAM).display().to_string(), word.to_owned()],
        detach: options.detach,
        interactive: options.interactive,
        tty: options.tty,
        ..ExecOptions::default()
    };
    let mut sandbox = target.inside.clone();
    sandbox.process.env = packed(bytes);
    plan_here((target, &sandbox), &outer, None, target.namespaces(), None)
}

/// Plans the process in the container, for root of the guest.
fn inner(
    (target, guest): (&Target, &Inside),
    options: &ExecOptions,
    users: Option<Users>,
    tools: Option<Tools<'_>>,
) -> Result<Plan, EngineError> {
    let own = &guest.process;
    let filter_for = capabilities_of_filter(own, options);
    let context = ExecContext {
        linux: None,
        users,
        setgroups: true,
        all_capabilities: &|| all_capabilities(u64::MAX),
        environment: &|name| std::env::var(name).ok(),
    };
    let process = exec_process(own.clone(), options, &context);
    let spec = Spec {
        process: Some(crate::exec::with_size(process)),
        linux: Some(guest.linux.clone()),
        ..Spec::default()
    };
    let filter = guest.default_filter.then_some(&*filter_for);
    let stdin = if options.interactive && !options.detach {
        Stdin::Inherited
    } else {
        Stdin::Null
    };
    planned((&spec, target.hold()?), tools, filter, stdin)
}

/// Returns the namespaces that a process in the guest joins: those of a pod as well, which are not among the container's own.
fn namespaces(spec: &Spec) -> u32 {
    let own = spec.namespaces().iter().map(|one| one.kind);
    let all = own.chain(NAMESPACES);
    all.fold(0, |flags, kind| flags | clone_flag(kind))
}

/// Plans a process in a container of the guest, with these tools for its root or none. The descriptor is of a process here, in whose
/// place the guest brings its own.
pub(crate) fn planned(
    (spec, pidfd): (&Spec, OwnedFd),
    tools: Option<Tools<'_>>,
    default_filter: Option<&[String]>,
    stdin: Stdin,
) -> Result<Plan, EngineError> {
    let plan = tote_sandbox::enter(Newcomer {
        spec,
        pidfd,
        namespaces: namespaces(spec),
        root: None,
        tools,
        default_filter,
        stdin,
        preserve_fds: 0,
        keyring: None,
        all_processors: true,
        facts: facts(),
    });
    Ok(plan.map_err(ExecError::Plan)?)
}

/// Looks up the container's own user and the requested one in the image: the guest's files are its own.
pub fn users(home: &Home, entry: &Entry, guest: &Inside, wanted: &str) -> Result<Users, EngineError> {
    let (passwd, group) = look_up(home, entry)?;
    let to = resolve_user(wanted, &passwd, &group).map_err(ExecError::from)?;
    let own = guest.process.user.uid.to_string();
    Ok((resolve_user(&own, &passwd, "").unwrap_or_default(), to))
}

/// Reads passwd(5) and group(5) of the image.
pub(crate) fn look_up(home: &Home, entry: &Entry) -> Result<(String, String), EngineError> {
    let source = Source::open(home, &entry.container.source()?)?;
    let read = |path| {
        let bytes = source.read(home, path)?;
        Ok::<_, EngineError>(String::from_utf8_lossy(&bytes.unwrap_or_default()).into_owned())
    };
    Ok((read("etc/passwd")?, read("etc/group")?))
}
