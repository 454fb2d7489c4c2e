//! Facts about this host that a plan needs.

use crate::cgroup::Planned;
use crate::container::ProcessId;
use crate::peer::Peers;
use crate::user::Ids;
use crate::{Caller, EngineError, Home, cgroup, device, given};
use std::path::PathBuf;
use tote_bundle::{Capability, ContainerId, RunOptions, SeccompChoice};
use tote_sandbox::{CgroupView, DeviceNodes, Facts, Joins, MapOrigin};
use tote_spec::{Linux, Spec};
use tote_state::process;

/// Returns the facts about this host that a plan needs, without the limits.
pub fn facts<'a>(
    home: &Home,
    options: &RunOptions,
    spec: &Spec,
    planned: Option<&'a Planned>,
    device_nodes: DeviceNodes,
    ids: &Ids,
) -> Facts<'a> {
    Facts {
        hard_limit: &|_| None,
        cgroup_view: match planned {
            Some(planned) if planned.unified && planned.legacy.is_empty() => CgroupView::Unified,
            Some(planned) if home.caller == Caller::Root => CgroupView::Legacy(&planned.legacy),
            _ => CgroupView::None,
        },
        waits_for_cgroup: planned.is_some(),
        setgroups: crate::user::may_set_groups(spec),
        device_nodes,
        privileged: home.caller == Caller::Root,
        becomes_root: ids.shift.is_some(),
        ..tote_runtime::host_facts(options.oom_score_adj.is_some())
    }
}

/// `nodev` keeps device nodes harmless as long as the container cannot mount: a container that may, or is to open nodes
/// that it makes itself or that are bound, gets the device rules of a cgroup instead, which only root of the machine can
/// set.
pub fn device_nodes(options: &RunOptions, spec: &Spec, caller: Caller, ids: &Ids) -> DeviceNodes {
    let may_mount = options.privileged
        || options.cap_add.iter().any(|capability| match capability {
            Capability::All => true,
            Capability::One(name) => *name == "CAP_SYS_ADMIN",
        });
    let in_user_namespace = ids.mapping != MapOrigin::None;
    let cgroup = may_mount || !options.device_grants.is_empty() || device::opens_bound(spec);
    if cgroup && caller == Caller::Root && !in_user_namespace {
        DeviceNodes::Ruled
    } else {
        DeviceNodes::Mounted
    }
}

/// Whether the cgroup has to limit devices: where nothing else does, where a device may not be used in every way, and where
/// mounts come in later (`:rslave`, `:rshared`), which are as `nodev` as the host has mounted them.
fn needs_device_rules(options: &RunOptions, linux: &Linux, nodes: DeviceNodes) -> bool {
    nodes == DeviceNodes::Ruled
        || linux.rootfs_propagation.is_some()
        || options.devices.iter().any(|device| !device.has_every_access())
}

/// The limits of a container: whether it has the default filter, and its cgroup.
pub fn limits(
    home: &Home,
    id: &ContainerId,
    options: &RunOptions,
    (spec, device_nodes): (&mut Spec, DeviceNodes),
    (kept, dry): (bool, bool),
) -> Result<(bool, Option<Planned>), EngineError> {
    let Some(linux) = &mut spec.linux else {
        return Err(tote_sandbox::PlanError::Missing("linux").into());
    };
    let default_filter = choose_filter(options, linux)?;
    let rules = needs_device_rules(options, linux, device_nodes);
    let planned = cgroup::of_container(home, id, options, linux, (rules, kept, dry))?;
    cgroup::bound_processes(spec, options, home.caller);
    Ok((default_filter, planned))
}

/// Chooses the filter of system calls; true for the default one.
pub fn choose_filter(options: &RunOptions, linux: &mut Linux) -> Result<bool, EngineError> {
    match options.seccomp() {
        SeccompChoice::Default => return Ok(!options.privileged),
        SeccompChoice::Unconfined => {}
        SeccompChoice::File(path) => linux.seccomp = Some(given::read_profile(PathBuf::from(path))?),
        SeccompChoice::Given(profile) => linux.seccomp = Some(*profile),
    }
    Ok(false)
}

/// Opens the objects of other processes that the container joins.
pub fn joins(spec: &Spec, options: &RunOptions, peers: &Peers) -> Result<Joins, EngineError> {
    let mut namespaces = Vec::new();
    for namespace in spec.namespaces() {
        if let Some(path) = &namespace.path {
            let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::CLOEXEC;
            let fd = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|source| {
                EngineError::Kernel {
                    attempt: "open the namespace to join",
                    source,
                }
            })?;
            namespaces.push((namespace.kind, fd));
        }
    }
    let has_own = options.mounts.iter().any(|mount| mount.destination == "/dev/shm");
    let shm = if has_own { None } else { peers.shm() };
    let open = |first: &ProcessId| process::open(first.pid, first.start_time);
    let proc = peers.pid.as_ref().and_then(open);
    // They were opened by number.
    peers.check()?;
    Ok(Joins {
        namespaces,
        shm,
        proc,
    })
}
