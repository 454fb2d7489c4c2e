//! Plan of groups and writes: pure, printable, made once before a container starts.

use crate::bpf::{BpfInsn, device_program};
use crate::controllers::Controllers;
use crate::convert;
use crate::devices::{Access, DeviceError};
use crate::error::{Losses, Warning, Why};
use crate::layout::{Hierarchy, Layout};
use crate::path::{CgroupPath, Start};
use crate::write::{Write, Writes};
use crate::{v1, v2};
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tote_spec::Resources;

/// Reason why a request is invalid on every machine.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Device rules cannot be carried out.
    #[error(transparent)]
    Devices(#[from] DeviceError),
    /// The value is beyond the kernel's range; runc's wording.
    #[error("the {bound} allowed cpu-shares is {limit}")]
    Shares {
        /// Which bound: `maximum` or `minimum`.
        bound: &'static str,
        /// Value of the bound.
        limit: u64,
    },
    /// The value is not from 0 to 100.
    #[error("invalid memory swappiness value: {0} (valid range is 0-100)")]
    Swappiness(u64),
    /// Swap and memory limits contradict each other.
    #[error("cannot set the swap limit to {swap}: {why}")]
    Swap {
        /// Requested memory and swap together.
        swap: i64,
        /// Description of the fault.
        why: &'static str,
    },
    /// A key of `unified` is not a control file's name.
    #[error("unified resource {0:?} must be a file name of the form CONTROLLER.PARAMETER (no slashes)")]
    UnifiedKey(String),
    /// A size of huge pages would lead to another file.
    #[error("invalid huge page size {0:?}")]
    PageSize(String),
    /// A key of `unified` has a controller that is not in v2; the first two words are runc's.
    #[error("invalid configuration: cannot use unified resource {0:?}, its controller is on cgroup v1 here")]
    NoUnified(String),
    /// No mounted hierarchy has this limit; runc's wording.
    #[error("cannot set {0} limit: container could not join or create cgroup")]
    NoController(String),
}

/// Controllers that v2 never got.
const V1_ONLY: Controllers = Controllers::NET_CLS.union(Controllers::NET_PRIO);

/// Controllers that every unit of systemd has enabled by default.
const KEPT_BY_SYSTEMD: Controllers = Controllers::MEMORY.union(Controllers::PIDS);

/// Treatment of a limit that the host forbids or lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// For an engine that people use: the container runs, and one warning names the limits that it lacks.
    Warn,
    /// For an OCI runtime: an error, except for devices and absent limits of a caller without permission.
    Strict,
}

/// Requested limits and their place.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Place of the group.
    pub path: &'a CgroupPath,
    /// Limits.
    pub resources: &'a Resources,
    /// Controllers wanted besides those that the limits need, such as FREEZER to pause or MEMORY for statistics.
    pub also: Controllers,
    /// True for a group in every existing hierarchy, as other OCI runtimes make them.
    pub all: bool,
    /// Treatment of limits that are unavailable.
    pub policy: Policy,
}

impl<'a> Request<'a> {
    /// Asks for the fewest groups that carry `resources`, with warnings.
    #[must_use]
    pub fn new(path: &'a CgroupPath, resources: &'a Resources) -> Self {
        Self {
            path,
            resources,
            also: Controllers::NONE,
            all: false,
            policy: Policy::Warn,
        }
    }
}

/// Directories to make and values to write, in order. Prints as one line for each.
#[derive(Clone, Debug)]
pub struct Plan {
    pub(crate) v1: Vec<Group>,
    pub(crate) v2: Option<Unified>,
    pub(crate) policy: Policy,
    pub(crate) explicit: bool,
    pub(crate) losses: Losses,
    pub(crate) clamped: Vec<Warning>,
    program: Option<Vec<BpfInsn>>,
}

/// Group of one v1 hierarchy.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) controllers: Controllers,
    /// Directory that exists already.
    pub(crate) base: PathBuf,
    /// Path below the base.
    pub(crate) path: PathBuf,
    pub(crate) writes: Vec<Write>,
}

/// Group of the v2 hierarchy.
#[derive(Clone, Debug)]
pub(crate) struct Unified {
    pub(crate) mount_point: PathBuf,
    pub(crate) own_path: PathBuf,
    pub(crate) path: CgroupPath,
    /// Controllers to be enabled above it.
    pub(crate) needed: Controllers,
    /// True if all available controllers are enabled.
    pub(crate) all: bool,
    pub(crate) writes: Vec<Write>,
}

