//! Cgroup of the container: the plan from the spec, and its place.

use crate::specification::is_before_1_3;
use crate::{GroupError, Id, OciError};
use rustix::fs::Access;
use std::path::{Path, PathBuf};
use tote_cgroup::{Cgroup, CgroupPath, GroupPlace, Layout, Plan, Policy, Request, default_device_rules};
use tote_spec::{Resources, Spec};

/// Plan of a cgroup, and the parts that the container is to see of it.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) plan: Plan,
    /// Name and path of each v1 directory.
    pub(crate) legacy: Vec<(String, String)>,
    pub(crate) unified: bool,
    /// True if the caller may make each of the v1 directories: directories that cannot be made cannot be shown.
    pub(crate) is_makeable: bool,
    /// Place of the cgroup, as [`Cgroup::record`] writes it.
    pub(crate) record: String,
}

/// Plans a group in every hierarchy, as other OCI runtimes make them.
pub(crate) fn plan(id: &Id, spec: &Spec, root: bool, systemd: bool) -> Result<Planned, OciError> {
    let layout = Layout::read()?;
    let linux = spec.linux.as_ref();
    let wanted = linux
        .and_then(|linux| linux.cgroups_path.as_deref())
        .filter(|path| !path.is_empty());
    let wanted = if systemd {
        Some(scope(id, wanted, runs_systemd())?)
    } else {
        wanted.map(ToOwned::to_owned)
    };
    let wanted = wanted.as_deref();
    let path = match wanted {
        Some(path) => CgroupPath::from_oci(path)?,
        None => own_name(id, root)?,
    };
    let mut resources = linux
        .and_then(|linux| linux.resources.clone())
        .unwrap_or_default();
    device_rules(&mut resources, root);
    no_processes_is_no_limit(&mut resources, &spec.oci_version);
    let plan = tote_cgroup::plan(
        &layout,
        &Request {
            path: &path,
            resources: &resources,
            also: tote_cgroup::Controllers::NONE,
            all: true,
            policy: Policy::Strict,
        },
    )?;
    let mut places = Vec::new();
    let (mut legacy, mut is_makeable) = (Vec::new(), true);
    for (controllers, path) in plan.v1_directories() {
        let makeable = root || may_make(&path);
        is_makeable &= makeable;
        if makeable {
            places.push(GroupPlace::v1(controllers, path.clone()));
        }
        if let Some(name) = layout.v1_name(&path) {
            legacy.push((name, path.display().to_string()));
        }
    }
    let unified = plan.uses_v2();
    if unified && let Some(hierarchy) = &layout.v2 {
        for parent in parents(wanted, &hierarchy.mount_point, &hierarchy.own_dir()) {
            let path = parent.join(path.as_path());
            if root || may_make(&path) {
                places.push(GroupPlace::v2(path));
            }
        }
    }
    Ok(Planned {
        plan,
        legacy,
        unified,
        is_makeable,
        record: GroupPlace::record(places),
    })
}

/// Path that exists if systemd has booted this host: sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";

/// Returns the path for a caller who leaves cgroups to systemd; errors have runc's words.
fn scope(id: &Id, wanted: Option<&str>, booted: bool) -> Result<String, OciError> {
    if !booted {
        return Err(OciError::Usage(format!(
            "systemd cgroup flag passed, but systemd support for managing cgroups is not available: {SYSTEMD} is not there"
        )));
    }
    match wanted {
        None => Ok(format!(":tote:{id}")),
        Some(path) if !path.contains('/') && path.matches(':').count() == 2 => Ok(path.to_owned()),
        Some(path) => Err(OciError::Usage(format!(
            "expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got {path:?} instead"
        ))),
    }
}

/// Returns the name if the spec has none. Users may have containers of the same id as root, below the same group.
fn own_name(id: &Id, root: bool) -> Result<CgroupPath, OciError> {
    let name = if root {
        id.to_string()
    } else {
        format!("{id}.{}", rustix::process::geteuid().as_raw())
    };
    Ok(CgroupPath::from_name(&name)?)
}

/// True if systemd runs this machine.
fn runs_systemd() -> bool {
    // absence: groups are made without systemd, by their paths
    std::fs::metadata(SYSTEMD).is_ok_and(|found| found.is_dir())
}

/// True if the caller could make that group. An existing one of the same name may be root's and must not be touched.
fn may_make(path: &Path) -> bool {
    // absence: the access that is asked for next fails there as well
    let there = path
        .ancestors()
        .skip(1)
        .find(|above| above.try_exists().unwrap_or(true));
    there.is_some_and(|above| rustix::fs::access(above, Access::WRITE_OK).is_ok())
}

