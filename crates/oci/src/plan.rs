//! From a bundle to the plan of its first process.

use crate::bundle::{Bundle, finish_environment};
use crate::cgroup::Planned;
use crate::create::{CreateOptions, Expected, Life};
use crate::store::Place;
use crate::{Id, OciError, home, hooks, joined, peer};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::path::PathBuf;
use tote_runtime::{Listen, Maps, Point, hooks_inside};
use tote_sandbox::{
    CgroupView, DeviceNodes, Facts, Joins, Lifecycle, Lifetime, MapOrigin, Plan, Request, Root, Stdin,
    Switch, clone_flag,
};
use tote_spec::{ConsoleSize, NamespaceType, Process, Spec};
use tote_sys::{ComingNetwork, IdMaps};

/// Plans the first process.
pub(crate) fn expect(
    (place, id): (&Place, &Id),
    bundle: &Bundle,
    cgroup: Planned,
    (options, life): (&CreateOptions, Life),
    network: Option<ComingNetwork>,
) -> Result<Expected, OciError> {
    let spec = &bundle.spec;
    let (hidden, keyring) = (hidden(bundle, options)?, keyring(id));
    let (id_mapping, maps) = mapping(spec)?;
    let root = crate::seal::is_root_of_machine();
    let cgroup_view = if cgroup.unified && cgroup.legacy.is_empty() {
        CgroupView::Unified
    } else if root || cgroup.is_makeable {
        CgroupView::Legacy(&cgroup.legacy)
    } else {
        CgroupView::None
    };
    let request = Request {
        spec,
        attach_point: &bundle.rootfs,
        files: &[],
        fill: &[],
        id_mapping,
        default_filter: false,
        stdin: Stdin::Inherited,
        init: false,
        lifetime: Lifetime::Detached,
        preserve_fds: options.preserve_fds,
        switch: hidden.as_deref().map_or(Switch::Pivot, Switch::Move),
        keyring: (!options.no_new_keyring).then_some(&keyring),
        all_processors: true,
        links: &[],
        facts: Facts {
            setgroups: may_set_groups(spec),
            device_nodes: device_nodes(spec, root),
            cgroup_view,
            network_comes: network.is_some(),
            ..facts(spec)
        },
    };
    let joins = joins(spec)?;
    let both = joined::check(spec, &joins)?;
    let joins = Joins {
        proc: peer::of(spec, &joins),
        shm: None,
        namespaces: joins,
    };
    let mut plan = tote_sandbox::plan(&request, Root::Bind(bundle.rootfs.clone()), joins)?;
    plan.warnings.extend(both);
    let states = live(&mut plan, place, spec, life)?;
    Ok(Expected {
        plan,
        cgroup,
        maps,
        network,
        states,
    })
}

/// Returns the name of a container's session keyring. It is runc's: rules of security modules depend on it.
pub(crate) fn keyring(id: &Id) -> String {
    format!("_ses.{id}")
}

/// Returns mounts to detach from a host root that is covered and not left; `None` if it is left.
fn hidden(bundle: &Bundle, options: &CreateOptions) -> Result<Option<Vec<PathBuf>>, OciError> {
    const MOUNTS: &str = "/proc/self/mountinfo";
    if !options.no_pivot {
        return Ok(None);
    }
    let mounts = std::fs::read_to_string(MOUNTS).map_err(OciError::file("read", MOUNTS))?;
    Ok(Some(tote_sandbox::whole_proc_and_sys(&mounts, &bundle.rootfs)))
}

/// Returns the facts that hold for every plan on this host and in this process.
pub(crate) fn facts(spec: &Spec) -> Facts<'static> {
    let process = spec.process.as_ref();
    Facts {
        becomes_root: false,
        security_module: tote_runtime::security_module(),
        ..tote_runtime::host_facts(process.is_some_and(|process| process.oom_score_adj.is_some()))
    }
}

/// Adds the hooks and the start gate.
fn live(plan: &mut Plan, place: &Place, spec: &Spec, life: Life) -> Result<[Option<OwnedFd>; 2], OciError> {
    let failed = OciError::kernel("prepare the hooks");
    let environment = spec.process.as_ref().map_or(&[][..], |process| &process.env);
    let (before, after, runtime_hooks) = match &spec.hooks {
        None => (Vec::new(), Vec::new(), false),
        Some(hooks) => (
            hooks::specs(&hooks.create_container),
            hooks::specs(&hooks.start_container),
            !hooks.prestart.is_empty() || !hooks.create_runtime.is_empty(),
        ),
    };
    let prepare = || {
        let before = hooks_inside(Point::CreateContainer, &before, environment)?;
        let after = hooks_inside(Point::StartContainer, &after, environment)?;
        Ok((before, after))
    };
    let ((create_container, creating), (start_container, created)) = prepare().map_err(failed)?;
    let gate = match life {
        Life::UntilCreated => Some(place.make_gate()?),
        Life::UntilRunning | Life::ToTheEnd => None,
    };
    plan.live(Lifecycle {
        runtime_hooks,
        create_container,
        start_container,
        gate,
    });
    Ok([creating, created])
}

