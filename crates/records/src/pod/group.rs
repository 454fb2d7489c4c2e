//! Cgroup of a pod, with the common limits of its members, whose cgroups are inside it.
//!
//! Only a pod with limits or a given parent has one. `pods/ID/cgroup` records its path before it is made, so a kill
//! at any point leaves nothing that cannot be found.

use super::Pod;
use crate::container::fault;
use crate::resources::resources;
use crate::{EngineError, Home, cgroup};
use std::io::ErrorKind;
use tote_bundle::{ContainerId, RunOptions};
use tote_cgroup::Cgroup;
use tote_runtime::ErrandError;
use tote_sys::best_effort;

/// Name of the record in a pod's directory.
const FILE: &str = "cgroup";

/// Option for the parent of the group; all others are limits.
pub const PARENT: &str = "cgroup-parent";

/// Parses the limits as options.
///
/// # Errors
/// Fails on an invalid value.
pub fn options(limits: &[(String, String)]) -> Result<RunOptions, EngineError> {
    let mut options = RunOptions::default();
    for (option, value) in limits {
        options.set(option, value)?;
    }
    Ok(options)
}

/// Makes the group of a pod, if it needs one.
///
/// # Errors
/// [`EngineError`]; a limit that the machine does not support is a warning.
pub fn make(home: &Home, pod: &Pod, warn: &mut dyn FnMut(String)) -> Result<(), EngineError> {
    if pod.limits.is_empty() {
        return Ok(());
    }
    let options = options(&pod.limits)?;
    let resources = resources(&options, &pod.limits, &[])?;
    let plan = cgroup::plan_pod(&pod.id, &options.cgroup_parent, &resources)?;
    note(home, &pod.id, &plan.record())?;
    let (group, warnings) = Cgroup::create(&plan).map_err(ErrandError::Cgroup)?;
    fault::point("pod-grouped");
    note(home, &pod.id, &group.record())?;
    warnings.into_iter().for_each(|warning| warn(warning.to_string()));
    Ok(())
}

/// Makes the group again if it is gone, after a reboot or a manual removal. The caller needs the right to make it.
pub fn ensure(home: &Home, pod: &Pod) -> Result<(), EngineError> {
    let is_whole = || {
        // absence: the group is made once more, which keeps what is there
        let record = read(home, &pod.id).ok()??;
        // absence: the group is made once more, which keeps what is there
        let group = Cgroup::open(&record).ok()?;
        Some(group.paths().count() == record.lines().count())
    };
    if pod.limits.is_empty() || is_whole() == Some(true) {
        return Ok(());
    }
    // Unsupported limits were reported when the pod was made.
    make(home, pod, &mut |_| {})
}

/// Returns the group of the pod of that id, if it has one.
///
/// # Errors
/// Fails if the record cannot be read: a container outside the group would not be limited.
pub fn group_of(home: &Home, pod: &str) -> Result<Option<Cgroup>, EngineError> {
    let Ok(id) = pod.parse() else {
        return Ok(None);
    };
    let Some(record) = read(home, &id)? else {
        return Ok(None);
    };
    let group = Cgroup::open(&record).map_err(ErrandError::Cgroup)?;
    Ok(Some(group).filter(|group| !group.is_empty()))
}

/// Ends all processes in the group, and removes it.
///
/// # Errors
/// Fails if the group still exists; its record stays then.
pub fn remove(home: &Home, id: &ContainerId) -> Result<(), EngineError> {
    if let Some(record) = read(home, id)? {
        cgroup::clear(id, Some(&record))?;
    }
    for name in [FILE, "cgroup.new"] {
        best_effort(std::fs::remove_file(home.pod(id).join(name)));
    }
    Ok(())
}

/// Reads the record of a pod's group; `None` if it is missing, or lost in a power cut.
fn read(home: &Home, id: &ContainerId) -> Result<Option<String>, EngineError> {
    let path = home.pod(id).join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(record) => Ok(Some(record)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::InvalidData) => Ok(None),
        Err(source) => Err(EngineError::file("read", path)(source)),
    }
}

fn note(home: &Home, id: &ContainerId, record: &str) -> Result<(), EngineError> {
    let path = home.pod(id).join(FILE);
    let fresh = path.with_extension("new");
    let written = tote_state::closed::write_new(&fresh, record).and_then(|()| std::fs::rename(&fresh, &path));
    written.map_err(EngineError::file("write", path))
}