impl Plan {
    /// Returns the future directory in each v1 hierarchy, with the controllers there.
    pub fn v1_directories(&self) -> impl Iterator<Item = (Controllers, PathBuf)> {
        self.v1
            .iter()
            .map(|group| (group.controllers, group.base.join(&group.path)))
    }

    /// True if a group in v2 will be made.
    #[must_use]
    pub fn uses_v2(&self) -> bool {
        self.v2.is_some()
    }

    /// Returns the device program for the v2 group's directory: load it as `BPF_PROG_TYPE_CGROUP_DEVICE` and attach
    /// it as `BPF_CGROUP_DEVICE`. `None` without rules, or if v1 carries them.
    #[must_use]
    pub fn device_program(&self) -> Option<&[BpfInsn]> {
        self.program.as_deref()
    }
}

/// Plans the groups for `request`: pure, touches nothing.
///
/// Each controller is used in its version: v1 before v2, because a hybrid machine has in v2 only controllers that v1
/// has not.
///
/// # Errors
/// A value that is wrong everywhere; under [`Policy::Strict`] also a limit whose controller is not mounted.
pub fn plan(layout: &Layout, request: &Request<'_>) -> Result<Plan, PlanError> {
    let in_v1 = layout.v1_controllers();
    let (resources, clamped) = checked(request.resources, request.policy, in_v1)?;
    let resources = &*resources;
    let limited = limited(resources);
    let mut wanted = limited.union(request.also).union(Controllers::PIDS);
    if !resources.devices.is_empty() {
        wanted = wanted.union(Controllers::DEVICES);
    }
    let mut losses = Losses::default();
    missing(limited, layout, request.policy, &mut losses)?;
    missing_keys(resources, layout, request.policy, &mut losses)?;
    let mut v1_writes = Writes::for_controllers(wanted.intersection(in_v1));
    v1::writes(resources, &mut v1_writes);
    let v1_wanted = wanted.intersection(in_v1);
    let used = |h: &&Hierarchy| request.all || h.controllers.intersects(v1_wanted);
    let mut groups: Vec<_> = layout
        .v1
        .iter()
        .filter(used)
        .map(|h| group(h, request.path))
        .collect();
    for write in v1_writes.list {
        if let Some(group) = groups
            .iter_mut()
            .find(|g| g.controllers.contains(write.controllers))
        {
            group.writes.push(write);
        }
    }
    let mut program = None;
    if !resources.devices.is_empty() {
        if let Some(group) = groups
            .iter_mut()
            .find(|g| g.controllers.contains(Controllers::DEVICES))
        {
            let everything = Access {
                allow_by_default: true,
                exceptions: Vec::new(),
            };
            group.writes.extend(device_writes(
                &Access::from_rules(&resources.devices)?,
                &everything,
            ));
        } else {
            program = Some(device_program(&resources.devices)?);
        }
    }
    let v2 = unified(
        layout,
        request,
        resources,
        wanted.difference(in_v1).difference(V1_ONLY),
    );
    if v2.is_none() && program.take().is_some() {
        if request.policy == Policy::Strict {
            return Err(PlanError::NoController("devices".to_owned()));
        }
        losses.push("devices", Why::NoController);
    }
    if layout.kind() == crate::Kind::V2 {
        not_in_v2(resources, &mut losses);
    }
    let explicit = request.path.is_explicit();
    Ok(Plan {
        v1: groups,
        v2,
        policy: request.policy,
        explicit,
        losses,
        clamped,
        program,
    })
}

fn group(hierarchy: &Hierarchy, path: &CgroupPath) -> Group {
    let base = if path.start == Start::Root {
        hierarchy.mount_point.clone()
    } else {
        hierarchy.own_dir()
    };
    Group {
        controllers: hierarchy.controllers,
        base,
        path: path.path.clone(),
        writes: Vec::new(),
    }
}

