//! The container's cgroup: where it is planned, and how a lost one is found again.

use crate::{Caller, EngineError, Home, MachineError, RequestError};
use std::io::ErrorKind;
use tote_bundle::{CgroupsMode, ContainerId, DEFAULT_PIDS, RunOptions};
use tote_cgroup::{
    Cgroup, CgroupPath, Controllers, GroupPlace, Layout, LayoutError, PathError, Plan, Request,
};
use tote_runtime::ErrandError;
use tote_spec::{Linux, Resources, Rlimit, Spec};
use tote_sys::best_effort;

/// A planned cgroup, and the part of it that the container sees.
#[derive(Debug)]
pub struct Planned {
    /// Plan of the groups.
    pub plan: Plan,
    /// Name and path of each v1 directory.
    pub legacy: Vec<(String, String)>,
    /// True if the group is one of cgroup v2.
    pub unified: bool,
    /// To be written down before they are made, where the id alone does not say where they are.
    pub record: Option<String>,
}

/// Properties of a container whose cgroup is planned.
struct Asked<'a> {
    caller: Caller,
    id: &'a ContainerId,
    options: &'a RunOptions,
    /// Whether it stays, and `pause`, `stats` and `update` are to work with it.
    kept: bool,
    dry: bool,
    /// The group of its pod.
    pod: Option<Cgroup>,
}

const NPROC: &str = "RLIMIT_NPROC";

/// Controllers that a kept container has a cgroup of, whatever its options are.
const KEPT: [Controllers; 5] = [
    Controllers::FREEZER,
    Controllers::MEMORY,
    Controllers::CPU,
    Controllers::CPUACCT,
    Controllers::PIDS,
];

/// Plans the groups of a container: what its spec limits, within those of its pod; its device rules only where they are
/// needed (`facts.rs`).
pub fn of_container(
    home: &Home,
    id: &ContainerId,
    options: &RunOptions,
    linux: &Linux,
    (device_rules, kept, dry): (bool, bool, bool),
) -> Result<Option<Planned>, EngineError> {
    let mut resources: Resources = linux.resources.clone().unwrap_or_default();
    if !device_rules {
        resources.devices.clear();
    }
    let nobody = options.cgroups == CgroupsMode::Disabled;
    let caller = if nobody { Caller::User } else { home.caller };
    let keeps_pids = options.pids_limit.is_some() && (nobody || caller == Caller::Root || may_count());
    without_defaults(&mut resources, caller, keeps_pids);
    let asked = Asked {
        caller: home.caller,
        id,
        options,
        kept,
        dry,
        pod: match options.pod.as_deref() {
            Some(pod) => crate::pod::group_of(home, pod)?,
            None => None,
        },
    };
    plan(&asked, &resources)
}

/// Plans the groups that the limits need; without limits it plans no group.
fn plan(asked: &Asked<'_>, resources: &Resources) -> Result<Option<Planned>, EngineError> {
    let Asked {
        caller,
        id,
        options,
        kept,
        dry,
        ..
    } = *asked;
    let watched = options.cpu_time.is_some();
    if options.cgroups == CgroupsMode::Disabled {
        if !resources.devices.is_empty() {
            return Err(EngineError::Request(RequestError::DeviceRulesDisabled));
        }
        return if watched || *resources != Resources::default() || !options.cgroup_parent.is_empty() {
            Err(EngineError::Request(RequestError::CgroupsDisabled))
        } else {
            Ok(None)
        };
    }
    let own_parent = !options.cgroup_parent.is_empty();
    let pod = asked.pod.as_ref().filter(|_| !own_parent);
    // A report has figures where there are groups that count.
    let kept = kept || own_parent || pod.is_some() || options.report.is_some();
    if options.cgroups == CgroupsMode::Split && !dry {
        let layout = Layout::read().map_err(MachineError::CgroupLayout)?;
        tote_cgroup::make_room(&layout, std::process::id()).map_err(MachineError::CgroupRoom)?;
    }
    if !watched && !kept && *resources == Resources::default() {
        return Ok(None);
    }
    let mut layout = Layout::read().map_err(MachineError::CgroupLayout)?;
    if let Some(pod) = pod {
        layout.enter(pod);
    }
    // A caller that cannot make a cgroup does without the default limits.
    let kept = kept && (caller == Caller::Root || may_make(&layout));
    if !watched && !kept && *resources == Resources::default() {
        return Ok(None);
    }
    let path = path(id, &options.cgroup_parent).map_err(MachineError::CgroupPath)?;
    let mut request = Request::new(&path, resources);
    if watched {
        request.also = Controllers::CPUACCT;
    }
    if kept {
        // What `pause`, `stats` and `update` work with later.
        request.also = KEPT.into_iter().fold(request.also, Controllers::union);
        // v2 gives it to delegated cgroups too; asking for it there could move the group further up.
        if layout.v1_controllers().contains(Controllers::CPUSET) {
            request.also = request.also.union(Controllers::CPUSET);
        }
    }
    for (controllers, _) in pod.into_iter().flat_map(Cgroup::paths) {
        // What limits the pod limits its members.
        request.also = request.also.union(controllers);
    }
    let plan = tote_cgroup::plan(&layout, &request)?;
    let legacy = plan
        .v1_directories()
        .filter_map(|(_, path)| Some((layout.v1_name(&path)?, path.display().to_string())))
        .collect();
    let unified = plan.uses_v2();
    let record = (own_parent || pod.is_some()).then(|| plan.record());
    Ok(Some(Planned {
        plan,
        legacy,
        unified,
        record,
    }))
}

