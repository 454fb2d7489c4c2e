//! Checks whether a spec is consistent in itself; the first check that fails is the error.
//!
//! The checks never look at the host. Error texts are runc's where runc has one, since callers look for its words.

use crate::error::PlanError;
use crate::namespaces::propagation;
use crate::option;
use crate::{schedule, sysctl};
use tote_spec::{Action, IdMapping, Linux, Mount, NamespaceType, Process, Seccomp, Spec, User};

/// Longest host or domain name, in bytes: `__NEW_UTS_LEN` of linux/utsname.h.
const LONGEST_NAME: usize = 64;

/// Highest number of a user or a group, as in runc.
const HIGHEST_ID: u32 = i32::MAX as u32;

/// Upper bound of the lines in an id map that the kernel accepts.
const MOST_MAPPINGS: usize = 340;

/// Checks a spec.
///
/// # Errors
/// Error for the first contradiction, which names the property.
pub fn check(spec: &Spec) -> Result<(), PlanError> {
    root(spec)?;
    namespaces(spec)?;
    id_maps(spec)?;
    clocks(spec)?;
    names(spec)?;
    if let Some(process) = &spec.process {
        self::process(spec, process)?;
    }
    for mount in &spec.mounts {
        self::mount(spec, mount)?;
    }
    hooks(spec)?;
    let Some(linux) = &spec.linux else { return Ok(()) };
    hidden_paths(spec, linux)?;
    for key in linux.sysctl.keys() {
        sysctl::check(spec, key)?;
    }
    devices(linux)?;
    net_devices(spec, linux)?;
    if let Some(seccomp) = &linux.seccomp {
        listener(seccomp)?;
    }
    if linux.intel_rdt.is_some() {
        return invalid("intelRdt is specified in config, but Intel RDT is not enabled");
    }
    match linux.rootfs_propagation.as_deref() {
        Some(name) if !name.is_empty() && propagation(name).is_none() => {
            invalid(format!("rootfsPropagation={name} is not supported"))
        }
        _ => Ok(()),
    }
}

fn invalid<T>(text: impl Into<String>) -> Result<T, PlanError> {
    Err(PlanError::Invalid(text.into()))
}

fn has(spec: &Spec, kind: NamespaceType) -> bool {
    spec.namespace(kind).is_some()
}

fn root(spec: &Spec) -> Result<(), PlanError> {
    match &spec.root {
        None => invalid("root must be specified"),
        Some(root) if root.path.is_empty() => invalid("root.path must not be empty"),
        Some(_) => Ok(()),
    }
}