fn unified(
    layout: &Layout,
    request: &Request<'_>,
    resources: &Resources,
    in_v2: Controllers,
) -> Option<Unified> {
    let hierarchy = layout.v2.as_ref()?;
    let needed = in_v2.union(v2::unified_controllers(resources).difference(layout.v1_controllers()));
    let asked = request.all || !needed.is_empty() || !resources.unified.is_empty();
    if !asked && !layout.v1.is_empty() {
        return None;
    }
    let mut writes = Writes::for_controllers(needed);
    v2::writes(resources, &mut writes);
    v2::unified_writes(resources, layout.v1_controllers(), &mut writes);
    Some(Unified {
        mount_point: hierarchy.mount_point.clone(),
        own_path: hierarchy.own_path.clone(),
        path: if needed.enableable().difference(KEPT_BY_SYSTEMD).is_empty() {
            request.path.clone()
        } else {
            request.path.held()
        },
        needed: needed.enableable(),
        all: request.all,
        writes: writes.list,
    })
}

/// Returns the writes that lead from `now` to `access`.
pub(crate) fn device_writes(access: &Access, now: &Access) -> impl Iterator<Item = Write> {
    access.lines_from(now).into_iter().map(|(allow, value)| Write {
        controllers: Controllers::DEVICES,
        file: Cow::Borrowed(if allow { "devices.allow" } else { "devices.deny" }),
        value,
        limit: "devices",
        absent: crate::write::Absent::Fail,
        usage: None,
    })
}

/// Returns the controllers that at least one limit in `resources` is for, devices apart.
pub(crate) fn limited(resources: &Resources) -> Controllers {
    let every = Controllers::from_list("cpu,cpuset,memory,blkio,pids,hugetlb,rdma,net_cls,net_prio", ',');
    let mut writes = Writes::for_controllers(every);
    v1::writes(resources, &mut writes);
    writes
        .list
        .iter()
        .fold(Controllers::NONE, |all, write| all.union(write.controllers))
}

fn missing(
    limited: Controllers,
    layout: &Layout,
    policy: Policy,
    losses: &mut Losses,
) -> Result<(), PlanError> {
    let absent = limited.difference(layout.v1_controllers());
    let absent = if layout.v2.is_some() {
        absent.intersection(V1_ONLY)
    } else {
        absent
    };
    for name in absent.v1_names() {
        // v2 does not have these at all, and runc ignores them there.
        if policy == Policy::Strict && layout.v2.is_none() {
            return Err(PlanError::NoController(name.to_owned()));
        }
        losses.push(name, Why::NoController);
    }
    Ok(())
}

/// Reports keys of `unified` whose controller is in v1, or all of them without v2.
fn missing_keys(
    resources: &Resources,
    layout: &Layout,
    policy: Policy,
    losses: &mut Losses,
) -> Result<(), PlanError> {
    for key in resources.unified.keys() {
        let controller = v2::key_controller(key).unwrap_or(Controllers::NONE);
        if layout.v2.is_none() || layout.v1_controllers().intersects(controller) {
            if policy == Policy::Strict {
                return Err(PlanError::NoUnified(key.clone()));
            }
            losses.push(key.clone(), Why::OtherVersion);
        }
    }
    Ok(())
}

/// Reports limits that v1 has and v2 has not; runc leaves these out silently.
fn not_in_v2(resources: &Resources, losses: &mut Losses) {
    if let Some(memory) = &resources.memory {
        let lost = [
            ("kernel memory", memory.kernel.is_some_and(|v| v > 0)),
            ("kernel tcp memory", memory.kernel_tcp.is_some_and(|v| v > 0)),
            ("memory swappiness", memory.swappiness.is_some()),
            ("oom killer", memory.disable_oom_killer == Some(true)),
        ];
        lost.iter()
            .filter(|(_, set)| *set)
            .for_each(|(name, _)| losses.push(*name, Why::OtherVersion));
    }
    if let Some(cpu) = &resources.cpu
        && (cpu.realtime_period.unwrap_or(0) != 0 || cpu.realtime_runtime.unwrap_or(0) != 0)
    {
        losses.push("cpu realtime", Why::OtherVersion);
    }
}