/// Completes the environment and the terminal's size.
pub(crate) fn finish_process(bundle: &mut Bundle, listen: &Listen) {
    let Some(mut process) = bundle.spec.process.take() else {
        return;
    };
    let home = |uid| home::in_bundle(bundle, uid);
    finish_environment(&mut process, &home, listen);
    leave_size(&mut process);
    bundle.spec.process = Some(process);
}

/// Checks that a console has a holder: runc's rules, in its words.
pub(crate) fn check_console(terminal: bool, detached: bool, socket: bool) -> Result<(), OciError> {
    if detached && terminal && !socket {
        let text = "cannot allocate tty if tote will detach without setting console socket";
        return Err(OciError::Usage(text.to_owned()));
    }
    if socket && !(detached && terminal) {
        let text = "cannot use console socket if tote will not detach or allocate tty";
        return Err(OciError::Usage(text.to_owned()));
    }
    Ok(())
}

/// Gives a terminal without a configured size the size 0×0, as the kernel makes it: the engine sets it later.
pub(crate) fn leave_size(process: &mut Process) {
    if process.terminal && process.console_size.is_none() {
        process.console_size = Some(ConsoleSize { height: 0, width: 0 });
    }
}

/// Gives a terminal that stands for the caller's its size from the start: the program may ask at once.
pub(crate) fn fit_terminal(process: &mut Process) {
    if process.terminal
        && rustix::termios::isatty(rustix::stdio::stdin())
        && let Some((height, width)) = tote_runtime::terminal_size()
    {
        process.console_size = Some(ConsoleSize { height, width });
    }
}

/// Leaves line ends unchanged if the program's output does not go to a terminal.
pub(crate) fn relay_line_ends(plan: &mut Plan) {
    if !rustix::termios::isatty(rustix::stdio::stdout()) {
        plan.keep_line_ends();
    }
}

/// True if the container has a PID namespace of its own, so that its processes end with its first.
pub(crate) fn has_own_pids(spec: &Spec) -> bool {
    spec.namespace(NamespaceType::Pid)
        .is_some_and(|namespace| namespace.path.is_none())
}

/// Returns the kind of id mapping, and the maps that the parent writes.
fn mapping(spec: &Spec) -> Result<(MapOrigin, Option<Maps>), OciError> {
    let is_new = spec
        .namespace(NamespaceType::User)
        .is_some_and(|namespace| namespace.path.is_none());
    let (Some(linux), true) = (&spec.linux, is_new) else {
        return Ok((MapOrigin::None, None));
    };
    if linux.uid_mappings.is_empty() || linux.gid_mappings.is_empty() {
        return Err(OciError::Property(
            "user namespaces enabled, but no uid or gid mappings found".to_owned(),
        ));
    }
    let (uid, gid) = (linux.uid_mappings.clone(), linux.gid_mappings.clone());
    let own = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    let privileged = own.0 == 0;
    if let (
        [one_uid @ tote_spec::IdMapping { size: 1, .. }],
        [one_gid @ tote_spec::IdMapping { size: 1, .. }],
        false,
    ) = (&uid[..], &gid[..], privileged)
        && (one_uid.host_id, one_gid.host_id) == own
    {
        let maps = IdMaps {
            uid: (one_uid.container_id, one_uid.host_id),
            gid: (one_gid.container_id, one_gid.host_id),
        };
        return Ok((MapOrigin::Own(maps), None));
    }
    let maps = Maps { uid, gid, privileged };
    Ok((MapOrigin::ByParent, Some(maps)))
}

/// Opens the namespaces to join.
fn joins(spec: &Spec) -> Result<Vec<(NamespaceType, OwnedFd)>, OciError> {
    let mut joins = Vec::new();
    for namespace in spec.namespaces() {
        if let Some(path) = &namespace.path {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let fd = rustix::fs::open(path, flags, Mode::empty())
                .map_err(|errno| OciError::file("open the namespace", path)(errno.into()))?;
            // A namespace of another kind would let the process make its mounts in an unintended place. The kernel
            // refuses it as well, but with a worse error.
            if tote_sys::namespace_kind(fd.as_fd()) != Ok(clone_flag(namespace.kind)) {
                let wrong = std::io::Error::other(format!("it is no {:?} namespace", namespace.kind));
                return Err(OciError::file("join the namespace", path)(wrong));
            }
            joins.push((namespace.kind, fd));
        }
    }
    Ok(joins)
}

/// Chooses how device nodes are provided. Root makes nodes, which the cgroup's rules limit; in a user namespace none
/// can be made, and binds keep the nodes that they contain.
fn device_nodes(spec: &Spec, root: bool) -> DeviceNodes {
    if root && spec.namespace(NamespaceType::User).is_none() {
        DeviceNodes::Ruled
    } else {
        DeviceNodes::Bound
    }
}

/// True if setgroups(2) is allowed in the user namespace that the container joins, or else in this process's own.
fn may_set_groups(spec: &Spec) -> bool {
    let joined = spec
        .namespace(NamespaceType::User)
        .and_then(|namespace| namespace.path.as_deref());
    let process = joined
        .and_then(|path| path.strip_suffix("/ns/user"))
        .unwrap_or("/proc/self");
    tote_runtime::groups_allowed(process)
}
