//! Options and the host's facts become the OCI spec.

use crate::user::{Ids, spec_mappings};
use crate::{Caller, EngineError, Home, device, volume};
use tote_bundle::{ContainerId, Context, ImageConfig, IpcMode, PidMode, RunOptions, spec};
use tote_sandbox::IdMapping;
use tote_spec::{ConsoleSize, NamespaceType, Spec};

/// The spec of a container; directories that it mounts are made, unless it is only to be looked at.
pub(crate) fn make(
    home: &Home,
    id: &ContainerId,
    options: &RunOptions,
    config: &ImageConfig,
    ids: &Ids,
    environment: &dyn Fn(&str) -> Option<String>,
    dry: bool,
) -> Result<Spec, EngineError> {
    let (uid_mappings, gid_mappings) = spec_mappings(ids.mapping, ids.maps.as_ref());
    let volumes = if dry {
        tote_bundle::volumes_of(options, config)
            .into_iter()
            .map(|(destination, _)| (destination, home.volumes().display().to_string()))
            .collect()
    } else {
        volume::prepare(home, id, options, config)?
    };
    let devices = device::devices(options)?;
    let (pid_peer, ipc_peer) = peers(home, options)?;
    let hostname = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let size = if options.tty {
        tote_runtime::terminal_size()
    } else {
        None
    };
    let context = Context {
        added_gids: &ids.added_gids,
        rootless: home.caller != Caller::Root,
        uid_mappings: &uid_mappings,
        gid_mappings: &gid_mappings,
        setgroups: !matches!(ids.mapping, IdMapping::Own(_)),
        machine_hostname: Some(&hostname),
        terminal_size: size.map(|(height, width)| ConsoleSize { height, width }),
        pid_peer,
        ipc_peer,
        volumes: &volumes,
        devices: &devices,
        ..Context::new(id, "rootfs", &ids.user, environment)
    };
    // PID 1 is a process of the plan's, not an executable that is bound into the container.
    let without_init = RunOptions {
        init: false,
        ..options.clone()
    };
    let mut spec = spec(&without_init, config, &context)?;
    // A namespace of another container's can be joined only by root of the user namespace that it belongs to.
    if let Some(peer) = pid_peer.or(ipc_peer).filter(|_| home.caller != Caller::Root) {
        join_user_namespace(&mut spec, peer);
    }
    let lacks = |group| home.caller == Caller::NestedRoot && !crate::user::maps_group(group);
    if lacks(TTY) {
        for mount in spec
            .mounts
            .iter_mut()
            .filter(|mount| mount.kind.as_deref() == Some("devpts"))
        {
            mount.options.retain(|option| *option != format!("gid={TTY}"));
        }
    }
    if lacks(LAST_OF_PING)
        && let Some(linux) = spec
            .linux
            .as_mut()
            .filter(|_| !options.sysctls.contains_key(PING))
    {
        linux.sysctl.remove(PING);
    }
    Ok(spec)
}

/// The processes of the containers whose PID and IPC namespaces it joins; none where they do not run.
fn peers(home: &Home, options: &RunOptions) -> Result<(Option<u32>, Option<u32>), EngineError> {
    let peer = |name: &str| {
        let found = crate::container::find(home, name)?;
        Ok::<_, EngineError>(found.state.process.map(|process| process.pid))
    };
    let pid_peer = if let PidMode::Container(name) = &options.pid {
        peer(name)?
    } else {
        None
    };
    let ipc_peer = if let IpcMode::Container(name) = &options.ipc {
        peer(name)?
    } else {
        None
    };
    Ok((pid_peer, ipc_peer))
}

fn join_user_namespace(spec: &mut Spec, peer: u32) {
    let Some(linux) = &mut spec.linux else { return };
    linux.uid_mappings.clear();
    linux.gid_mappings.clear();
    for namespace in linux
        .namespaces
        .iter_mut()
        .filter(|namespace| namespace.kind == NamespaceType::User)
    {
        namespace.path = Some(format!("/proc/{peer}/ns/user"));
    }
}

/// Whether the container joins another's user namespace.
pub(crate) fn joins_user_namespace(spec: &Spec) -> bool {
    spec.namespace(NamespaceType::User)
        .is_some_and(|namespace| namespace.path.is_some())
}

/// What docker sets where it can; a user namespace has not all the groups of its range.
const PING: &str = "net.ipv4.ping_group_range";

/// The last group of what docker sets.
const LAST_OF_PING: u32 = 2_147_483_647;

/// The group of terminals, in every distribution.
const TTY: u32 = 5;

/// Files that are the container's own, where it has no mount of its own there.
pub(crate) fn files(spec: &Spec, options: &RunOptions) -> Vec<(&'static str, Vec<u8>)> {
    let mounted = |path: &str| spec.mounts.iter().any(|mount| mount.destination == path);
    let mut files = Vec::with_capacity(3);
    if let Some(hostname) = spec.hostname.as_deref().filter(|_| !mounted("/etc/hostname")) {
        files.push(("etc/hostname", format!("{hostname}\n").into_bytes()));
    }
    if !mounted("/etc/hosts") {
        files.push((
            "etc/hosts",
            crate::etc::hosts(spec.hostname.as_deref(), &options.add_hosts).into_bytes(),
        ));
    }
    if !mounted("/etc/resolv.conf")
        && let Some(text) = crate::etc::resolv_conf(options)
    {
        files.push(("etc/resolv.conf", text.into_bytes()));
    }
    files
}