fn namespaces(spec: &Spec) -> Result<(), PlanError> {
    let all = spec.namespaces();
    for (place, namespace) in all.iter().enumerate() {
        if all[..place].iter().any(|other| other.kind == namespace.kind) {
            let kind = crate::plan::namespace_name(namespace.kind);
            return invalid(format!("malformed spec file: duplicated ns {kind:?}"));
        }
        match namespace.path.as_deref() {
            Some(path) if !path.is_empty() && !path.starts_with('/') => {
                return invalid(format!("linux.namespaces.path {path:?} is not an absolute path"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// True if a namespace of that kind is joined: an empty path counts as a missing one.
fn is_joined(spec: &Spec, kind: NamespaceType) -> bool {
    let namespace = spec.namespace(kind);
    namespace.is_some_and(|namespace| namespace.path.as_ref().is_some_and(|path| !path.is_empty()))
}

fn id_maps(spec: &Spec) -> Result<(), PlanError> {
    let Some(linux) = &spec.linux else { return Ok(()) };
    let maps = [&linux.uid_mappings, &linux.gid_mappings];
    let given = maps.iter().any(|map| !map.is_empty());
    if !has(spec, NamespaceType::User) {
        return if given {
            invalid("user namespace mappings specified, but user namespace isn't enabled in the config")
        } else {
            Ok(())
        };
    }
    match (is_joined(spec, NamespaceType::User), given) {
        // Whether both are the same namespace can be checked by the code that opens it.
        (false, false) => {
            invalid("user namespaces enabled, but no namespace path to join nor mappings to apply specified")
        }
        _ => {
            id_map("linux.uidMappings", &linux.uid_mappings)?;
            id_map("linux.gidMappings", &linux.gid_mappings)
        }
    }
}

fn id_map(what: &str, map: &[IdMapping]) -> Result<(), PlanError> {
    if map.len() > MOST_MAPPINGS {
        return invalid(format!("{what} has more than {MOST_MAPPINGS} lines"));
    }
    for line in map {
        let fits = |first: u32| first.checked_add(line.size).is_some();
        if line.size == 0 || !fits(line.container_id) || !fits(line.host_id) {
            return invalid(format!(
                "{what} {}:{}:{} is not a range of ids",
                line.container_id, line.host_id, line.size
            ));
        }
    }
    Ok(())
}

fn clocks(spec: &Spec) -> Result<(), PlanError> {
    let Some(linux) = &spec.linux else { return Ok(()) };
    if linux.time_offsets.is_empty() {
        return Ok(());
    }
    if !has(spec, NamespaceType::Time) {
        return invalid("time namespace offsets specified, but time namespace isn't enabled in the config");
    }
    if is_joined(spec, NamespaceType::Time) {
        return invalid(
            "time namespace enabled, but both namespace path and time offsets specified -- you may only provide one",
        );
    }
    for (clock, offset) in &linux.time_offsets {
        if !matches!(clock.as_str(), "monotonic" | "boottime") {
            return invalid(format!(
                "linux.timeOffsets {clock:?} is not monotonic or boottime"
            ));
        }
        if offset.nanosecs >= 1_000_000_000 {
            return invalid(format!(
                "linux.timeOffsets {clock:?} has more than a second of nanoseconds"
            ));
        }
    }
    Ok(())
}

fn names(spec: &Spec) -> Result<(), PlanError> {
    for (what, name) in [("hostname", &spec.hostname), ("domainname", &spec.domainname)] {
        let Some(name) = name.as_ref().filter(|name| !name.is_empty()) else {
            continue;
        };
        if !has(spec, NamespaceType::Uts) {
            return invalid(format!("unable to set {what} without a private UTS namespace"));
        }
        if name.len() > LONGEST_NAME {
            return invalid(format!("{what} is longer than {LONGEST_NAME} bytes"));
        }
    }
    Ok(())
}

fn process(spec: &Spec, process: &Process) -> Result<(), PlanError> {
    if process.cwd.is_empty() {
        return invalid("Cwd property must not be empty");
    }
    if !process.cwd.starts_with('/') {
        return invalid("Cwd must be an absolute path");
    }
    if process.args.is_empty() {
        return invalid("args must not be empty");
    }
    for (place, rlimit) in process.rlimits.iter().enumerate() {
        let kind = &rlimit.kind;
        if process.rlimits[..place].iter().any(|other| other.kind == *kind) {
            return invalid(format!("rlimits has {kind:?} more than once"));
        }
        if rlimit.soft > rlimit.hard {
            return invalid(format!("rlimit {kind:?} has a soft limit above its hard one"));
        }
    }
    if process
        .oom_score_adj
        .is_some_and(|score| !(-1000..=1000).contains(&score))
    {
        return invalid("oomScoreAdj is not between -1000 and 1000");
    }
    if process.user.umask.is_some_and(|umask| umask > 0o777) {
        return invalid("user.umask is more than 0777");
    }
    ids(&process.user)?;
    schedule(spec, process)?;
    let resources = spec.linux.as_ref().and_then(|linux| linux.resources.as_ref());
    let processors = resources.and_then(|resources| resources.cpu.as_ref()?.cpus.as_deref());
    let policy = process
        .scheduler
        .as_ref()
        .map(|scheduler| scheduler.policy.as_str());
    if policy == Some("SCHED_DEADLINE") && processors.is_some_and(|list| !list.is_empty()) {
        return invalid("process scheduler can't be used together with AllowedCPUs");
    }
    Ok(())
}

/// Checks the numbers of a process's user and groups.
///
/// setresuid(2) and setresgid(2) take the highest 32-bit number as "no change": a process that asked for that user
/// would stay root.
pub(crate) fn ids(user: &User) -> Result<(), PlanError> {
    let mut all = [user.uid, user.gid]
        .into_iter()
        .chain(user.additional_gids.iter().copied());
    all.try_for_each(in_range)
}

fn in_range(id: u32) -> Result<(), PlanError> {
    if id <= HIGHEST_ID {
        return Ok(());
    }
    invalid(format!(
        "invalid id {id}: uids and gids must be in range 0-{HIGHEST_ID}"
    ))
}

fn mount(spec: &Spec, mount: &Mount) -> Result<(), PlanError> {
    let refused = |why: &str| invalid(format!("invalid mount {:?}: {why}", mount.destination));
    if mount.destination.is_empty() {
        return refused("destination must not be empty");
    }
    let options = option::parse(&mount.options);
    let is_bind = options.bind || mount.kind.as_deref() == Some("bind");
    let (uid, gid) = (&mount.uid_mappings, &mount.gid_mappings);
    if uid.is_empty() && gid.is_empty() && options.idmap.is_none() {
        return Ok(());
    }
    if !is_bind {
        return refused("id-mapped mounts are only supported for bind-mounts");
    }
    let implied = uid.is_empty() && gid.is_empty() && has(spec, NamespaceType::User);
    if !implied && (uid.is_empty() || gid.is_empty()) {
        return refused("id-mapped mounts must have both uid and gid mappings specified");
    }
    id_map("uidMappings", uid)?;
    id_map("gidMappings", gid)
}

fn hooks(spec: &Spec) -> Result<(), PlanError> {
    let Some(hooks) = &spec.hooks else { return Ok(()) };
    let all = [
        &hooks.prestart,
        &hooks.create_runtime,
        &hooks.create_container,
        &hooks.start_container,
        &hooks.poststart,
        &hooks.poststop,
    ];
    for hook in all.into_iter().flatten() {
        if !hook.path.starts_with('/') {
            return invalid(format!("hook path {:?} is not an absolute path", hook.path));
        }
        if hook.timeout.is_some_and(|seconds| seconds <= 0) {
            return invalid(format!(
                "hook {:?} has a timeout that is not greater than zero",
                hook.path
            ));
        }
    }
    Ok(())
}

fn hidden_paths(spec: &Spec, linux: &Linux) -> Result<(), PlanError> {
    let mut paths = linux.masked_paths.iter().chain(&linux.readonly_paths);
    if !has(spec, NamespaceType::Mount) && paths.clone().next().is_some() {
        return invalid("unable to restrict sys entries without a private MNT namespace");
    }
    match paths.find(|path| !path.starts_with('/')) {
        Some(path) => invalid(format!(
            "maskedPaths and readonlyPaths: {path:?} is not an absolute path"
        )),
        None => Ok(()),
    }
}

fn devices(linux: &Linux) -> Result<(), PlanError> {
    for device in &linux.devices {
        if !device.path.starts_with('/') {
            return invalid(format!("device {:?} is not an absolute path", device.path));
        }
        // Bounds are those of makedev(3): 12 bits and 20.
        let numbers = (0..=0xfff).contains(&device.major) && (0..=0xf_ffff).contains(&device.minor);
        if !numbers {
            return invalid(format!(
                "device {:?}: {}:{} is not a device number",
                device.path, device.major, device.minor
            ));
        }
        for id in [device.uid, device.gid].into_iter().flatten() {
            in_range(id)?;
        }
    }
    Ok(())
}

fn net_devices(spec: &Spec, linux: &Linux) -> Result<(), PlanError> {
    if linux.net_devices.is_empty() {
        return Ok(());
    }
    if !has(spec, NamespaceType::Network) {
        return invalid("unable to move network devices without a NET namespace");
    }
    // Rules are those of the kernel's dev_valid_name().
    let is_name = |name: &str| {
        (1..16).contains(&name.len()) && !matches!(name, "." | "..") && !name.contains(['/', ':', ' '])
    };
    for (name, device) in &linux.net_devices {
        let inside = device.name.as_ref().filter(|inside| !inside.is_empty());
        if let Some(name) = [Some(name), inside]
            .into_iter()
            .flatten()
            .find(|name| !is_name(name))
        {
            return invalid(format!("invalid network device name {name:?}"));
        }
    }
    Ok(())
}

fn listener(seccomp: &Seccomp) -> Result<(), PlanError> {
    if seccomp.default_action == Action::Notify {
        return invalid("SCMP_ACT_NOTIFY cannot be used as default action");
    }
    let notified = seccomp
        .syscalls
        .iter()
        .filter(|rule| rule.action == Action::Notify);
    let mut names = notified.flat_map(|rule| &rule.names).peekable();
    if names.peek().is_none() {
        return Ok(());
    }
    // `sendmsg` is the call that sends the listener, so the reader could not answer it yet; runc refuses `write` for
    // the same reason.
    if let Some(name) = names.find(|name| matches!(name.as_str(), "write" | "sendmsg")) {
        return invalid(format!("SCMP_ACT_NOTIFY cannot be used for the {name} syscall"));
    }
    match seccomp.listener_path.as_deref() {
        None | Some("") => invalid("no seccomp listenerPath set, although SCMP_ACT_NOTIFY is used"),
        Some(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{check, ids};
    use tote_spec::{Spec, User};

    #[test]
    fn ids_that_mean_something_else_to_the_kernel() {
        for (uid, gid, group, good) in [
            (0, 0, 0, true),
            (2_147_483_647, 2_147_483_647, 2_147_483_647, true),
            (u32::MAX, 0, 0, false),
            (0, u32::MAX, 0, false),
            (0, 0, u32::MAX, false),
            (2_147_483_648, 0, 0, false),
        ] {
            let user = User {
                uid,
                gid,
                additional_gids: vec![0, group],
                ..User::default()
            };
            assert_eq!(ids(&user).is_ok(), good, "{user:?}");
            let text = format!(
                r#"{{"ociVersion":"1.0.0","root":{{"path":"r"}},"process":{{"cwd":"/","args":["x"],
                "user":{{"uid":{uid},"gid":{gid},"additionalGids":[{group}]}}}}}}"#
            );
            let spec: Spec = serde_json::from_str(&text).unwrap();
            assert_eq!(check(&spec).is_ok(), good, "{text}");
        }
    }

    #[test]
    fn owners_of_devices() {
        for (uid, good) in [(1000, true), (u32::MAX, false)] {
            let text = format!(
                r#"{{"ociVersion":"1.0.0","root":{{"path":"r"}},"linux":{{"devices":[
                {{"path":"/dev/x","type":"c","major":1,"minor":3,"uid":{uid}}}]}}}}"#
            );
            let spec: Spec = serde_json::from_str(&text).unwrap();
            assert_eq!(check(&spec).is_ok(), good, "{text}");
        }
    }
}