/// Below the parent that is asked for, or near the caller's own.
fn path(id: &ContainerId, parent: &str) -> Result<CgroupPath, PathError> {
    if parent.is_empty() {
        CgroupPath::from_id(id.as_str())
    } else if parent.ends_with(".slice") && !parent.contains('/') {
        CgroupPath::from_oci(&format!("{parent}:tote:{id}"))
    } else {
        CgroupPath::from_oci(&format!("{}/tote-{id}", parent.trim_end_matches('/')))
    }
}

fn may_make(layout: &Layout) -> bool {
    let own = layout.v2.as_ref().map(|hierarchy| hierarchy.own_dir());
    own.is_some_and(|dir| rustix::fs::access(dir, rustix::fs::Access::WRITE_OK).is_ok())
}

/// Whether a group of this user's can limit processes.
fn may_count() -> bool {
    let counts = |layout: &Layout| {
        let unified = layout.v2.as_ref();
        unified.is_some_and(|hierarchy| hierarchy.controllers.contains(Controllers::PIDS))
    };
    Layout::read().is_ok_and(|layout| counts(&layout) && may_make(&layout))
}

/// Default limits, which a caller without a cgroup of its own does without silently; and that of processes
/// where [`bound_processes`] stands in for it.
fn without_defaults(resources: &mut Resources, caller: Caller, keeps_pids: bool) {
    if caller != Caller::Root && !keeps_pids {
        resources.pids = None;
    }
}

/// Limits the processes of a user's container where no cgroup does: setrlimit(2) counts, since Linux 5.14, those that an
/// id has in the user namespace, and no root of such a namespace may raise the limit. Each id of the container's has as
/// many.
pub fn bound_processes(spec: &mut Spec, options: &RunOptions, caller: Caller) {
    let asked = options.pids_limit.unwrap_or(DEFAULT_PIDS);
    let Some(process) = &mut spec.process else { return };
    let is_said = process.rlimits.iter().any(|rlimit| rlimit.kind == NPROC);
    let Ok(limit @ 1..) = u64::try_from(asked) else {
        return;
    };
    if caller == Caller::Root || is_said || options.pids_limit.is_some() && may_count() {
        return;
    }
    let own = tote_sys::resource_by_name(NPROC).and_then(|resource| tote_sys::hard_limit(resource).ok());
    let limit = own.map_or(limit, |own| limit.min(own.hard));
    process.rlimits.push(Rlimit {
        kind: NPROC.to_owned(),
        hard: limit,
        soft: limit,
    });
}

/// Ends what runs in a container's cgroup and removes it, as recorded or as the id names it.
///
/// # Errors
/// The cgroup may still be there. A sweep has no caller to tell, and the next one tries again.
pub fn clear(id: &ContainerId, record: Option<&str>) -> Result<(), EngineError> {
    let groups = match record {
        Some(record) => Some(record.to_owned()),
        None => by_id(id)?,
    };
    let opened = match groups.as_deref().map(Cgroup::open) {
        // A record that a power cut has damaged names no group.
        None | Some(Err(tote_cgroup::Error::Record { .. })) => None,
        Some(opened) => Some(opened.map_err(ErrandError::Cgroup)?),
    };
    let mut removed = Ok(());
    if let Some(cgroup) = opened.filter(|cgroup| !cgroup.is_empty()) {
        best_effort(cgroup.kill_all());
        removed = cgroup.remove();
    }
    // And what was made above them for groups that were not made any more.
    record.into_iter().for_each(tote_cgroup::remove_above);
    Ok(removed.map_err(ErrandError::Cgroup)?)
}

/// Plans the group of a pod: with these limits, and where its members can have what they need.
pub(crate) fn plan_pod(id: &ContainerId, parent: &str, resources: &Resources) -> Result<Plan, EngineError> {
    let layout = Layout::read().map_err(MachineError::CgroupLayout)?;
    let path = path(id, parent).map_err(MachineError::CgroupPath)?;
    let mut request = Request::new(&path, resources);
    request.also = KEPT.into_iter().fold(request.also, Controllers::union);
    Ok(tote_cgroup::plan(&layout, &request)?)
}

/// Where the id's groups would be if this caller had made them: a record for [`Cgroup::open`], which leaves out what
/// is not there. Nothing where the kernel has no cgroups.
fn by_id(id: &ContainerId) -> Result<Option<String>, EngineError> {
    let layout = match Layout::read() {
        Err(LayoutError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => return Ok(None),
        layout => layout.map_err(MachineError::CgroupLayout)?,
    };
    let relative = CgroupPath::from_id(id.as_str()).map_err(MachineError::CgroupPath)?;
    let v1 = layout.v1.iter().filter(|hierarchy| hierarchy.name.is_none());
    let mut places: Vec<_> = v1
        .map(|hierarchy| GroupPlace {
            made: 1,
            ..GroupPlace::v1(
                hierarchy.controllers,
                hierarchy.own_dir().join(relative.as_path()),
            )
        })
        .collect();
    if let Some(hierarchy) = &layout.v2 {
        // On v2 the group is below the nearest ancestor that can hand out controllers.
        let own = hierarchy.own_dir();
        let above = own
            .ancestors()
            .take_while(|base| base.starts_with(&hierarchy.mount_point));
        for base in above {
            for (made, path) in [(0, &relative), (1, &relative.held())] {
                places.push(GroupPlace {
                    made,
                    controllers: hierarchy.controllers,
                    ..GroupPlace::v2(base.join(path.as_path()))
                });
            }
        }
    }
    Ok(Some(GroupPlace::record(places)))
}