/// Refuses values that no kernel takes, or moves them into range if a warning suffices.
pub(crate) fn checked(
    resources: &Resources,
    policy: Policy,
    in_v1: Controllers,
) -> Result<(Cow<'_, Resources>, Vec<Warning>), PlanError> {
    for key in resources.unified.keys() {
        let file = key.contains('.') && !key.starts_with('.') && !key.contains(['/', '\0']);
        if !file {
            return Err(PlanError::UnifiedKey(key.chars().take(255).collect()));
        }
    }
    for huge in &resources.hugepage_limits {
        let digits = huge.page_size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) || huge.page_size.len() > 16 {
            return Err(PlanError::PageSize(huge.page_size.chars().take(32).collect()));
        }
    }
    if let Some(memory) = &resources.memory {
        if let Some(value) = memory.swappiness.filter(|&value| value > 100) {
            return Err(PlanError::Swappiness(value));
        }
        let (limit, swap) = (memory.limit.unwrap_or(0), memory.swap.unwrap_or(0));
        // v1 can set swap beside an old memory limit; v2 needs the difference of the two.
        if limit != 0 || !in_v1.contains(Controllers::MEMORY) {
            convert::swap_max(swap, limit).map_err(|why| PlanError::Swap { swap, why })?;
        }
    }
    let shares = resources
        .cpu
        .as_ref()
        .and_then(|cpu| cpu.shares)
        .filter(|&shares| shares != 0);
    let Some(shares) = shares.filter(|s| in_v1.contains(Controllers::CPU) && !convert::SHARES.contains(s))
    else {
        return Ok((Cow::Borrowed(resources), Vec::new()));
    };
    let used = shares.clamp(*convert::SHARES.start(), *convert::SHARES.end());
    if policy == Policy::Strict {
        let bound = if shares > used { "maximum" } else { "minimum" };
        return Err(PlanError::Shares { bound, limit: used });
    }
    let mut resources = resources.clone();
    if let Some(cpu) = &mut resources.cpu {
        cpu.shares = Some(used);
    }
    let (wanted, used) = (shares.to_string(), used.to_string());
    Ok((
        Cow::Owned(resources),
        vec![Warning::Clamped {
            limit: "cpu shares",
            wanted,
            used,
        }],
    ))
}

impl Unified {
    /// Returns the directory between the parent and the group, unless the user chose the path.
    pub(crate) fn holder(&self, parent: &Path) -> Option<PathBuf> {
        let between = self
            .path
            .as_path()
            .parent()
            .filter(|path| !path.as_os_str().is_empty());
        between
            .filter(|_| !self.path.is_explicit())
            .map(|path| parent.join(path))
    }

    /// Returns directories in which the group may be made, the best first.
    pub(crate) fn parents(&self) -> Vec<PathBuf> {
        let own = self.mount_point.join(&self.own_path);
        match self.path.start {
            Start::Root => vec![self.mount_point.clone()],
            Start::Own if self.own_path.as_os_str().is_empty() => vec![self.mount_point.clone()],
            Start::Own => vec![own.parent().unwrap_or(&self.mount_point).to_path_buf()],
            Start::Near => {
                let above = |dir: &&Path| dir.starts_with(&self.mount_point);
                own.ancestors().take_while(above).map(Path::to_path_buf).collect()
            }
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writes = |f: &mut fmt::Formatter<'_>, dir: &Path, writes: &[Write]| {
            writes
                .iter()
                .try_for_each(|w| writeln!(f, "write {} to {}/{}", w.value, dir.display(), w.file))
        };
        for group in &self.v1 {
            let dir = group.base.join(&group.path);
            writeln!(f, "mkdir {}", dir.display())?;
            writes(f, &dir, &group.writes)?;
        }
        let Some(unified) = &self.v2 else { return Ok(()) };
        let Some(parent) = unified.parents().into_iter().next() else {
            return Ok(());
        };
        let dir = parent.join(unified.path.as_path());
        let names: Vec<_> = unified.needed.v2_names().map(|name| format!("+{name}")).collect();
        let hand_out = |f: &mut fmt::Formatter<'_>, above: &Path| {
            let names = names.join(" ");
            writeln!(f, "write {names} to {}/cgroup.subtree_control", above.display())
        };
        if !names.is_empty() {
            hand_out(f, &parent)?;
        }
        if let Some(holder) = unified.holder(&parent) {
            writeln!(f, "mkdir {}", holder.display())?;
            hand_out(f, &holder)?;
        }
        writeln!(f, "mkdir {}", dir.display())?;
        writes(f, &dir, &unified.writes)?;
        if let Some(program) = &self.program {
            writeln!(
                f,
                "attach a device program of {} instructions to {}",
                program.len(),
                dir.display()
            )?;
        }
        Ok(())
    }
}