/// Returns the bundle's rules, and after them the devices that every container may use. Only root can set rules.
pub(crate) fn device_rules(resources: &mut Resources, root: bool) {
    if root {
        // The first default rule forbids everything, which the bundle's own rules have done already.
        resources
            .devices
            .extend(default_device_rules().into_iter().skip(1));
    } else {
        resources.devices.clear();
    }
}

/// Takes a limit of 0 processes as unlimited before version 1.3 of the specification, which gave it the kernel's
/// meaning: podman writes 0 for `--pids-limit -1`, which its manual calls unlimited.
fn no_processes_is_no_limit(resources: &mut Resources, version: &str) {
    let is_old = is_before_1_3(version);
    if let Some(pids) = resources
        .pids
        .as_mut()
        .filter(|pids| is_old && pids.limit == Some(0))
    {
        pids.limit = Some(-1);
    }
}

/// Returns directories of v2 in which the group may be made.
fn parents(wanted: Option<&str>, mount_point: &Path, own: &Path) -> Vec<PathBuf> {
    match wanted {
        Some(path) if path.starts_with('/') || !path.contains('/') && path.matches(':').count() == 2 => {
            vec![mount_point.to_owned()]
        }
        Some(_) if own == mount_point => vec![mount_point.to_owned()],
        Some(_) => own.parent().map(Path::to_owned).into_iter().collect(),
        None => own
            .ancestors()
            .take_while(|base| base.starts_with(mount_point))
            .map(Path::to_owned)
            .collect(),
    }
}

/// Makes sure that the group of that name is unused. Joining another container's group would put this container under
/// that one's limits and, at the end, kill that one's processes as well.
pub(crate) fn check_unused(record: &str) -> Result<(), OciError> {
    // absence: the group is opened, which reports the error
    let may_be_there = |place: GroupPlace| place.path.try_exists().unwrap_or(true);
    if !GroupPlace::readable(record).any(may_be_there) {
        return Ok(());
    }
    let cgroup = Cgroup::open(record)?;
    let members = cgroup.pids()?.len();
    if members > 0 {
        return Err(OciError::Group(GroupError::CgroupInUse(format!(
            "container's cgroup is not empty: {members} process(es) found"
        ))));
    }
    if cgroup.is_frozen()? {
        return Err(OciError::Group(GroupError::CgroupInUse(
            "container's cgroup unexpectedly frozen".to_owned(),
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_group_of_v2_may_lie() {
        let (mount, own) = (Path::new("/m"), Path::new("/m/a/b"));
        let paths = |wanted| -> Vec<String> {
            let found = parents(wanted, mount, own);
            found.iter().map(|path| path.display().to_string()).collect()
        };
        assert_eq!(paths(Some("/x/y")), ["/m"]);
        assert_eq!(paths(Some("a.slice:docker:x")), ["/m"]);
        assert_eq!(paths(Some("x/y")), ["/m/a"]);
        assert_eq!(paths(None), ["/m/a/b", "/m/a", "/m"]);
        assert_eq!(parents(Some("x"), mount, mount), [mount]);
    }

    #[test]
    fn scopes_of_systemd() {
        let id: Id = "web".parse().unwrap();
        assert_eq!(scope(&id, None, true).unwrap(), ":tote:web");
        assert_eq!(scope(&id, Some("a.slice:b:c"), true).unwrap(), "a.slice:b:c");
        for (wanted, booted, words) in [
            (Some("/a/b"), true, "slice:prefix:name"),
            (Some("a:b"), true, "slice:prefix:name"),
            (
                Some("a.slice:b:c"),
                false,
                "systemd support for managing cgroups is not available",
            ),
        ] {
            let error = scope(&id, wanted, booted).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn limits_of_no_processes() {
        for (version, limit, expected) in [
            ("1.0.2", 0, -1),
            ("1.2.1-dev", 0, -1),
            ("0.9", 0, -1),
            ("1.3.0", 0, 0),
            ("2.0.0", 0, 0),
            ("1.0.2", 7, 7),
        ] {
            let pids = Some(tote_spec::Pids { limit: Some(limit) });
            let mut resources = Resources {
                pids,
                ..Resources::default()
            };
            no_processes_is_no_limit(&mut resources, version);
            let found = resources.pids.and_then(|pids| pids.limit);
            assert_eq!(found, Some(expected), "{version} {limit}");
        }
    }

    #[test]
    fn rules_follow_the_bundles() {
        let mut resources = Resources {
            devices: vec![tote_spec::DeviceRule::default()],
            ..Resources::default()
        };
        device_rules(&mut resources, true);
        assert!(!resources.devices[0].allow && resources.devices[1..].iter().all(|rule| rule.allow));
        device_rules(&mut resources, false);
        assert!(resources.devices.is_empty());
    }
}
